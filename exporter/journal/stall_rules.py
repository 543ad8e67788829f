"""Events of stalled partitions: begun, holder named, hanging or unmarked proven, ended and how. No I/O, no clock.

A stall is a partition and the last stable offset at which it stands. It has ended where a complete read of the source
``lso`` does not show it any more, or where the log shows that its transaction is complete: a partition whose leader
does not answer has not ended. How it ended is known from the transaction log up to ``SETTLE_SECONDS`` later, because an
abort is told from a fence by a later record.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from exporter.groups.facts import GroupsHeld
from exporter.journal.documents import EventDocument, HeldPartitionDocument
from exporter.journal.facts import MOST_PARTITIONS, Event, EventSubject, HeldPartition, LastReads, Text
from exporter.lso.facts import Stall, Stalls, StallWatch
from exporter.model import TopicPartition
from exporter.transactions.facts import CoordinatorTime
from exporter.transactions.recent import Newest, Recent
from exporter.transactions.transaction import Transaction
from exporter.words import BlockerKind, EventKind, Outcome, StallEnd

SETTLE_SECONDS = 30.0
MOST_STALLS = 10_000
"""Stalls that are followed. The state of the journal has all of them."""
MARKED_SECONDS = 5.0
"""A partition that stands for longer after a decision was known did not get its marker, which precedes it."""
MOST_GROUPS = 5
MOST_DECISIONS = 8
"""Decisions of one holder that are kept."""
SAME_INSTANT_SECONDS = 1.0
"""Difference of two times of one record: the log has milliseconds."""
MILLISECOND = 0.002
"""Both are the coordinator's own begin of a transaction."""

_BEGUN = frozenset({EventKind.STALL_BEGUN, EventKind.STALL_NAMED, EventKind.HANGING_PROVEN, EventKind.UNMARKED_COMMIT})
"""Kinds of events with what is known of stalls that have not ended."""
_RELEASED_BY_THE_NEXT = frozenset({BlockerKind.HANGING.value, BlockerKind.UNMARKED.value})

Place = tuple[str, int, int]
"""Topic, partition and last stable offset of a stall."""


class OpenStall(NamedTuple):
    """A stall as the journal has it. ``kind`` is a ``BlockerKind``; ``started`` is when its transaction began."""

    topic: str
    partition: int
    offset: int
    since: float
    application: str
    transactional_id: str
    producer_id: int | None
    producer_epoch: int | None
    kind: str
    records: int
    started: float | None = None

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.offset

    @property
    def named(self) -> bool:
        """Return whether its holder is known."""
        return bool(self.transactional_id) or self.kind not in {BlockerKind.UNKNOWN.value, BlockerKind.OPEN.value}

    @property
    def subject(self) -> EventSubject:
        return EventSubject(self.application, self.transactional_id, self.producer_id, self.producer_epoch)

    @classmethod
    def of(cls, stall: Stall) -> OpenStall:
        """Return the stall as the journal has it."""
        blocker = stall.blocker
        return cls(
            *stall.partition,
            stall.last_stable_offset,
            stall.since,
            blocker.application,
            blocker.transactional_id,
            blocker.producer_id,
            blocker.producer_epoch,
            blocker.kind.value,
            max(0, stall.high_watermark - stall.last_stable_offset),
            blocker.started,
        )

    @classmethod
    def told(cls, event: EventDocument, held: HeldPartitionDocument) -> OpenStall:
        """Return the stall of one partition of an event."""
        subject, evidence = event["subject"], event["evidence"]
        started = evidence.get("transaction_began_timestamp")
        return cls(
            held["topic"],
            held["partition"],
            held["offset"],
            held["since_timestamp"],
            subject.get("application", ""),
            subject.get("transactional_id", ""),
            subject.get("producer_id"),
            subject.get("producer_epoch"),
            str(evidence.get("holder", "")),
            held["records"],
            float(started) if isinstance(started, int | float) else None,
        )


class _Instant(NamedTuple):
    """The time of a reading by our own clock, and by that which stalls are dated by."""

    wall: float
    shown: float


class _Ending(NamedTuple):
    """A stall that has ended between ``stood`` and ``at``, and until when its end may still become known."""

    stall: OpenStall
    stood: _Instant
    at: float
    until: float


