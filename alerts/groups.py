"""Rows about consumer groups: the lag of a read_committed reader, and offsets committed outside of transactions."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    GROUP_BLOCKED_OFFSETS,
    GROUP_OFFSET_COMMITS_TOTAL,
    GROUP_OFFSET_REWINDS_TOTAL,
    GROUP_READ_COMMITTED_LAG_OFFSETS,
    GROUP_REBALANCES_TOTAL,
    GROUP_THRESHOLD_OFFSETS,
)

MOST_REBALANCES = 10
MOST_REWINDS = 3
"""In an hour: one reset by hand is one, or a few with several batches."""
_GROUP = "kafka_cluster, group"
_TOPIC = "kafka_cluster, group, topic"
_TOPIC_LABELS = ("kafka_cluster", "group", "topic")


def alerts(_: Settings) -> Iterator[Alert]:
    """A lag beyond a group's threshold, as a ticket and as a page; no group has one that the settings do not give."""
    for severity, threshold in ((Severity.WARNING, "lag_warning"), (Severity.CRITICAL, "lag_critical")):
        yield Alert(
            "KafkaEosGroupLagHigh",
            severity,
            f"""\
max by ({_TOPIC}) (last_over_time({GROUP_READ_COMMITTED_LAG_OFFSETS}[{BRIDGE}]))
> on ({_GROUP}) group_left ()
  max by ({_GROUP}) (last_over_time({GROUP_THRESHOLD_OFFSETS}{{threshold="{threshold}"}}[{BRIDGE}]))""",
            "{{ $labels.kafka_cluster }}: group {{ $labels.group }} is {{ $value }} offsets behind in"
            " {{ $labels.topic }}. It could read them and does not.",
            "First: see whether the group's members run, rebalance again and again, or write to something slow."
            + per_row(
                f"max({GROUP_BLOCKED_OFFSETS}{{kafka_cluster=%q, group=%q, topic=%q}}) > 0",
                " Another {{ .Value }} are withheld from it by open transactions.",
                "kafka_cluster",
                "group",
                "topic",
            )
            + "\nWhat transactions withhold is not in the number of the headline.",
            "kafka-eos-lso",
            _TOPIC_LABELS,
            hold="5m",
            when=f"a group's read_committed lag on a topic is above its threshold (group: {threshold}, never) for 5m",
        )


def offset_alerts(_: Settings) -> Iterator[Alert]:
    """A group of which only a part of the offsets is committed with the results."""

    def commits(transactional: str, window: str) -> str:
        return f'increase({GROUP_OFFSET_COMMITS_TOTAL}{{transactional="{transactional}"}}[{window}])'

    yield Alert(
        "KafkaEosOffsetsOutsideTransaction",
        Severity.WARNING,
        f"""\
group by ({_GROUP}) ({commits("false", "10m")} > 0)
and on ({_GROUP})
  {commits("true", "1h")} > 0""",
        "{{ $labels.kafka_cluster }}: group {{ $labels.group }} commits some offsets in transactions and others"
        " outside. After a crash it processes records twice, or skips them.",
        "First: look for enable.auto.commit, or a commitSync beside sendOffsetsToTransaction."
        + per_row(
            f"topk(5, max by (topic) (increase({GROUP_OFFSET_COMMITS_TOTAL}"
            f'{{kafka_cluster=%q, group=%q, transactional="false"}}[10m])) > 0)',
            "\n- {{ .Labels.topic }}: {{ .Value | humanize }} outside of transactions in 10 minutes",
            "kafka_cluster",
            "group",
        )
        + "\nThe batches of __consumer_offsets prove both kinds.",
        "kafka-eos-lso",
        ("kafka_cluster", "group"),
        hold="15m",
        keeps=False,
        when="a group that commits offsets in transactions (in the last 1h) also commits offsets outside of"
        " transactions (in the last 10m), for 15m",
    )
    yield Alert(
        "KafkaEosRebalanceStorm",
        Severity.WARNING,
        f"max by ({_GROUP}) (increase({GROUP_REBALANCES_TOTAL}[15m])) > {MOST_REBALANCES}",
        "{{ $labels.kafka_cluster }}: group {{ $labels.group }} rebalanced {{ $value | humanize }} times in 15 minutes."
        " Its members stop or commit at each, and transactions that they had open are aborted.",
        "First: find members that leave and come back: max.poll.interval.ms exceeded by slow records, crashes, a"
        " deployment that restarts again and again. group.instance.id spares a restart its rebalance.",
        "kafka-eos-lso",
        ("kafka_cluster", "group"),
        when=f"a group went through more than {MOST_REBALANCES} generations in 15m (groups.offset_commits)",
    )
    yield Alert(
        "KafkaEosOffsetsMovedBack",
        Severity.WARNING,
        f"max by ({_TOPIC}) (increase({GROUP_OFFSET_REWINDS_TOTAL}[1h])) > {MOST_REWINDS}",
        "{{ $labels.kafka_cluster }}: committed offsets of group {{ $labels.group }} in {{ $labels.topic }} moved back"
        " {{ $value | humanize }} times in an hour. What was processed since is processed again; once an offset is"
        " older than the topic's records, auto.offset.reset decides, and latest skips what was not read.",
        "First: find two instances that commit for this group, each from its own position: one that was replaced and"
        " still runs. A transactional.id that is new at each start cannot fence it. Stop the older one.",
        "kafka-eos-lso",
        _TOPIC_LABELS,
        when=f"commits set a transactional group back more than {MOST_REWINDS} times in 1h (groups.offset_commits)",
    )
