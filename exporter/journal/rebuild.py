"""Stalls and gaps from the events alone, of one journal or of several of the same cluster. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.journal.documents import EventDocument, HeldPartitionDocument
from exporter.words import EventKind, StallEnd

Event = EventDocument
SEEING = frozenset({"lso", "txnlog"})
"""Sources without which stalls and their ends are not seen."""
OF_ONE_AGENT = frozenset(
    {
        EventKind.AGENT_STARTED.value,
        EventKind.AGENT_STOPPED.value,
        EventKind.AGENT_PAUSED.value,
        EventKind.SOURCE_DOWN.value,
        EventKind.SOURCE_BACK.value,
        EventKind.EVENTS_LOST.value,
    }
)
"""Kinds that tell of an agent rather than of the cluster."""
SILENT_SECONDS = 60.0
"""A running agent shows it more often."""
REPEATED_SECONDS = 600.0
"""Two agents see a check fail at different times: within this, one key is one event."""
_OF_STALLS = frozenset(
    {
        EventKind.STALL_BEGUN.value,
        EventKind.STALL_NAMED.value,
        EventKind.HANGING_PROVEN.value,
        EventKind.UNMARKED_COMMIT.value,
    }
)
_STALL_KINDS = _OF_STALLS | {EventKind.STALL_ENDED.value}
LASTING_KINDS = _STALL_KINDS | {EventKind.SOURCE_DOWN.value, EventKind.SOURCE_BACK.value}
"""A stall or a gap that lasts for days is in the events of these kinds alone, and told once."""


@dataclass(slots=True)
class RebuiltStall:
    """A stall by the journal. ``end`` is None while there is none; ``end_seen`` is False where it ended unseen."""

    topic: str
    partition: int
    offset: int
    since: float
    application: str = ""
    transactional_id: str = ""
    producer_id: int | None = None
    producer_epoch: int | None = None
    kind: str = ""
    records: int = 0
    waiting_groups: str = ""
    end: float | None = None
    how: str = ""
    end_seen: bool = True

    def seconds(self, now: float) -> float:
        """For how long it was stalled, or has been."""
        return max(0.0, (now if self.end is None else self.end) - self.since)


class KeptJournal(NamedTuple):
    """The events of one agent, from when on they are kept, and when the agent was last known to run: Unix seconds.
    ``since`` is None where that is not known, ``until`` for an agent that runs.
    """

    events: Sequence[Event]
    since: float | None = None
    until: float | None = None


class Gap(NamedTuple):
    """A time of which an agent cannot tell, in Unix seconds, and why."""

    begin: float
    end: float
    why: str


def merged(journals: Iterable[Sequence[Event]]) -> list[Event]:
    """Return the events of several journals of one cluster in the order in which they happened, equal ones once.

    What two agents saw has the same key. Partitions that stalled together for one agent may not for the other, and only
    one may know how a stall ended: such events are not equal.
    """
    seen: dict[tuple[object, ...], Event] = {}
    found: list[Event] = []
    for event in sorted((entry for journal in journals for entry in journal), key=_order):
        if event["kind"] not in OF_ONE_AGENT:
            places = frozenset(map(_place, event["partitions"]))
            identity = event["kind"], event["key"], event["how"], places
            if (before := seen.get(identity)) is not None and _is_same(event, before):
                continue
            seen[identity] = event
        found.append(event)
    return found


def _is_same(event: Event, before: Event) -> bool:
    """Return whether two events of one key are one: of two agents about then, or told again by one agent."""
    seconds = event["timestamp"] - before["timestamp"]
    return bool(seconds == 0 or (seconds < REPEATED_SECONDS and event["agent"] != before["agent"]))


def counted_since(event: Event) -> float | None:
    """Since when ends were counted that are not listed; None for any other event."""
    since = event["evidence"].get("since_timestamp")
    return float(since) if event["count"] > 1 and isinstance(since, int | float) else None


def stalls_of(events: Iterable[Event]) -> list[RebuiltStall]:
    """Return the stalls that the events tell of, in the order in which they began."""
    by_place: dict[tuple[object, ...], RebuiltStall] = {}
    ended: dict[tuple[object, ...], Event] = {}
    found: list[RebuiltStall] = []
    for event in sorted(events, key=_order):
        if event["kind"] in _OF_STALLS:
            for partition in event["partitions"]:
                stall = by_place.get(_place(partition))
                if stall is None or (
                    stall.end is not None
                    and partition["since_timestamp"] > stall.end
                    and not _was_before(event, ended[_place(partition)])
                ):
                    stall = by_place[_place(partition)] = RebuiltStall(*_place(partition), partition["since_timestamp"])
                    found.append(stall)
                _note(stall, event, partition)
        elif event["kind"] == EventKind.STALL_ENDED.value:
            for partition in event["partitions"]:
                stall = by_place.get(_place(partition))
                if stall is None:  # its begin is no longer kept
                    stall = by_place[_place(partition)] = RebuiltStall(*_place(partition), partition["since_timestamp"])
                    found.append(stall)
                _note(stall, event, partition)
                _end(stall, event, partition)
                ended[_place(partition)] = event
    return sorted(found, key=lambda stall: (stall.since, stall.topic, stall.partition))


def gaps_of(journal: KeptJournal, end: float) -> list[Gap]:
    """Return the times up to ``end`` of which the journal of one agent cannot tell, the earliest first."""
    found = [] if journal.since is None else [Gap(0.0, journal.since, "no event from before is kept")]
    down: dict[str, Event] = {}
    stopped: float | None = None
    for event in sorted(journal.events, key=lambda entry: (entry["timestamp"], entry["recorded_timestamp"])):
        kind, at = event["kind"], float(event["timestamp"])
        if kind in {EventKind.AGENT_STARTED.value, EventKind.AGENT_PAUSED.value}:
            since = event["evidence"].get("not_seen_from_timestamp")
            if isinstance(since, int | float) and since < at:
                found.append(Gap(float(since), at, "the agent did not run"))
            elif since is None and stopped is not None:
                found.append(Gap(stopped, at, "the agent did not run"))
            stopped = None
        elif kind == EventKind.AGENT_STOPPED.value:
            stopped = at
        elif kind == EventKind.SOURCE_DOWN.value and event["subject"].get("source") in SEEING:
            down.setdefault(event["subject"]["source"], event)
        elif kind == EventKind.SOURCE_BACK.value:
            begun = down.pop(event["subject"].get("source", ""), None)
            if begun is not None:
                found.append(Gap(float(begun["timestamp"]), at, _not_read(begun)))
        elif kind == EventKind.EVENTS_LOST.value:
            found.append(Gap(at, at, event["what"]))
    found += [Gap(float(begun["timestamp"]), end, _not_read(begun)) for begun in down.values()]
    if stopped is not None and stopped < end:
        found.append(Gap(stopped, end, "the agent has stopped"))
    elif journal.until is not None and end - journal.until > SILENT_SECONDS:
        found.append(Gap(journal.until, end, "the agent did not run, as far as its journal shows"))
    return sorted(found)


def common_gaps(journals: Sequence[Sequence[Gap]]) -> list[Gap]:
    """Return the times of which none of several agents can tell."""
    if not journals:
        return []
    common = list(journals[0])
    for other in journals[1:]:
        common = [
            Gap(max(one.begin, two.begin), min(one.end, two.end), "; ".join(dict.fromkeys((one.why, two.why))))
            for one in common
            for two in other
            if max(one.begin, two.begin) <= min(one.end, two.end)
        ]
    return sorted(set(common))


def _order(event: Event) -> tuple[float, bool, float]:
    """By when it happened; a stall begins before it ends."""
    return event["timestamp"], event["kind"] == EventKind.STALL_ENDED.value, event["recorded_timestamp"]


def _was_before(event: Event, end: Event) -> bool:
    """Return whether a stall was recorded before its end although it is dated later: the agent did not know yet how far
    its clock was off.
    """
    return bool(event["recorded_timestamp"] < end["recorded_timestamp"])


def _end_of(held: HeldPartitionDocument) -> float:
    return float(held["since_timestamp"] + held["seconds"])


def _place(held: HeldPartitionDocument) -> tuple[str, int, int]:
    return held["topic"], held["partition"], held["offset"]


def _note(stall: RebuiltStall, event: Event, held: HeldPartitionDocument) -> None:
    """Take what the event knows of the stall."""
    subject, evidence = event["subject"], event["evidence"]
    stall.since = min(stall.since, held["since_timestamp"])
    stall.records = max(stall.records, held["records"])
    stall.application = subject.get("application") or stall.application
    stall.transactional_id = subject.get("transactional_id") or stall.transactional_id
    if subject.get("producer_id") is not None:
        stall.producer_id, stall.producer_epoch = subject["producer_id"], subject.get("producer_epoch")
    stall.kind = str(evidence.get("holder") or stall.kind)
    stall.waiting_groups = str(evidence.get("waiting_groups") or stall.waiting_groups)


def _end(stall: RebuiltStall, event: Event, held: HeldPartitionDocument) -> None:
    """Take the end that is known best: with its reason, then the earliest."""
    how = event["how"] or StallEnd.UNKNOWN.value
    end = _end_of(held)
    better = stall.end is None or (stall.how == StallEnd.UNKNOWN.value != how)
    if better or (stall.how == how and stall.end is not None and end < stall.end):
        stall.end, stall.how = end, how
        stall.end_seen = event["evidence"].get("end_seen") is not False


def _not_read(begun: Event) -> str:
    return f"the source {begun['subject']['source']} did not answer in full"


def events_in(events: Iterable[Event], begin: float, end: float) -> Iterator[Event]:
    """Yield the events that happened then."""
    return (event for event in events if begin <= event["timestamp"] <= end)
