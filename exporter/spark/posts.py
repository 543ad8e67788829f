"""Documents that ``listener.py`` posts from a Spark driver: each has the whole state of one query.

So a lost document is made up for by the next one, and the listener may skip documents while the agent is busy.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from exporter.ingest.budget import Budget, series_bytes, text_bytes
from exporter.ingest.latest import LatestBySender, RefusedError, json_object, named
from exporter.model import Clock
from exporter.spark.events import MOST_ENDS, EventError, batch_of
from exporter.spark.queries import KEEP_SILENT, Origin, QueryEnd, StreamingQuery
from exporter.spark.terminations import MOST_CLASSES, reason_of
from exporter.words import QueryState, TerminationReason

QUERY_BYTES, PARTITION_BYTES, END_BYTES = 2500, 300, 250
QUERY_SERIES, TOPIC_SERIES = 30, 2

LATEST = 4_102_444_800.0
"""The year 2100 in Unix seconds. A later time is refused as invalid."""


class QueryPlace(NamedTuple):
    """A query, by its id if it has no name, and the cluster that its driver names, "" for the only one.

    A restarted driver replaces the one before.
    """

    cluster: str
    application: str
    query: str


class SparkReceiver:
    """The queries that report, the latest of each. Any thread may call any method."""

    def __init__(self, clusters: Collection[str], queries: int, clock: Clock, budget: Budget | None = None) -> None:
        """``clusters`` are the names that a driver may give; at most ``queries`` are kept."""
        self._clusters = clusters  # a reload may change them
        self._clock = clock
        self._latest: LatestBySender[QueryPlace, StreamingQuery] = LatestBySender(
            queries, KEEP_SILENT, clock, _weight, senders="queries", budget=budget
        )

    def take(self, body: bytes) -> None:
        """Take one query's state. Raises RefusedError."""
        self._latest.admit()
        try:
            place, query = _parsed(body, self._clock.wall())
        except EventError as error:
            raise RefusedError(400, str(error)) from None
        if place.cluster and place.cluster not in self._clusters:
            raise RefusedError(400, "kafka_cluster names no cluster that this agent watches")
        self._latest.put(place, lambda before: _after(before, query))

    def queries(self, cluster: str) -> tuple[StreamingQuery, ...]:
        """The queries whose drivers name this cluster, "" for none."""
        return tuple(query for place, query in self._latest.latest().items() if place.cluster == cluster)

    def left_out(self) -> int:
        """Number of queries that reported recently and are not kept."""
        return self._latest.left_out()


def _weight(place: QueryPlace, query: StreamingQuery) -> int:
    """Most bytes of memory that a query takes."""
    topics = {partition.topic for partition in query.offsets}
    ends = sum(END_BYTES + text_bytes(end.run_id) for end in query.ends)
    names = text_bytes(*place, query.id, query.name, query.application, query.sink, *topics)
    labels = (*place, query.application, query.name or query.id)
    written = QUERY_SERIES * series_bytes(*labels) + TOPIC_SERIES * sum(
        series_bytes(*labels, topic) for topic in topics
    )
    return QUERY_BYTES + names + PARTITION_BYTES * len(query.offsets) + ends + written


def _after(before: StreamingQuery | None, query: StreamingQuery) -> StreamingQuery:
    """The query as it is now, with the ended runs of a previous driver."""
    ends = {end.run_id: end for end in (*(before.ends if before else ()), *query.ends)}
    return replace(query, ends=tuple(ends.values())[-MOST_ENDS:])


def _parsed(body: bytes, now: float) -> tuple[QueryPlace, StreamingQuery]:
    document = json_object(body)
    query_id, name = named(document, "id", required=True), named(document, "name", required=False)
    application = named(document, "application", required=False)
    place = QueryPlace(named(document, "kafka_cluster", required=False), application, name or query_id)
    ends = tuple(_end(end) for end in _list(document, "ends", MOST_ENDS))
    progress = document.get("progress")
    batch = batch_of(progress) if isinstance(progress, dict) else None
    return place, StreamingQuery(
        id=query_id,
        way=Origin.LISTENER,
        heard=now,
        application=application,
        name=name,
        started=_instant(document, "started_at") or 0.0,
        state=_state(document, ends),
        last_progress=_instant(document, "last_progress_at"),
        batches=batch.number + 1 if batch else None,
        rows=_count(document, "rows"),
        phases=batch.phases if batch else {},
        offsets=batch.offsets if batch else {},
        ends=ends,
        sink=batch.sink if batch else "",
    )


def _state(document: Mapping[str, Any], ends: tuple[QueryEnd, ...]) -> QueryState:
    match document.get("state"):
        case "running":
            return QueryState.RUNNING
        case "idle":
            return QueryState.IDLE
        case "terminated":
            return (
                QueryState.TERMINATED if not ends or ends[-1].reason is TerminationReason.STOPPED else QueryState.FAILED
            )
    raise RefusedError(400, "state must be running, idle or terminated")


def _end(value: object) -> QueryEnd:
    if not isinstance(value, dict):
        raise RefusedError(400, "each of ends must be an object")
    exceptions = _list(value, "exceptions", MOST_CLASSES)
    if not all(isinstance(exception, str) for exception in exceptions):
        raise RefusedError(400, "exceptions must be texts")
    error_class = named(value, "error_class", required=False)
    reason = reason_of(error_class, [str(exception) for exception in exceptions])
    if value.get("failed") is True and reason is TerminationReason.STOPPED:
        reason = TerminationReason.OTHER  # by an exception without a name
    return QueryEnd(named(value, "run_id", required=True), reason, _instant(value, "at") or 0.0)


def _list(document: Mapping[str, Any], key: str, most: int) -> list[object]:
    value = document.get(key, [])
    if not isinstance(value, list) or len(value) > most:
        raise RefusedError(400, f"{key} must be a list of {most} at most")
    return value


def _instant(document: Mapping[str, Any], key: str) -> float | None:
    value = document.get(key)
    if value is None:
        return None
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not 0 <= value < LATEST:
        raise RefusedError(400, f"{key} must be Unix seconds")
    return float(value)


def _count(document: Mapping[str, Any], key: str) -> int | None:
    value = document.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63):
        raise RefusedError(400, f"{key} must be a whole number")
    return value
