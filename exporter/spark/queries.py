"""What is known of a streaming query, by each way that tells of it, and of all ways together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from exporter.model import Fact, TopicPartition, Word
from exporter.spark.terminations import Reason


class Way(IntEnum):
    """Who tells of a query. Where several say the same, the greater wins."""

    CHECKPOINT = 1
    EVENT_LOG = 2
    LISTENER = 3


FRESH_SECONDS: Mapping[Way, float] = {Way.EVENT_LOG: 900.0, Way.LISTENER: 180.0}
"""How long after its last sign of life a query is believed to be in the state that it told. A listener says every 30 s
that it is there; a log is silent while a batch runs that starts no task.
"""

KEEP_ENDED = 3600.0
KEEP_SILENT = 86_400.0
"""Seconds for which a query is remembered that ended, and one that fell silent: its driver was killed, or the machine
died, and that nobody hears of it is the news.
"""


class State(Word):
    """The label values of ``spark_query_state{state}``."""

    RUNNING = "running"
    IDLE = "idle"
    TERMINATED = "terminated"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in {State.TERMINATED, State.FAILED}


class End(NamedTuple):
    """One run of a query that ended; ``at`` is Unix seconds by the clock of whoever told."""

    run_id: str
    reason: Reason
    at: float


@dataclass(frozen=True, slots=True)
class Query:
    """A streaming query as one way tells of it. Instants are Unix seconds.

    ``id`` lives in the checkpoint and stays over restarts; ``application`` and ``name`` are "" while unknown.
    ``heard`` is the last sign of life. ``batches`` is how many were completed since the checkpoint was made, ``rows``
    since the application was started. ``offsets`` is where the last completed batch ended in Kafka, and is empty when
    not known or when no source is Kafka.
    """

    id: str
    way: Way
    heard: float
    application: str = ""
    name: str = ""
    started: float = 0.0
    state: State | None = None
    last_progress: float | None = None
    batches: int | None = None
    rows: int | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    uncommitted: int | None = None
    ends: tuple[End, ...] = ()


@dataclass(frozen=True, slots=True)
class SparkQueries(Fact):
    """The queries that one folder tells of; ``left_out`` are those, or logs, that it has beside them."""

    queries: tuple[Query, ...]
    left_out: int = 0


class QueryKey(NamedTuple):
    """What a query is called on the metrics: its id where it has no name."""

    application: str
    query: str


class Lag(NamedTuple):
    """How far a query is behind, in offsets, and how many of these an open transaction withholds."""

    lag: int
    blocked: int


@dataclass(frozen=True, slots=True)
class SparkView(Fact):
    """All queries of a cluster as the metrics tell of them, each once, and their lags over all topics where known."""

    queries: Mapping[QueryKey, Query]
    lags: Mapping[QueryKey, Lag]


def remembered(query: Query, now: float) -> bool:
    """Whether a query is still told of. A checkpoint is as long as it is configured."""
    if query.way is Way.CHECKPOINT:
        return True
    ended = query.state is not None and query.state.ended
    return now - query.heard < (KEEP_ENDED if ended else KEEP_SILENT)


def merged(told: Iterable[Query], now: float) -> Mapping[QueryKey, Query]:
    """Each query once, whoever tells of it: the latest state, the furthest progress, the checkpoint's own offsets.

    Of several with one name, as of a query that was begun anew with an empty checkpoint, the one heard of last.
    """
    by_id: dict[str, list[Query]] = {}
    for query in told:
        if remembered(query, now):
            by_id.setdefault(query.id, []).append(query)
    by_key: dict[QueryKey, Query] = {}
    for views in by_id.values():
        query = _together(views, now)
        key = QueryKey(query.application, query.name or query.id)
        other = by_key.get(key)
        by_key[key] = query if other is None else max(query, other, key=lambda each: (each.started, each.heard))
    return by_key


def _together(views: list[Query], now: float) -> Query:
    """One query from all that ways tell of it."""
    views = sorted(views, key=lambda each: (_fresh(each, now), each.started, each.way), reverse=True)
    live = next((each for each in views if each.way is not Way.CHECKPOINT), None)
    # The checkpoint's offsets are the query's own; events tell of them as much as a moment later.
    furthest = max(
        (each for each in views if each.offsets), key=lambda each: (each.batches or 0, -each.way), default=views[0]
    )
    believed = live is not None and _fresh(live, now)
    return Query(
        id=views[0].id,
        way=views[0].way,
        heard=max(each.heard for each in views),
        application=next((each.application for each in views if each.application), ""),
        name=next((each.name for each in views if each.name), ""),
        started=max(each.started for each in views),
        state=live.state if live is not None and believed else None,
        last_progress=max((each.last_progress for each in views if each.last_progress is not None), default=None),
        batches=max((each.batches for each in views if each.batches is not None), default=None),
        rows=live.rows if live is not None else None,
        phases=live.phases if live is not None and believed else {},
        offsets=furthest.offsets,
        uncommitted=next((each.uncommitted for each in views if each.uncommitted is not None), None),
        ends=tuple({end.run_id: end for each in reversed(views) for end in each.ends}.values()),
    )


def _fresh(query: Query, now: float) -> bool:
    ended = query.state is not None and query.state.ended
    return ended or now - query.heard < FRESH_SECONDS.get(query.way, 0.0)
