"""Events: what happened, when, to what, with the evidence; and the facts that the rules of events compare. Frozen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from exporter.bounds.text import cut
from exporter.core.source_state import SourceState
from exporter.model import Fact
from exporter.words import EventKind, StallEnd

LONGEST_NAME = 300
"""Characters of a name in an event. Kafka's transactional.ids may have 32,767."""
LONGEST_TEXT = 600
MOST_PARTITIONS = 100
"""Partitions of one event. More of one holder are further events."""

F = TypeVar("F", bound=Fact)
Text = str | int | float | bool


class EventSubject(NamedTuple):
    """The subject of an event. What does not apply, or is not known, is None."""

    application: str | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    connect: str | None = None
    connector: str | None = None
    task: str | None = None
    source: str | None = None
    target: str | None = None
    check: str | None = None

    def document(self) -> dict[str, str | int]:
        """Return the fields that are known."""
        found = zip(self._fields, self, strict=True)
        return {name: _short(value) for name, value in found if value is not None and value != ""}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> EventSubject:
        """Return the subject of an event's document."""
        return cls(**{name: document.get(name) for name in cls._fields})


NOTHING = EventSubject()


class HeldPartition(NamedTuple):
    """A stalled partition. ``offset`` is its last stable offset, ``since`` Unix seconds, ``records`` how many offsets
    above it could not be read, ``seconds`` for how long it has been stalled.
    """

    topic: str
    partition: int
    offset: int
    since: float
    records: int
    seconds: float

    def document(self) -> dict[str, str | int | float]:
        """Return the keys of ``documents.HeldPartitionDocument``."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "since_timestamp": round(self.since, 3),
            "records": self.records,
            "seconds": round(max(0.0, self.seconds), 3),
        }


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ``at`` is when it happened, in Unix seconds, as exactly as it is known.

    ``key`` identifies what happened: two agents that saw the same have the same key. ``how`` is of a stall that ended,
    ``duration`` of what ended, in seconds. ``count`` events of this kind are told by this one.
    """

    kind: EventKind
    at: float
    key: str
    what: str
    subject: EventSubject = NOTHING
    partitions: tuple[HeldPartition, ...] = ()
    evidence: Mapping[str, Text] = field(default_factory=lambda: MappingProxyType({}))
    how: StallEnd | None = None
    duration: float | None = None
    count: int = 1

    def document(self) -> dict[str, Any]:
        """Return the event as ``documents.EventDocument`` without the keys that are null, and those of its journal."""
        found: dict[str, Any] = {
            "timestamp": round(self.at, 3),
            "kind": self.kind.value,
            "key": cut(self.key, LONGEST_TEXT),
            "what": cut(self.what, LONGEST_TEXT),
            "subject": self.subject.document(),
        }
        if self.partitions:
            found["partitions"] = [partition.document() for partition in self.partitions]
        if self.evidence:
            found["evidence"] = {name: _short(value, LONGEST_TEXT) for name, value in self.evidence.items()}
        if self.how is not None:
            found["how"] = self.how.value
        if self.duration is not None:
            found["duration_seconds"] = round(max(0.0, self.duration), 3)
        if self.count != 1:
            found["count"] = self.count
        return found


def _short(value: Any, longest: int = LONGEST_NAME) -> Any:  # noqa: ANN401 -- a text or a number
    return cut(value, longest) if isinstance(value, str) else value


class LastReads(NamedTuple):
    """The last read of each source. ``wall`` is the present, ``since`` when this process began: Unix seconds."""

    wall: float
    since: float
    states: Sequence[SourceState]

    def fact(self, kind: type[F]) -> F | None:
        """Return the fact of this type, None where no last read has one."""
        return next((found for _, found in self.facts(kind)), None)

    def facts(self, kind: type[F]) -> Iterator[tuple[SourceState, F]]:
        """Yield the facts of this type with the read that gave each."""
        for state in self.states:
            for fact in state.facts:
                if isinstance(fact, kind):
                    yield state, fact
