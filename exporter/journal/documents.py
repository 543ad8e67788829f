"""The events of ``/api/v1/events``, of ``incident --format json`` and of the journal, read in one way."""

from __future__ import annotations

from typing import NotRequired, cast

from typing_extensions import TypedDict

from exporter.core.documents import is_of
from exporter.core.durations import instant
from exporter.words import EventKind, StallEnd


class SubjectDocument(TypedDict):
    """The subject of an event. A key that does not apply, or is not known, is absent."""

    application: NotRequired[str]
    transactional_id: NotRequired[str]
    producer_id: NotRequired[int]
    producer_epoch: NotRequired[int]
    topic: NotRequired[str]
    partition: NotRequired[int]
    broker: NotRequired[int]
    connect: NotRequired[str]
    connector: NotRequired[str]
    task: NotRequired[str]
    source: NotRequired[str]
    target: NotRequired[str]
    check: NotRequired[str]


class HeldPartitionDocument(TypedDict):
    """A stalled partition."""

    topic: str
    partition: int
    offset: int
    """Its last stable offset."""
    since_timestamp: float
    records: int
    """Offsets above the last stable offset, which read_committed consumers could not read, at the last read."""
    seconds: float
    """For how long it has been stalled, or was."""


class EventDocument(TypedDict):
    """One event: what happened on a cluster."""

    recorded_timestamp: float
    """When the agent wrote it, in Unix seconds. Different for all events of an agent: the cursor of the pages."""
    time: str | None
    timestamp: float
    """When it happened, as exactly as it is known."""
    cluster: str
    agent: str
    """Name of the agent's host."""
    kind: EventKind
    key: str
    """Identifies what happened: two agents that saw the same have the same key."""
    what: str
    """One sentence."""
    subject: SubjectDocument
    partitions: list[HeldPartitionDocument]
    """Of a stall: the partitions of one holder that stalled, or went on, together; at most 100."""
    evidence: dict[str, str | int | float | bool]
    how: StallEnd | None
    """Of a stall that ended."""
    duration_seconds: float | None
    """Of what ended."""
    count: int
    """Number of occurrences: many of one kind at once are one event."""
    owner: str | None
    """The team of the settings' ``owners``; null where none is named."""


class EventsDocument(TypedDict):
    """``/api/v1/events``: a page of events."""

    events: list[EventDocument]
    next: str | None
    """The query of the next page; null where there is none. With ``since`` it always goes on: ask again later."""
    truncated: bool
    """The search ended at its limit of bytes: the next page goes on from there."""
    kept_since_timestamp: float | None
    """The oldest event that is kept; null where there is none."""


MOST_RECORDED = 1e10
"""Unix seconds that the name of a segment has room for."""


def event_of(document: object) -> EventDocument | None:
    """Return the event of a line or of a page with every key: what a line leaves out is null, empty or 1. None for
    anything else: a line that is torn, or of something else.
    """
    if not isinstance(document, dict):
        return None
    usual: dict[str, object] = {"cluster": "", "agent": "", "what": "", "partitions": [], "evidence": {}, "count": 1}
    event = {key: (usual | document).get(key) for key in EventDocument.__annotations__} | {"time": None}
    if not is_of(EventDocument)(event):
        return None
    found = cast("EventDocument", event)
    if not 0 <= found["recorded_timestamp"] < MOST_RECORDED:
        return None
    return {**found, "time": instant(found["timestamp"])}
