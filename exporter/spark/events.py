"""Events of a streaming query, from its listener and from Spark's event log.

``StreamingQueryListener$QueryStartedEvent`` and the others (Spark 3.5: QueryIdleEvent too). A progress event describes
a trigger; offsets in it are JSON, in an event log as a text within the JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from exporter.bounds.json_text import JsonError, parse_json
from exporter.catalogue import SPARK_BATCH_PHASES
from exporter.model import TopicPartition
from exporter.spark.queries import Origin, QueryEnd, StreamingQuery
from exporter.spark.terminations import exceptions_in, reason_of
from exporter.words import QueryState, TerminationReason

LONGEST_NAME = 200
LONGEST_TOPIC = 249
MOST_PARTITIONS = 50_000
"""Partitions of one query whose offsets are read."""
MOST_ENDS = 20
"""Largest number of ended runs kept of one query."""

_PHASES = {"".join(word.title() for word in phase.split("_")).lower(): phase for phase in SPARK_BATCH_PHASES}
_KAFKA = re.compile(r"Kafka(V2|Source\w*)?\[")  # KafkaMicroBatchStream.toString; KafkaSource's, of the old API


_LAST_OFFSET = 2**63 - 1
_LAST_PARTITION = 2**31 - 1


class EventError(ValueError):
    """An event that is not in Spark's form; the text has what is wrong, and quotes nothing."""


class Batch(NamedTuple):
    """A trigger, from a progress event. ``offsets`` is empty without Kafka, ``at`` is when the trigger ended, ``sink``
    the kind of its sink, "" where it is not said.

    ``completed`` is whether it ran a batch: up to Spark 3.4 there is such an event too when there was nothing to do.
    """

    number: int
    at: float
    rows: int
    phases: Mapping[str, float]
    offsets: Mapping[TopicPartition, int]
    completed: bool
    sink: str = ""


class Started(NamedTuple):
    """A run of a query began."""

    id: str
    name: str
    at: float


class Progressed(NamedTuple):
    """A trigger ended."""

    id: str
    name: str
    batch: Batch


class Idled(NamedTuple):
    """A trigger found nothing to do; sent every 10 s at most (spark.sql.streaming.noDataProgressEventInterval)."""

    id: str
    at: float


class QueryEnded(NamedTuple):
    """A run of a query ended. The event has no time."""

    id: str
    run_id: str
    reason: TerminationReason


Event = Started | Progressed | Idled | QueryEnded

_PREFIX = "org.apache.spark.sql.streaming.StreamingQueryListener$"


def parse_event(document: Mapping[str, Any]) -> Event | None:
    """The event in one line of an event log, None for other events. Raises EventError."""
    match str(document.get("Event")).removeprefix(_PREFIX):
        case "QueryStartedEvent":
            return Started(_id(document), name_of(document.get("name")), parse_timestamp(document.get("timestamp")))
        case "QueryProgressEvent":
            progress = mapping(document.get("progress"), "progress")
            return Progressed(_id(progress), name_of(progress.get("name")), batch_of(progress))
        case "QueryIdleEvent":
            return Idled(_id(document), parse_timestamp(document.get("timestamp")))
        case "QueryTerminatedEvent":
            exception, error_class = document.get("exception"), document.get("errorClassOnException")
            exceptions = exceptions_in(exception) if isinstance(exception, str) else ()
            reason = reason_of(error_class if isinstance(error_class, str) else "", exceptions)
            if exception and reason is TerminationReason.STOPPED:
                reason = TerminationReason.OTHER  # an exception without a class name
            return QueryEnded(_id(document), text(document.get("runId"), "runId"), reason)
    return None


def after(query: StreamingQuery | None, event: Event, heard: float, *, live: bool) -> StreamingQuery:
    """The query after this event of an event log; ``heard`` is Unix seconds.

    ``live`` is whether the event was just written. An end event has no time: for an old one the time of the last event
    is used.
    """
    query = query or StreamingQuery(event.id, Origin.EVENT_LOG, heard)
    match event:
        case Started(_, name, at):
            return replace(query, name=name, started=at, state=QueryState.RUNNING, heard=heard, rows=query.rows or 0)
        case Progressed(_, name, batch):
            return progressed(replace(query, name=name or query.name, heard=heard), batch)
        case Idled(_, at):
            return replace(query, state=QueryState.IDLE, last_progress=at, heard=heard)
        case QueryEnded(_, run_id, reason):
            at = heard if live else max(query.last_progress or 0.0, query.started) or heard
            end = QueryEnd(run_id, reason, at)
            state = QueryState.TERMINATED if reason is TerminationReason.STOPPED else QueryState.FAILED
            return replace(query, state=state, heard=heard, ends=(*query.ends, end)[-MOST_ENDS:])