class StallRules:
    """The stalls that are open, and those whose end is not known yet."""

    def __init__(self) -> None:
        self._open: dict[Place, OpenStall] = {}
        self._seen: Stalls | None = None
        self._not_shown: list[Place] = []  # that were open, and are not among ``_seen``
        self._stood: dict[Place, _Instant] = {}  # when an open stall was last read
        self._restored: set[Place] = set()
        self._ending: dict[Place, _Ending] = {}
        # Of the holders, by producer id, each with the wall time at which it was known.
        self._decisions: dict[int | None, deque[tuple[float, Transaction]]] = {}
        self._holders: set[int | None] = set()
        self._decided: Newest | None = None  # these, and the holders of ``_noted``, were looked at
        self._noted: Stalls | None = None
        self._next = 0  # the number of the first decision that was not looked at

    def open(self, now: float) -> Iterator[Event]:
        """The begin of each stall without an end, by holder, for the header of a segment."""
        holders: defaultdict[tuple[EventSubject, str, float], list[OpenStall]] = defaultdict(list)
        for stall in (*self._open.values(), *(ending.stall for ending in self._ending.values())):
            holders[stall.subject, stall.kind, stall.started or 0.0].append(stall)
        for several in holders.values():
            yield from _of_holder(EventKind.STALL_BEGUN, several, _evidence(several[0]), now)

    def restore(self, events: Iterable[EventDocument]) -> int:
        """Take the stalls that these events of the process before this one leave open. Returns how many."""
        found: dict[Place, OpenStall] = {}
        for event in events:
            for held in event["partitions"]:
                stall = OpenStall.told(event, held)
                if event["kind"] in _BEGUN:
                    found[stall.place] = stall
                elif event["kind"] == EventKind.STALL_ENDED:
                    found.pop(stall.place, None)
        for place in found.keys() - self._open.keys():
            self._open[place] = found[place]
            self._restored.add(place)
        return len(found)

    def events(self, reading: LastReads) -> Iterator[Event]:
        """Compare with the last reading."""
        self._note_decisions(reading)
        now_at = _Instant(reading.wall, _shown(reading))
        state, stalls = next(reading.facts(Stalls), (None, None))
        if stalls is not None and state is not None:
            if stalls is not self._seen:
                yield from self._begun(stalls, reading)
                now = {_place(stall) for stall in stalls.stalls}
                self._stood |= dict.fromkeys(now & self._open.keys(), now_at)
                self._not_shown = [place for place in self._open if place not in now]
            for place in [place for place in self._not_shown if place in self._open]:
                stall = self._open[place]
                # The decision of its holder does not end it where a marker was dropped.
                if TopicPartition(stall.topic, stall.partition) in stalls.unread:
                    continue
                known = state.up and (place not in self._restored or _every_stall_is_known(reading))
                stood = self._stood.get(place, _Instant(-math.inf, stall.since))
                if known or self._complete(stall, stood) is not None:
                    del self._open[place]
                    self._stood.pop(place, None)
                    self._ending[place] = _Ending(stall, stood, now_at.shown, reading.wall + SETTLE_SECONDS)
            self._seen = stalls
        yield from self._ended(reading, final=False)

    def close(self, reading: LastReads) -> Iterator[Event]:
        """Return the ends that were waited for. Stalls that are open stay open in the journal."""
        yield from self._ended(reading, final=True)

    # --- Begun and named ---

    def _begun(self, stalls: Stalls, reading: LastReads) -> Iterator[Event]:
        waiting = (reading.fact(GroupsHeld) or GroupsHeld({})).by_partition
        found: dict[tuple[EventKind, EventSubject, str], list[OpenStall]] = defaultdict(list)
        groups: dict[tuple[EventKind, EventSubject, str], set[str]] = defaultdict(set)
        for stalled in stalls.stalls:
            stall = OpenStall.of(stalled)
            before = self._open.get(stall.place)
            followed = before is not None and stall.place not in self._restored
            if before is None and (ending := self._ending.pop(stall.place, None)) is not None:
                before = ending.stall  # it only could not be read
            if before is None and len(self._open) >= MOST_STALLS:
                continue
            if before is not None and not followed:
                stall = stall._replace(since=min(before.since, stall.since))
            stall = _still_named(stall, before)
            self._open[stall.place] = stall
            self._restored.discard(stall.place)
            for kind in _news(stall, before):
                what = (kind, stall.subject, stall.kind)
                found[what].append(stall)
                groups[what].update(waiting.get(TopicPartition(stall.topic, stall.partition), ()))
        for (kind, subject, _), several in found.items():
            evidence = _evidence(several[0])
            if named := sorted(groups[kind, subject, several[0].kind]):
                evidence["waiting_groups"] = ", ".join(named[:MOST_GROUPS])
                evidence["waiting_groups_count"] = len(named)
            yield from _of_holder(kind, several, evidence, _shown(reading))

    # --- Ended ---

    def _note_decisions(self, reading: LastReads) -> None:
        recent = reading.fact(Recent)
        decided = None if recent is None else recent.ended
        if decided is self._decided and self._seen is self._noted:
            return
        self._decided, self._noted = decided, self._seen
        holders = {stall.producer_id for stall in self._open.values()}
        holders |= {ending.stall.producer_id for ending in self._ending.values()}
        holders.discard(None)
        for gone in self._decisions.keys() - holders:
            del self._decisions[gone]
        if decided is None:
            return
        # A holder that is new may have been decided before: its partition stands until the marker is there.
        seen = 0 if holders - self._holders else self._next
        for decision in decided.since(seen) if holders else ():
            if decision.producer_id in holders:
                known = self._decisions.setdefault(decision.producer_id, deque(maxlen=MOST_DECISIONS))
                if all(decision != other for _, other in known):
                    known.append((reading.wall, decision))
        self._next, self._holders = decided.end, holders

    def _complete(self, stall: OpenStall, stood: _Instant) -> Transaction | None:
        """The decision that released the partition: the oldest that its records may belong to, but for one whose marker
        was dropped, as the partition stood on.

        None where no coordinator had the holder, and a later decision of its producer differs: that one's marker
        releases the partition where the first was dropped, as while the partition had no leader.
        """
        partition = TopicPartition(stall.topic, stall.partition)
        found: Transaction | None = None
        for known_at, decision in self._decisions.get(stall.producer_id, ()):
            if decision.partitions is None or partition not in decision.partitions:
                continue
            if found is None:
                written = known_at >= stood.wall - MARKED_SECONDS
                found = decision if written and _belongs(stall, decision) else None
            elif stall.started is None and decision.commit is not found.commit:
                return None
        return found

    def _ended(self, reading: LastReads, *, final: bool) -> Iterator[Event]:
        found: dict[tuple[EventSubject, StallEnd, bool], list[tuple[OpenStall, float]]] = defaultdict(list)
        for place, ending in list(self._ending.items()):
            decision = self._complete(ending.stall, ending.stood)
            restored = place in self._restored
            if decision is None and reading.wall < ending.until and not final and not restored:
                continue
            del self._ending[place]
            self._restored.discard(place)
            how = StallEnd.UNKNOWN if decision is None else how_ended(ending.stall, decision)
            at = ending.at
            if decision is not None and decision.completed_ms is not None:
                at = min(at, max(decision.completed_ms / 1000, ending.stood.shown))
            elif restored:
                at = max(reading.since, ending.stall.since)
            found[ending.stall.subject, how, restored].append((ending.stall, at))
        for (_, how, restored), several in found.items():
            yield from _of_end(how, several, restored_at=reading.since if restored else None)


