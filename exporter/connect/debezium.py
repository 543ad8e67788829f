"""Debezium's MBeans in a Connect worker: snapshot, connection, lag and queue of its connectors.

Tried with Debezium 3.1.3 on PostgreSQL. Its connectors for MySQL, MariaDB and Oracle register the same names and
attributes (Debezium's documentation of each); those for SQL Server, Db2 and MongoDB have others, and are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter import catalogue
from exporter.jvm.reader import MBeanQuery, MBeanValue
from exporter.model import Sample

_DOMAIN = "debezium."
DATABASES = ("postgres", "mysql", "mariadb", "oracle")
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "snapshot": (
        "SnapshotRunning",
        "SnapshotPaused",
        "SnapshotCompleted",
        "SnapshotAborted",
        "RemainingTableCount",
        "MilliSecondsSinceLastEvent",
        "SnapshotDurationInSeconds",
    ),
    "streaming": (
        "Connected",
        "MilliSecondsBehindSource",
        "MilliSecondsSinceLastEvent",
        "QueueTotalCapacity",
        "QueueRemainingCapacity",
    ),
}
QUERIES = tuple(
    MBeanQuery(f"{_DOMAIN}{database}:type=connector-metrics,context={context},server=*", attributes)
    for database in DATABASES
    for context, attributes in _ATTRIBUTES.items()
)
_STATES = (
    ("SnapshotRunning", "running"),
    ("SnapshotPaused", "paused"),
    ("SnapshotAborted", "aborted"),
    ("SnapshotCompleted", "completed"),
)


class CapturedServer(NamedTuple):
    """A database that a connector reads: its kind, and the connector's topic.prefix."""

    database: str
    name: str


class SnapshotRestarts:
    """Counts snapshots that began again before they were complete: each row read before is in the topic twice.

    A task that failed may go on at another worker, so this is of a Connect cluster. A server without MBeans is between
    two tasks.
    """

    def __init__(self) -> None:
        self.counts: dict[CapturedServer, int] = {}
        self._running: dict[CapturedServer, float] = {}  # seconds of a snapshot that was not complete

    def look(self, server: CapturedServer, state: str, seconds: float | None) -> None:
        """Note the state of a snapshot and for how long it has run; None where that is not known."""
        if not state or seconds is None:
            return
        self.counts.setdefault(server, 0)
        if seconds < self._running.get(server, 0.0) and state != "none":
            self.counts[server] += 1
        if state in {"completed", "none"}:
            self._running.pop(server, None)
        else:
            self._running[server] = seconds


def debezium_samples(
    head: tuple[str, str, str], readings: Iterable[MBeanValue], restarts: SnapshotRestarts
) -> Iterator[Sample]:
    """Samples of the connectors in these readings. ``head`` are cluster, target and Connect cluster."""
    servers: dict[CapturedServer, dict[tuple[str, str], float]] = {}
    for mbean, attribute, value in readings:
        if mbean.domain.startswith(_DOMAIN) and isinstance(value, float):
            server = CapturedServer(mbean.domain.removeprefix(_DOMAIN), mbean.properties.get("server", ""))
            servers.setdefault(server, {})[mbean.properties.get("context", ""), attribute] = value
    for server, values in servers.items():
        restarts.look(server, _snapshot_state(values), values.get(("snapshot", "SnapshotDurationInSeconds")))
    for server, count in restarts.counts.items():
        yield catalogue.DEBEZIUM_SNAPSHOT_RESTARTS_TOTAL(float(count), *head, *server)
    for server, values in sorted(servers.items()):
        yield from _of_server((*head, *server), values)


def _of_server(labels: tuple[str, ...], values: Mapping[tuple[str, str], float]) -> Iterator[Sample]:
    if (connected := values.get(("streaming", "Connected"))) is not None:
        yield catalogue.DEBEZIUM_CONNECTED(connected, *labels)
    if state := _snapshot_state(values):
        yield catalogue.DEBEZIUM_SNAPSHOT_STATE(1.0, *labels, state)
    if (tables := values.get(("snapshot", "RemainingTableCount"))) is not None:
        yield catalogue.DEBEZIUM_SNAPSHOT_REMAINING_TABLES(tables, *labels)
    # -1 is Debezium's "no event yet".
    if (behind := values.get(("streaming", "MilliSecondsBehindSource"), -1.0)) >= 0:
        yield catalogue.DEBEZIUM_LAG_SECONDS(behind / 1000, *labels)
    for context in catalogue.DEBEZIUM_CONTEXTS:
        if (age := values.get((context, "MilliSecondsSinceLastEvent"), -1.0)) >= 0:
            yield catalogue.DEBEZIUM_LAST_EVENT_AGE_SECONDS(age / 1000, *labels, context)
    capacity = values.get(("streaming", "QueueTotalCapacity"))
    left = values.get(("streaming", "QueueRemainingCapacity"))
    if capacity is not None and left is not None and capacity > 0:
        yield catalogue.DEBEZIUM_QUEUE_CAPACITY_RECORDS(capacity, *labels)
        yield catalogue.DEBEZIUM_QUEUE_RECORDS(max(0.0, capacity - left), *labels)


def _snapshot_state(values: Mapping[tuple[str, str], float]) -> str:
    """Return the snapshot's state, "" where it is not known."""
    known = {attribute: values.get(("snapshot", attribute)) for attribute, _ in _STATES}
    if any(value is None for value in known.values()):
        return ""
    return next((state for attribute, state in _STATES if known[attribute]), "none")
