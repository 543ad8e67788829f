"""Rows about consumer groups: the lag of a read_committed reader."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.rule import BRIDGE, Alert, Board, by_severity
from exporter.catalogue import GROUP_READ_COMMITTED_LAG_OFFSETS, GROUP_THRESHOLD_OFFSETS

_GROUP = "kafka_cluster, group"


def alerts() -> Iterator[Alert]:
    """A lag beyond a group's threshold; no group has one that the settings do not give."""
    lag = f"max by ({_GROUP}, topic) (last_over_time({GROUP_READ_COMMITTED_LAG_OFFSETS}[{BRIDGE}]))"

    def above(threshold: str) -> str:
        limit = f'last_over_time({GROUP_THRESHOLD_OFFSETS}{{threshold="{threshold}"}}[{BRIDGE}])'
        return f"{lag}\n> on ({_GROUP}) group_left () max by ({_GROUP}) ({limit})"

    yield Alert(
        "KafkaEosGroupLagHigh",
        None,
        Board.STALLS,
        by_severity(above("lag_warning"), above("lag_critical")),
        "{{ $labels.kafka_cluster }}: group {{ $labels.group }} is {{ $value }} offsets behind in {{ $labels.topic }}."
        " It could read them and does not.",
        "First: see whether the group's members run, rebalance again and again, or write to something slow."
        "\nWhat transactions withhold is not in the number of the headline; the dashboard has it.",
        hold="5m",
        when="a group's read_committed lag on a topic is above its threshold for 5m (group: lag_warning and"
        " lag_critical, never)",
    )