def progressed(query: StreamingQuery, batch: Batch) -> StreamingQuery:
    """The query after a trigger."""
    query = replace(query, last_progress=max(batch.at, query.last_progress or 0.0), rows=(query.rows or 0) + batch.rows)
    if not batch.completed:
        return replace(query, state=QueryState.IDLE)
    return replace(
        query,
        state=QueryState.RUNNING,
        batches=max(batch.number + 1, query.batches or 0),
        phases=batch.phases,
        offsets=batch.offsets or query.offsets,
        sink=batch.sink or query.sink,
    )


def batch_of(progress: Mapping[str, Any]) -> Batch:
    """Parse the ``progress`` of an event. Raises EventError."""
    durations = mapping(progress.get("durationMs", {}), "durationMs")
    phases = {
        _PHASES[key.lower()]: _number(millis, "durationMs") / 1000
        for key, millis in durations.items()
        if key.lower() in _PHASES
    }
    offsets: dict[TopicPartition, int] = {}
    rows = 0
    sources = progress.get("sources", [])
    if not isinstance(sources, list):
        raise EventError("sources is no list")
    for source in sources:
        source = mapping(source, "each of sources")  # noqa: PLW2901 -- the same, known to be one
        rows += _count(source.get("numInputRows", 0), "numInputRows")  # an event log has it here alone
        description = source.get("description")
        if isinstance(description, str) and _KAFKA.match(description):
            offsets |= kafka_offsets(source.get("endOffset")) or {}
    if len(offsets) > MOST_PARTITIONS:
        offsets = {}  # where the query is stays unknown
    return Batch(
        _count(progress.get("batchId"), "batchId"),
        parse_timestamp(progress.get("timestamp")) + phases.get("trigger_execution", 0.0),
        rows,
        phases,
        offsets,
        "add_batch" in phases,
        _sink(progress.get("sink")),
    )


def _sink(value: object) -> str:
    """Return the description of a sink without its places: ``FileSink[/data/x]`` is ``FileSink``."""
    found = value.get("description") if isinstance(value, dict) else None
    return found[:LONGEST_NAME].partition("[")[0].partition("@")[0] if isinstance(found, str) else ""


def kafka_offsets(value: object) -> Mapping[TopicPartition, int] | None:
    """Offsets as Spark's Kafka source writes them, ``{"topic": {"0": 17}}``, or that as a text; None for others'."""
    if isinstance(value, str):
        try:
            value = parse_json(value.encode("utf-8", "replace"))
        except JsonError:
            return None
    if not isinstance(value, dict) or not value:
        return None
    offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            good = isinstance(offset, int) and not isinstance(offset, bool) and offset <= _LAST_OFFSET
            if not good or not (partition.isascii() and partition.isdecimal() and len(partition) <= 10):
                return None
            if int(partition) > _LAST_PARTITION or len(topic) > LONGEST_TOPIC:
                return None
            if offset >= 0:  # -1 and -2 are the end and the beginning
                offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def parse_timestamp(value: object) -> float:
    """Unix seconds of an ISO 8601 text such as ``2026-11-21T14:48:59.420Z``. Raises EventError."""
    try:
        moment = datetime.fromisoformat(text(value, "timestamp"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise EventError("timestamp is no ISO 8601 instant") from None


def name_of(value: object) -> str:
    """A name, cut to the length of a label; "" for none."""
    return value[:LONGEST_NAME] if isinstance(value, str) else ""


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """A JSON object. Raises EventError."""
    if not isinstance(value, dict):
        raise EventError(f"{what} is no JSON object")
    return value


def text(value: object, what: str) -> str:
    """A text that is not empty. Raises EventError."""
    if not isinstance(value, str) or not value or len(value) > LONGEST_NAME:
        raise EventError(f"{what} is no text of 1 to {LONGEST_NAME} characters")
    return value


def _id(document: Mapping[str, Any]) -> str:
    return text(document.get("id"), "id")


def _count(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise EventError(f"{what} is no count")
    return value


def _number(value: object, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise EventError(f"{what} is no number")
    return value
