"""Rows about consumer groups: the lag of a read_committed reader."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    GROUP_BLOCKED_OFFSETS,
    GROUP_READ_COMMITTED_LAG_OFFSETS,
    GROUP_THRESHOLD_OFFSETS,
)

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
