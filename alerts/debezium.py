"""Rows about Debezium: a source that is not connected, a snapshot that stands still, changes that come late."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    DEBEZIUM_CONNECTED,
    DEBEZIUM_LAG_SECONDS,
    DEBEZIUM_LAST_EVENT_AGE_SECONDS,
    DEBEZIUM_SNAPSHOT_STATE,
)

NAME = "KafkaEosDebeziumStopped"
_OF = "kafka_cluster, connect, server"
LATE_SECONDS = 300
SILENT_SECONDS = 600


def alerts(_: Settings) -> Iterator[Alert]:
    """A connector without its database, one that is stuck in its snapshot, and one that is late."""
    snapshot = f'group by ({_OF}) (present_over_time({DEBEZIUM_SNAPSHOT_STATE}{{state=~"running|paused"}}[{BRIDGE}]))'
    running = f'group by ({_OF}) (present_over_time({DEBEZIUM_SNAPSHOT_STATE}{{state="running"}}[{BRIDGE}]))'
    where = ("kafka-eos-connect", ("kafka_cluster", "connect"))
    yield Alert(
        NAME,
        Severity.WARNING,
        f"max by ({_OF}) (max_over_time({DEBEZIUM_CONNECTED}[{BRIDGE}])) == 0\nunless\n{snapshot}",
        "{{ $labels.kafka_cluster }}: Debezium {{ $labels.server }} of Connect {{ $labels.connect }} is not connected"
        " to its database. No change reaches Kafka; with exactly-once none is repeated when it connects again.",
        "First: read the task's log: the database, its user, its slot or its network. The database keeps the log of"
        " changes for it meanwhile, so its disk fills.",
        *where,
        hold="5m",
        labels=(("reason", "disconnected"),),
        when="a Debezium connector has had no connection to its database for 5m, outside of a snapshot",
    )
    age = f"max by ({_OF}) (max_over_time({DEBEZIUM_LAST_EVENT_AGE_SECONDS}{{context="
    yield Alert(
        NAME,
        Severity.WARNING,
        f'{age}"snapshot"}}[{BRIDGE}])) > {SILENT_SECONDS}\nand\n{running}',
        "{{ $labels.kafka_cluster }}: the snapshot of Debezium {{ $labels.server }} of Connect {{ $labels.connect }} is"
        " running and has read no row for {{ $value | humanizeDuration }}.",
        "First: look at its query in the database (locks, a cancelled statement) and at the task's log. A restart of"
        " the task begins the snapshot again from its start, so every row of it is in the topic twice.",
        *where,
        labels=(("reason", "snapshot"),),
        when=f"a Debezium snapshot has read nothing for {SILENT_SECONDS // 60}m",
    )
    yield Alert(
        NAME,
        Severity.WARNING,
        f"max by ({_OF}) (max_over_time({DEBEZIUM_LAG_SECONDS}[{BRIDGE}])) > {LATE_SECONDS}\nand\n"
        f"min by ({_OF}) (max_over_time({DEBEZIUM_LAST_EVENT_AGE_SECONDS}"
        f'{{context="streaming"}}[{BRIDGE}])) < {SILENT_SECONDS}',
        "{{ $labels.kafka_cluster }}: Debezium {{ $labels.server }} of Connect {{ $labels.connect }} sends changes"
        " {{ $value | humanizeDuration }} after the database made them.",
        "First: see whether its queue is full (then Kafka or the transactions of its task are slow) or empty (then the"
        " database is). Nothing is repeated or lost by it.",
        *where,
        hold="10m",
        labels=(("reason", "late"),),
        when=f"a Debezium connector sends changes {LATE_SECONDS // 60}m late, for 10m",
    )
