"""The last stable offset, who holds it, and the consumers that wait for it."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    AUDIT_FINDINGS,
    AUDIT_RECORDS,
    GROUP_BLOCKED_OFFSETS,
    GROUP_MEMBERS,
    GROUP_READ_COMMITTED_LAG_OFFSETS,
    GROUP_READ_COMMITTED_LAG_RECORDS,
    GROUP_UNSTABLE_OFFSET_PARTITIONS,
    HANGING_TRANSACTIONS,
    IGNORED_INFO,
    LSO_BLOCKER_INFO,
    LSO_HOLDER_DUE_TIMESTAMP_SECONDS,
    LSO_HOLDER_PARTITIONS,
    LSO_LAG_OFFSETS,
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    MARKERS_AUDIT,
    OWNER_INFO,
    STALLED_PARTITIONS,
    TOPIC_LSO_LAG_OFFSETS,
    TOPIC_THRESHOLD_SECONDS,
    TOPIC_WITHHELD_RECORD_AGE_SECONDS,
)
from exporter.dashboards.board import Board, Line, PanelRow, Variable
from exporter.dashboards.panels import (
    GREEN,
    KIND_COLOURS,
    NEUTRAL,
    ORANGE,
    RED,
    YELLOW,
    Column,
    Query,
    lines,
    stat,
    table,
    timeline,
)
from exporter.dashboards.queries import now, numbered, total
from exporter.dashboards.shared import (
    LSO,
    TO_APPLICATION,
    groups_held_up,
    holders,
    longest_stall,
    stalled_partitions,
)

OF_TOPIC = 'topic=~"$topic"'
OF_GROUP = 'group=~"$group"'
_PARTITION = "{{kafka_cluster}} {{topic}}-{{partition}}"

MARKERS = f'audit="{MARKERS_AUDIT}"'


def board() -> Board:
    """Last stable offsets by topic, consumers by group."""
    return Board(
        uid=LSO,
        title="Kafka EOS / Last stable offset and consumers",
        description="Last stable offsets that do not move, their holders, and the consumer groups that wait.",
        variables=(
            Variable("topic", "Topic", STALLED_PARTITIONS),
            Variable("group", "Consumer group", GROUP_READ_COMMITTED_LAG_OFFSETS),
        ),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow(
                "Stalls",
                (
                    Line(7, (_transactions(),)),
                    Line(7, (holders(OF_TOPIC),)),
                    Line(8, (_stalls(), _stalled_for()), (14, 10)),
                    Line(8, (_withheld(),)),
                    Line(8, (_behind(), _topic_lag())),
                    Line(5, (_ignored(), _owners())),
                ),
            ),
            PanelRow(
                "Consumer groups",
                (Line(8, (_blocked(), _lag())), Line(8, (_groups(), _members()))),
            ),
        ),
    )


def _now() -> tuple[core.Panel, ...]:
    return (
        stalled_partitions(),
        stat(
            "Hanging transactions",
            "Open in a partition's log and unknown to every coordinator: no coordinator will end them.",
            total(now(HANGING_TRANSACTIONS, OF_TOPIC)),
        ),
        stat(
            "Torn transactions",
            "Committed transactions that lack their commit marker in a partition, or have an abort marker there.",
            total(now(AUDIT_FINDINGS, OF_TOPIC, 'kind="torn_commit"'))
            + f" or {total(now(AUDIT_RECORDS, MARKERS))} * 0",
        ),
        longest_stall(OF_TOPIC),
        stat(
            "Largest LSO lag",
            "Offsets between last stable offset and high watermark in the partition where most are: a busy topic "
            "always has some.",
            f"max({now(TOPIC_LSO_LAG_OFFSETS, OF_TOPIC)})",
            "short",
            NEUTRAL,
        ),
        stat(
            "Groups held up",
            "Consumer groups that wait for a stalled partition: there is more than a read_committed reader can get.",
            groups_held_up(OF_TOPIC, OF_GROUP),
            steps=((None, GREEN), (1, ORANGE)),
        ),
        stat(
            "Offsets held up",
            "Sum over all groups of the records that they cannot read yet because a transaction is open.",
            total(now(GROUP_BLOCKED_OFFSETS, OF_TOPIC, OF_GROUP)),
            "short",
            ((None, GREEN), (1, YELLOW)),
        ),
    )


def _stalls() -> core.Panel:
    kinds = numbered(LSO_BLOCKER_INFO, "kind", KIND_COLOURS, OF_TOPIC, first=1)
    return timeline(
        "Stalled partitions, and what the coordinator says of their holders",
        "A band for each stalled partition, coloured by the kind of the transaction that holds it.",
        Query(f"max by (kafka_cluster, topic, partition) ({kinds})", _PARTITION),
        states=[(number, kind, colour) for number, (kind, colour) in enumerate(KIND_COLOURS.items(), 1)],
    )


def _withheld() -> core.Panel:
    return lines(
        "Age of the oldest withheld record",
        "How old the oldest record of a topic is that read_committed readers are not given: how late they are.",
        Query(now(TOPIC_WITHHELD_RECORD_AGE_SECONDS, OF_TOPIC), "{{kafka_cluster}} {{topic}}"),
        "s",
    )


def _stalled_for() -> core.Panel:
    return lines(
        "Stalled for",
        "Time since the last stable offset moved. The agent says stalled after its threshold; the levels are the "
        "topic's thresholds.",
        [
            Query(f"time() - {now(LSO_STALLED_SINCE_TIMESTAMP_SECONDS, OF_TOPIC)}", _PARTITION),
            Query(now(TOPIC_THRESHOLD_SECONDS, OF_TOPIC), "{{kafka_cluster}} {{topic}} {{threshold}}"),
        ],
        "s",
    )


def _transactions() -> core.Panel:
    by = "kafka_cluster, application, transactional_id, producer_id, kind"
    return table(
        "Transactions that hold stalled partitions",
        "One row for each holder, however many partitions it holds. Below 0: the alert fires. The next step is on the "
        "agent's status page.",
        [
            now(LSO_HOLDER_PARTITIONS),
            *(
                f"min by ({by}) ({now(LSO_HOLDER_DUE_TIMESTAMP_SECONDS, severity)}) - time()"
                for severity in ('severity="warning"', 'severity="critical"')
            ),
        ],
        [
            Column("application", "Application", link=TO_APPLICATION),
            Column("transactional_id", "Transactional id", empty="not known"),
            Column("producer_id", "Producer id", width=120),
            Column("kind", "Kind", colours=KIND_COLOURS, width=110),
            Column("Value #A", "Partitions", "short", width=120),
            Column("Value #B", "Ticket in", "s", steps=((None, ORANGE), (0, GREEN)), width=120),
            Column("Value #C", "Page in", "s", steps=((None, RED), (0, GREEN)), width=120),
            Column("kafka_cluster", "Cluster", width=120),
        ],
        sort=["Partitions"],
        none="no partition is known to be stalled",
    )


def _ignored() -> core.Panel:
    return table(
        "Ignored by the agent's settings",
        "Subjects whose thresholds are switched off, and why: no alert fires for them.",
        [now(IGNORED_INFO)],
        [Column("kind", "Kind"), Column("subject", "Subject"), Column("reason", "Why")],
        sort=["Subject"],
        none="nothing is known to be ignored",
    )


def _owners() -> core.Panel:
    return table(
        "Owners",
        "The team that owns a subject by the agent's settings; of kind holder, a producer id that holds partitions.",
        [now(OWNER_INFO)],
        [Column("owner", "Owner"), Column("kind", "Kind"), Column("subject", "Subject")],
        sort=["Owner"],
        none="the settings have no owners",
    )


def _behind() -> core.Panel:
    return lines(
        "Offsets behind each stall",
        "High watermark minus last stable offset of the stalled partitions.",
        Query(now(LSO_LAG_OFFSETS, OF_TOPIC), _PARTITION),
    )


def _topic_lag() -> core.Panel:
    return lines(
        "LSO lag by topic",
        "Of the partition where it is largest, the ten topics with most. Short teeth are healthy transactions; a ramp "
        "is one that does not end.",
        Query(
            f"topk(10, max by (kafka_cluster, topic) ({now(TOPIC_LSO_LAG_OFFSETS, OF_TOPIC)}))",
            "{{kafka_cluster}} {{topic}}",
        ),
    )


def _blocked() -> core.Panel:
    return lines(
        "Offsets that groups cannot read yet",
        "High watermark minus last stable offset on the group's partitions.",
        Query(
            f"topk(10, {total(now(GROUP_BLOCKED_OFFSETS, OF_TOPIC, OF_GROUP), 'kafka_cluster, group, topic')})",
            "{{kafka_cluster}} {{group}} / {{topic}}",
        ),
    )


def _lag() -> core.Panel:
    behind = now(GROUP_READ_COMMITTED_LAG_OFFSETS, OF_TOPIC, OF_GROUP)
    readable = total(behind, "kafka_cluster, group, topic")
    return lines(
        "Lag as read_committed readers have it",
        "Last stable offset minus committed offset: what the group could read now and has not. Zero with offsets held "
        "up beside it means that the group is fine and a transaction is not.",
        Query(
            f"topk(10, {readable})",
            "{{kafka_cluster}} {{group}} / {{topic}}",
        ),
    )


def _members() -> core.Panel:
    return lines(
        "Members of groups of the newer protocols",
        "Of consumer (KIP-848), share (KIP-932) and Streams groups (KIP-1071), the twenty largest.",
        Query(
            f"topk(20, {total(now(GROUP_MEMBERS, OF_GROUP), 'kafka_cluster, group, kind')})",
            "{{kafka_cluster}} {{group}}, {{kind}}",
        ),
        "none",
    )


def _groups() -> core.Panel:
    by = "kafka_cluster, group, topic"
    held = total(now(GROUP_UNSTABLE_OFFSET_PARTITIONS, OF_TOPIC, OF_GROUP), by)
    return table(
        "Groups, and what they wait for",
        "Held up: not readable yet, because of an open transaction. Behind: readable, and not read yet. Records:"
        " the same without control records and aborted transactions, where it is known. Own offsets held: partitions"
        " whose offset is committed in a transaction that is open; a consumer that starts waits for it.",
        [
            total(now(GROUP_BLOCKED_OFFSETS, OF_TOPIC, OF_GROUP), by),
            total(now(GROUP_READ_COMMITTED_LAG_OFFSETS, OF_TOPIC, OF_GROUP), by),
            total(now(GROUP_READ_COMMITTED_LAG_RECORDS, OF_TOPIC, OF_GROUP), by),
            f"{held} or 0 * {total(now(GROUP_BLOCKED_OFFSETS, OF_TOPIC, OF_GROUP), by)}",
        ],
        [
            Column("group", "Group"),
            Column("topic", "Topic"),
            Column("Value #A", "Held up", "short", steps=((None, GREEN), (1, ORANGE)), width=160),
            Column("Value #B", "Behind", "short", width=160),
            Column("Value #C", "Records", "short", width=160),
            Column("Value #D", "Own offsets held", "short", steps=((None, GREEN), (1, ORANGE)), width=160),
        ],
        sort=["Held up"],
    )