def _shown(reading: LastReads) -> float:
    """The time of the reading by the clock that stalls are dated by."""
    return (reading.fact(CoordinatorTime) or CoordinatorTime()).shown(reading.wall)


def _every_stall_is_known(reading: LastReads) -> bool:
    """Return whether offsets were read for so long that every stall is known, as some time after a start."""
    watch = reading.fact(StallWatch)
    return watch is not None and reading.wall - watch.since >= watch.stall_after + SETTLE_SECONDS


def _belongs(stall: OpenStall, decision: Transaction) -> bool:
    """Return whether the decision may have released the partition.

    It is that of the transaction that began when the holder did. Where that is not known, it has the holder's epoch,
    which transactions of an older client share: it began before the partition stood, and completed after. A later
    transaction of its producer releases the partition of one that hangs or lacks its marker.
    """
    begun, completed = decision.begun_ms / 1000, (decision.completed_ms or 0) / 1000
    own = stall.started is not None and abs(begun - stall.started) <= MILLISECOND
    if stall.kind in _RELEASED_BY_THE_NEXT:
        return completed >= stall.since and not own
    if stall.started is not None:
        return own
    stood = begun <= stall.since + SAME_INSTANT_SECONDS and completed >= stall.since - SAME_INSTANT_SECONDS
    return stall.producer_epoch in decision.client_epochs and stood


def how_ended(stall: OpenStall, decision: Transaction) -> StallEnd:
    """Return how the decision ended the stall.

    A transaction that hangs or lacks its marker ends with the next one of its producer, see ``_belongs``: whether
    readers get its records is told with its marker.
    """
    if stall.kind in _RELEASED_BY_THE_NEXT:
        return StallEnd.PRODUCER_BACK
    if decision.commit:
        return StallEnd.COMMITTED
    if decision.outcome is Outcome.TIMED_OUT:
        return StallEnd.TIMED_OUT
    return StallEnd.PRODUCER_BACK if decision.outcome is Outcome.FENCED else StallEnd.ABORTED


