"""A streaming query, as each origin describes it, and merged over all origins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from exporter.model import Fact, TopicPartition
from exporter.words import QueryState, TerminationReason


class Origin(IntEnum):
    """Where the description of a query comes from. Where several have the same field, the greater one is used."""

    CHECKPOINT = 1
    EVENT_LOG = 2
    LISTENER = 3


FRESH_SECONDS: Mapping[Origin, float] = {Origin.EVENT_LOG: 900.0, Origin.LISTENER: 180.0}
"""Seconds after its last report for which a query's state is exposed. A listener posts every 30 s; a log has no event
during a batch that starts no task.
"""

KEEP_ENDED = 3600.0
KEEP_SILENT = 86_400.0
"""Seconds for which a query is kept after its end, or after its last report: when its driver was killed or its machine
failed, the age of its last progress shows that.
"""


class QueryEnd(NamedTuple):
    """One ended run of a query; ``at`` is Unix seconds by the clock of its origin."""

    run_id: str
    reason: TerminationReason
    at: float


@dataclass(frozen=True, slots=True)
class StreamingQuery:
    """A streaming query from one origin. Instants are Unix seconds.

    ``id`` is in the checkpoint and stays over restarts; ``application`` and ``name`` are "" while unknown. ``heard`` is
    the last report. ``batches`` counts those completed since the checkpoint was made, ``rows`` those since the
    application was started. ``offsets`` is where the last completed batch ended in Kafka, and is empty when not known
    or when no source is Kafka. ``sink`` is the kind of its sink, "" while unknown.
    """

    id: str
    way: Origin
    heard: float
    application: str = ""
    name: str = ""
    started: float = 0.0
    state: QueryState | None = None
    last_progress: float | None = None
    batches: int | None = None
    rows: int | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    uncommitted: int | None = None
    ends: tuple[QueryEnd, ...] = ()
    sink: str = ""


@dataclass(frozen=True, slots=True)
class SparkQueries(Fact):
    """The queries of one folder; ``left_out`` is the number of queries, or logs, above the limit."""

    queries: tuple[StreamingQuery, ...]
    left_out: int = 0


class QueryKey(NamedTuple):
    """The labels of a query: its id where it has no name."""

    application: str
    query: str


class Lag(NamedTuple):
    """How far a query is behind, in offsets, and how many of these an open transaction blocks."""

    lag: int
    blocked: int


@dataclass(frozen=True, slots=True)
class SparkView(Fact):
    """All queries of a cluster, each once, and their lags over all topics where known."""

    queries: Mapping[QueryKey, StreamingQuery]
    lags: Mapping[QueryKey, Lag]


def remembered(query: StreamingQuery, now: float) -> bool:
    """Return whether the query is still exposed. A configured checkpoint never expires."""
    if query.way is Origin.CHECKPOINT:
        return True
    ended = query.state is not None and query.state.ended
    return now - query.heard < (KEEP_ENDED if ended else KEEP_SILENT)


def merged(described: Iterable[StreamingQuery], now: float) -> Mapping[QueryKey, StreamingQuery]:
    """Merge the descriptions of each query: the latest state, the furthest progress, the checkpoint's own offsets.

    When several have one name, as after a restart with an empty checkpoint, the latest one is kept.
    """
    by_id: dict[str, list[StreamingQuery]] = {}
    for query in described:
        if remembered(query, now):
            by_id.setdefault(query.id, []).append(query)
    by_key: dict[QueryKey, StreamingQuery] = {}
    for views in by_id.values():
        query = _together(views, now)
        key = QueryKey(query.application, query.name or query.id)
        other = by_key.get(key)
        by_key[key] = query if other is None else max(query, other, key=lambda run: (run.started, run.heard))
    return by_key


def _together(views: list[StreamingQuery], now: float) -> StreamingQuery:
    """One query from the descriptions of all origins."""
    views = sorted(views, key=lambda view: (_fresh(view, now), view.started, view.way), reverse=True)
    live = next((view for view in views if view.way is not Origin.CHECKPOINT), None)
    # The checkpoint's offsets are exact; events may have those of a moment later.
    furthest = max(
        (view for view in views if view.offsets), key=lambda view: (view.batches or 0, -view.way), default=views[0]
    )
    believed = live is not None and _fresh(live, now)
    return StreamingQuery(
        id=views[0].id,
        way=views[0].way,
        heard=max(view.heard for view in views),
        application=next((view.application for view in views if view.application), ""),
        name=next((view.name for view in views if view.name), ""),
        started=max(view.started for view in views),
        state=live.state if live is not None and believed else None,
        last_progress=max((view.last_progress for view in views if view.last_progress is not None), default=None),
        batches=max((view.batches for view in views if view.batches is not None), default=None),
        rows=live.rows if live is not None else None,
        phases=live.phases if live is not None and believed else {},
        offsets=furthest.offsets,
        uncommitted=next((view.uncommitted for view in views if view.uncommitted is not None), None),
        sink=next((view.sink for view in views if view.sink), ""),
        ends=tuple({end.run_id: end for view in reversed(views) for end in view.ends}.values()),
    )


def _fresh(query: StreamingQuery, now: float) -> bool:
    ended = query.state is not None and query.state.ended
    return ended or now - query.heard < FRESH_SECONDS.get(query.way, 0.0)
