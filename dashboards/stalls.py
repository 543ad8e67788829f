"""The last stable offset, who holds it, and the consumers that wait for it."""

from __future__ import annotations

from grafanalib import core

from exporter import catalogue
from exporter.dashboards import figures
from exporter.dashboards.board import STALLS, Dashboard, PanelRow, Variable
from exporter.dashboards.panels import ANY_IS_ODD, KIND_COLOURS, Column, Query, lines, stat, table, timeline
from exporter.dashboards.queries import age, now, numbered, total
from exporter.dashboards.shared import holders

_TOPIC, _GROUP = 'topic=~"$topic"', 'group=~"$group"'
_MARKERS = f'audit="{catalogue.MARKERS_AUDIT}"'
_PARTITION = "{{kafka_cluster}} {{topic}}-{{partition}}"
_OF_GROUP = "{{kafka_cluster}} {{group}} / {{topic}}"


def _kinds() -> core.Panel:
    kinds = numbered(catalogue.LSO_BLOCKER_INFO, "kind", KIND_COLOURS, _TOPIC, first=1)
    return timeline(
        "What do the coordinators say of the holders?",
        "A band for each stalled partition, coloured by the kind of the transaction that holds it.",
        Query(f"max by (kafka_cluster, topic, partition) ({kinds})", _PARTITION),
        [(number, kind, colour) for number, (kind, colour) in enumerate(KIND_COLOURS.items(), 1)],
    )


def _lag_of_topics() -> core.Panel:
    largest = f"max by (kafka_cluster, topic) ({now(catalogue.TOPIC_LSO_LAG_OFFSETS, _TOPIC)})"
    return lines(
        "How many offsets are not stable, by topic?",
        "High watermark minus last stable offset of the worst partition: short teeth are healthy transactions, a ramp"
        " is one that does not end.",
        Query(f"topk(10, {largest})", "{{kafka_cluster}} {{topic}}"),
    )


def _groups() -> core.Panel:
    by = "kafka_cluster, group, topic"
    blocked, behind, records, unstable = (
        total(now(metric, _TOPIC, _GROUP), by)
        for metric in (
            catalogue.GROUP_BLOCKED_OFFSETS,
            catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS,
            catalogue.GROUP_READ_COMMITTED_LAG_RECORDS,
            catalogue.GROUP_UNSTABLE_OFFSET_PARTITIONS,
        )
    )
    return table(
        "Which groups wait, and for how much?",
        "Offsets held up by open transactions, offsets and records that could be read, and partitions whose own"
        " committed offset is in an open transaction.",
        [blocked, behind, records, f"{unstable} or 0 * {blocked}"],
        [
            Column("group", "Group"),
            Column("topic", "Topic"),
            Column("Value #A", "Held up", "short", steps=ANY_IS_ODD, width=160),
            Column("Value #B", "Behind", "short", width=160),
            Column("Value #C", "Records", "short", width=160),
            Column("Value #D", "Own offsets held", "short", steps=ANY_IS_ODD, width=160),
        ],
        sort=["Held up"],
    )


def _members() -> core.Panel:
    members = total(now(catalogue.GROUP_MEMBERS, _GROUP), "kafka_cluster, group, kind")
    return lines(
        "How many members have groups of the newer protocols?",
        "Of consumer (KIP-848), share (KIP-932) and Streams groups (KIP-1071), the twenty largest.",
        Query(f"topk(20, {members})", "{{kafka_cluster}} {{group}}, {{kind}}"),
        "none",
    )


_STALLED_FOR = lines(
    "How long are they stalled?",
    "Time since the last stable offset moved; the levels are the topic's thresholds.",
    [
        Query(age(now(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, _TOPIC)), _PARTITION),
        Query(
            f"{now(catalogue.TOPIC_THRESHOLD_SECONDS, _TOPIC)} and on (kafka_cluster, topic)"
            f" {now(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, _TOPIC)}",
            "{{kafka_cluster}} {{topic}} {{threshold}}",
        ),
    ],
    "s",
)
_WITHHELD = lines(
    "How late are readers, by topic?",
    "Age of the oldest record that read_committed readers are not given.",
    Query(now(catalogue.TOPIC_WITHHELD_RECORD_AGE_SECONDS, _TOPIC), "{{kafka_cluster}} {{topic}}"),
    "s",
)
_IGNORED = table(
    "What is ignored, and why?",
    "Subjects whose thresholds are switched off by the agent's settings: no alert fires for them.",
    [now(catalogue.IGNORED_INFO)],
    [Column("kind", "Kind"), Column("subject", "Subject"), Column("reason", "Why")],
    sort=["Subject"],
    none="nothing is known to be ignored",
)


def board() -> Dashboard:
    """Stalls by topic, consumers by group."""
    numbers = (
        figures.STALLED.on(_TOPIC),
        figures.HANGING.on(_TOPIC),
        stat(
            "Torn transactions",
            "Committed transactions that lack their commit marker in a partition, or have an abort marker there.",
            total(now(catalogue.AUDIT_FINDINGS, _TOPIC, 'kind="torn_commit"'))
            + f" or {total(now(catalogue.AUDIT_RECORDS, _MARKERS))} * 0",
            none="not audited",
        ),
        figures.HELD_UP.on(_TOPIC, _GROUP),
    )
    return Dashboard(
        uid=STALLS,
        title="Stalls",
        description="Last stable offsets that do not move, their holders, and the consumer groups that wait.",
        variables=(
            Variable("topic", "Topic", catalogue.STALLED_PARTITIONS),
            Variable("group", "Consumer group", catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS),
        ),
        rows=(
            PanelRow("Is anything stalled?", (numbers,)),
            PanelRow(
                "By whom, and since when?",
                ((holders(_TOPIC),), (_kinds(), _STALLED_FOR), (_WITHHELD, _lag_of_topics())),
            ),
            PanelRow("Who waits?", ((_groups(),), (_members(), _IGNORED))),
        ),
    )
