"""Rows about consumer groups: the lag of a read_committed reader."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.rule import BRIDGE, Alert, Board, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    GROUP_READ_COMMITTED_LAG_OFFSETS,
    GROUP_THRESHOLD_OFFSETS,
)

_GROUP = "kafka_cluster, group"


def alerts(_: Settings) -> Iterator[Alert]:
    """A lag beyond a group's threshold, as a ticket and as a page; no group has one that the settings do not give."""
    for severity, threshold in ((Severity.WARNING, "lag_warning"), (Severity.CRITICAL, "lag_critical")):
        yield Alert(
            "KafkaEosGroupLagHigh",
            severity,
            Board.STALLS,
            f"""\
max by ({_GROUP}, topic) (last_over_time({GROUP_READ_COMMITTED_LAG_OFFSETS}[{BRIDGE}]))
> on ({_GROUP}) group_left ()
  max by ({_GROUP}) (last_over_time({GROUP_THRESHOLD_OFFSETS}{{threshold="{threshold}"}}[{BRIDGE}]))""",
            "{{ $labels.kafka_cluster }}: group {{ $labels.group }} is {{ $value }} offsets behind in"
            " {{ $labels.topic }}. It could read them and does not.",
            "First: see whether the group's members run, rebalance again and again, or write to something slow."
            "\nWhat transactions withhold is not in the number of the headline; the dashboard has it.",
            hold="5m",
            when=f"a group's read_committed lag on a topic is above its threshold (group: {threshold}, never) for 5m",
        )