def _place(stall: Stall) -> Place:
    return stall.partition.topic, stall.partition.partition, stall.last_stable_offset


def _still_named(stall: OpenStall, before: OpenStall | None) -> OpenStall:
    """The stall with the holder that was known before, where this read could not ask for it."""
    if before is None or stall.named or not before.named or stall.kind != BlockerKind.UNKNOWN.value:
        return stall
    return before._replace(records=stall.records, since=stall.since)


def _news(stall: OpenStall, before: OpenStall | None) -> Iterator[EventKind]:
    if before is None:
        yield EventKind.STALL_BEGUN
    elif stall.named and not before.named:
        yield EventKind.STALL_NAMED
    if before is None or before.kind != stall.kind:
        if stall.kind == BlockerKind.HANGING.value:
            yield EventKind.HANGING_PROVEN
        elif stall.kind == BlockerKind.UNMARKED.value:
            yield EventKind.UNMARKED_COMMIT


_WHAT: Mapping[EventKind, str] = {
    EventKind.STALL_BEGUN: "stalled",
    EventKind.STALL_NAMED: "stalled: the holder is known",
    EventKind.HANGING_PROVEN: "held by a transaction that is proven to hang",
    EventKind.UNMARKED_COMMIT: "held by a committed transaction that lacks its marker",
}


def _evidence(stall: OpenStall) -> dict[str, Text]:
    """What is known of a holder, but for its names."""
    began = {} if stall.started is None else {"transaction_began_timestamp": round(stall.started, 3)}
    return {"holder": stall.kind, **began}


def _of_holder(
    kind: EventKind, several: Sequence[OpenStall], evidence: Mapping[str, Text], now: float
) -> Iterator[Event]:
    for part in _parts(sorted(several)):
        held = tuple(_held(stall, now) for stall in part)
        at = min(stall.since for stall in held) if kind is EventKind.STALL_BEGUN else now
        what = f"{_partitions(held)} {_WHAT[kind]}{_by(part[0])}"
        yield Event(kind, at, _key(kind, part[0]), what, _subject(part), held, evidence)


def _of_end(how: StallEnd, several: Sequence[tuple[OpenStall, float]], *, restored_at: float | None) -> Iterator[Event]:
    for part in _parts(sorted(several, key=lambda end: end[0])):
        stalls = [stall for stall, _ in part]
        held = tuple(_held(stall, at) for stall, at in part)
        at = max(at for _, at in part)
        evidence: dict[str, Text] = {"holder": stalls[0].kind}
        what = f"{_partitions(held)} no longer stalled: {_HOW[how]}{_by(stalls[0])}"
        if restored_at is not None:
            evidence["end_seen"] = False
            evidence["agent_started_timestamp"] = round(restored_at, 3)
            what += ": it ended before this agent looked"
        elif how is StallEnd.UNKNOWN:
            evidence["missing"] = "the transaction log was not read, or does not show which decision ended it"
        kind = EventKind.STALL_ENDED
        duration = max(stall.seconds for stall in held)
        yield Event(kind, at, _key(kind, stalls[0]), what, _subject(stalls), held, evidence, how, duration)


_HOW: Mapping[StallEnd, str] = {
    StallEnd.COMMITTED: "committed",
    StallEnd.ABORTED: "aborted",
    StallEnd.TIMED_OUT: "timed out",
    StallEnd.PRODUCER_BACK: "its producer came back",
    StallEnd.UNKNOWN: "how is not known",
}


def _parts(several: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for at in range(0, len(several), MOST_PARTITIONS):
        yield several[at : at + MOST_PARTITIONS]


def _held(stall: OpenStall, now: float) -> HeldPartition:
    return HeldPartition(stall.topic, stall.partition, stall.offset, stall.since, stall.records, now - stall.since)


def _key(kind: EventKind, stall: OpenStall) -> str:
    return f"{kind.value}:{stall.topic}-{stall.partition}@{stall.offset}"


def _subject(stalls: Sequence[OpenStall]) -> EventSubject:
    """The holder; with the partition where there is one only."""
    subject = stalls[0].subject
    if len(stalls) > 1:
        return subject
    return subject._replace(topic=stalls[0].topic, partition=stalls[0].partition)


def _partitions(held: Sequence[HeldPartition]) -> str:
    first = f"{held[0].topic}-{held[0].partition}"
    return f"{first} is" if len(held) == 1 else f"{first} and {len(held) - 1} more partitions are"


def _by(stall: OpenStall) -> str:
    """The holder, where it is known."""
    if stall.transactional_id:
        return f", transaction of {stall.transactional_id}"
    return "" if stall.producer_id is None else f", producer id {stall.producer_id}"
