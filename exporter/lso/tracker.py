"""Which LSOs do not move, since when, and their holders: the state between two reads. No I/O.

``lso/source/lso.py`` reads and feeds it; ``rules`` has the rules.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from exporter.core.derived import Derived, VersionedDict
from exporter.lso.dating import Anchor, Dated, anchored
from exporter.lso.open_producers import OpenProducers, Settled, settled_partitions
from exporter.lso.readings import Reading, Readings
from exporter.lso.rules import (
    Coordinators,
    LogProducer,
    Standing,
    holding_producer,
    is_stalled,
    standing,
)
from exporter.lso.saved_stalls import SavedStall, read_stalls, stalls_document
from exporter.model import TopicPartition
from exporter.words import TransactionState


class Held(NamedTuple):
    """A holder and since when it holds: the open transaction of a producer that starts at an offset.

    A start offset and a producer identify one transaction.
    """

    producer_id: int
    start_offset: int
    since: Dated
    exact: bool

    @property
    def who(self) -> tuple[int, int]:
        return self.producer_id, self.start_offset


class StallTracker:
    """The partitions of one cluster. ``stall_after`` is in seconds."""

    def __init__(self, stall_after: float) -> None:
        self.stall_after = stall_after
        self._anchor: Anchor | None = None
        self.readings = Readings()
        self.standing = VersionedDict[TopicPartition, Standing]()
        self.newest = float("-inf")
        """The instant of the newest reading."""
        self.producers = OpenProducers()
        self._held: dict[TopicPartition, Held] = {}
        self._saved: dict[TopicPartition, SavedStall] = {}
        self._topic_ids: dict[str, str] = {}
        self._confirmed: dict[TopicPartition, float] = {}
        self._settled = Derived(lambda _standing, _producers, by: settled_partitions(self.standing, self.producers, by))
        self._begins = Derived(lambda _: sorted(state.seen for state in self.standing.values()))
        # When the end of each partition was read last before what is open in it was written, and that end.
        self._closed: dict[TopicPartition, tuple[float, int]] = {}
        # The last readings of partitions that are not read any more, and their instants.
        self._lost: dict[TopicPartition, tuple[Reading, float]] = {}

    # --- Time ---

    def date(self, monotonic: float, wall: float, ahead: float | None = None, boot: str = "") -> None:
        """Set both clocks; ``ahead``: seconds by which ours is ahead of the coordinators', if known.

        Instants known only as Unix time move with a better anchor; instants that this process measured do not.
        """
        before, now = self._anchor, anchored(self._anchor, boot, monotonic, wall, ahead)
        self._anchor = now
        if before is None or before.zero == now.zero:
            return
        for partition, state in list(self.standing.items()):
            self.standing[partition] = state._replace(since=state.since.moved(before, now))
        for partition, held in self._held.items():
            self._held[partition] = held._replace(since=held.since.moved(before, now))
        for partition, known in self._saved.items():
            self._saved[partition] = known._replace(since=known.since.moved(before, now))

    @property
    def anchor(self) -> Anchor:
        if self._anchor is None:
            raise RuntimeError("date was not called yet")
        return self._anchor

    # --- Over a restart ---

    def remember(self, document: Mapping[str, Any]) -> None:
        """Restore the state of an earlier process, as ``memory`` returned it."""
        self._saved |= read_stalls(document, self.anchor)

    def memory(self) -> dict[str, dict[str, Any]]:
        """The state to save: every partition whose LSO is below its high watermark."""
        standing = {partition: self._memory_of(partition) for partition in self.standing}
        return stalls_document(self._saved | standing, self.anchor)

    def remembered(self) -> tuple[object, ...]:
        """A value that is equal while ``memory`` is."""
        return dict(self.standing), dict(self._held), dict(self._saved), dict(self._topic_ids), self.anchor

    def _memory_of(self, partition: TopicPartition) -> SavedStall:
        state, held = self.standing[partition], self._held.get(partition)
        topic_id = self._topic_ids.get(partition.topic, "")
        return SavedStall(state.last_stable_offset, state.since, topic_id, None if held is None else held.who)

    # --- Reading ---

    def look_at_all(
        self,
        stable: Mapping[TopicPartition, int],
        high: Mapping[TopicPartition, int],
        now: float,
        asked_at: float,
    ) -> None:
        """As ``look``, for every partition of ``high``."""
        known = self.readings.get
        other = [partition for partition, end in high.items() if known(partition) != (stable[partition], end)]
        for partition in other:
            self.look(partition, stable[partition], high[partition], now, asked_at)
        self.readings.renew(high, asked_at)
        self.newest = max(self.newest, asked_at)

    def look(
        self,
        partition: TopicPartition,
        last_stable_offset: int,
        high_watermark: int,
        now: float,
        asked_at: float | None = None,
    ) -> None:
        """Process one reading, requested at ``asked_at`` and answered at ``now``, monotonic."""
        at = now if asked_at is None else asked_at
        self.newest = max(self.newest, at)
        watched = partition in self.readings
        before = self.standing.get(partition)
        self._note_closed(partition, last_stable_offset, high_watermark)
        self.readings.note(partition, Reading(last_stable_offset, high_watermark), at)
        state = standing(before, last_stable_offset, high_watermark, now, watched=watched)
        lost = None if watched else self._lost.pop(partition, None)
        if state is not None and lost is not None:
            earlier, lost_at = lost
            if earlier.last_stable_offset != last_stable_offset or not earlier.lag:
                state = state._replace(after=lost_at)
        known = None if watched else self._saved.pop(partition, None)
        if known is not None and known.since.at <= now and self._same_topic(partition, known):
            if state is not None and known.last_stable_offset == last_stable_offset:
                state = state._replace(since=known.since, exact=True)
            if known.who is not None:
                self._held[partition] = Held(*known.who, known.since, exact=True)
        if state is None:
            self._released(partition)
            return
        if state is not before:
            self.standing[partition] = state
        moved = before is not None and state.last_stable_offset != before.last_stable_offset
        if moved:  # the holder may be the same, as deleted records move the LSO
            self.producers.outdate(partition)

    def _note_closed(self, partition: TopicPartition, last_stable_offset: int, high_watermark: int) -> None:
        """Note until when nothing of what is open now was written: the last reading without an open transaction. What
        is open below the end that it had was closed then: an unclean election took the marker.
        """
        last, (_, end) = self.readings.get(partition), self._closed.get(partition, (0.0, 0))
        if last is None or high_watermark < last.high_watermark or last_stable_offset < end:
            self._closed.pop(partition, None)
        elif not last.lag and last.high_watermark <= last_stable_offset:
            self._closed[partition] = self.readings.at[partition], last.high_watermark

    def closed_at(self, partition: TopicPartition) -> float | None:
        """A monotonic instant before the first record of every open transaction of a partition; None if not known."""
        return self._closed.get(partition, (None, 0))[0]

    def _released(self, partition: TopicPartition) -> None:
        self.standing.pop(partition, None)
        self.producers.forget(partition)
        self._held.pop(partition, None)

    def identify(self, topic_ids: Mapping[str, str]) -> frozenset[TopicPartition]:
        """Set the ids of topics, and drop the state of earlier topics of the same name. Returns the partitions of such
        topics.
        """
        made_again = {name for name, topic_id in topic_ids.items() if self._topic_ids.get(name, topic_id) != topic_id}
        self._topic_ids.update(topic_ids)
        if not made_again:
            return frozenset()
        stale = frozenset(partition for partition in self.readings if partition.topic in made_again)
        self.forget(stale)
        return stale

    def _same_topic(self, partition: TopicPartition, known: SavedStall) -> bool:
        """Return whether both are one topic, unless both ids are known and differ: a topic that was deleted and created
        again starts over.
        """
        now = self._topic_ids.get(partition.topic, "")
        return not now or not known.topic_id or now == known.topic_id

    def due(self, earliest: float, latest: float) -> float | None:
        """The last instant in this interval, on the monotonic clock, at which a partition becomes stalled."""
        begins = self._begins(self.standing.version)
        count = bisect_right(begins, latest - self.stall_after)
        instant = begins[count - 1] + self.stall_after if count else earliest
        return instant if instant > earliest else None

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop these partitions: they do not exist any more."""
        for partition in partitions:
            self.readings.drop(partition)
            self._released(partition)
            self._saved.pop(partition, None)
            self._confirmed.pop(partition, None)
            self._lost.pop(partition, None)
            self._closed.pop(partition, None)

    def keep(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Drop all partitions but these."""
        self.forget(
            [partition for partition in (*self.readings, *self._saved, *self._lost) if partition not in partitions]
        )
        topics = {partition.topic for partition in partitions}
        self._topic_ids = {topic: topic_id for topic, topic_id in self._topic_ids.items() if topic in topics}

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the readings of these partitions as too old. A later reading with the same LSO continues the stall."""
        for partition in partitions:
            if (last := self.readings.get(partition)) is None:
                continue
            known = {partition: self._memory_of(partition)} if partition in self.standing else {}
            at = self.readings.at[partition]
            self.forget([partition])
            self._lost[partition] = last, at
            self._saved |= known

    @property
    def unread(self) -> frozenset[TopicPartition]:
        """The partitions whose readings are too old, and those of an earlier process that were not read yet."""
        return frozenset((*self._lost, *self._saved))

    @property
    def unread_standing(self) -> AbstractSet[TopicPartition]:
        """Those of them whose LSO was below the high watermark when they were last read."""
        return self._saved.keys()

    def unconfirmed(self, max_age: float) -> list[TopicPartition]:
        """The stalled partitions whose leader was not confirmed within ``max_age`` seconds."""
        confirmed, read_at, never = self._confirmed, self.readings.at, float("-inf")
        return [
            partition
            for partition, state in self.standing.items()
            if (at := read_at[partition]) - confirmed.get(partition, never) >= max_age
            and is_stalled(state, self.stall_after, at)
        ]

    def confirm(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the leaders that gave the last readings of these partitions were confirmed."""
        self._confirmed.update(
            {partition: self.readings.at[partition] for partition in partitions if partition in self.standing}
        )

    @property
    def version(self) -> tuple[int, ...]:
        """A value that is equal while ``standing``, its holders and the offsets of its readings are."""
        return self.standing.version, self.producers.version, self.readings.version

    # --- The holders ---

    def to_describe(self, hot: AbstractSet[TopicPartition], coordinators: Coordinators) -> list[TopicPartition]:
        """Partitions whose producers must be described.

        At the first reading where no known open transaction writes (``hot``), as with a hanging one, and where a holder
        was known before the LSO moved; elsewhere once the LSO did not move between two readings. While a coordinator
        has the holder open, the LSO has no other holder, and no request is made.
        """
        unsettled = self.unsettled(coordinators)
        early = self._long_held(unsettled, coordinators)
        return [
            partition
            for partition in unsettled
            if partition in early or self._wants(partition, self.standing[partition], hot, coordinators)
        ]

    def _long_held(
        self, partitions: Iterable[TopicPartition], coordinators: Coordinators
    ) -> AbstractSet[TopicPartition]:
        """Of partitions in their first reading by this process, those in which a transaction is open that began more
        than ``stall_after`` ago: it may show that they are stalled.
        """
        first = {
            partition
            for partition in partitions
            if not self.standing[partition].exact and not self.producers.is_known(partition)
        }
        if not first:
            return first
        long_ago = self.anchor.unix(self.newest - self.stall_after)
        old = (
            transaction.partitions
            for transaction in coordinators.by_producer.values()
            if transaction.started is not None and transaction.started <= long_ago
        )
        return first.intersection(set().union(*old))

    def unsettled(self, coordinators: Coordinators) -> list[TopicPartition]:
        """The partitions with the LSO below the high watermark that are not ``Settled`` by these coordinators."""
        settled = self.settled(coordinators)
        return [partition for partition in self.standing if partition not in settled]

    def settled(self, coordinators: Coordinators) -> Mapping[TopicPartition, Settled]:
        """The partitions that are ``Settled`` by these coordinators."""
        return self._settled(self.standing.version, self.producers.version, coordinators)

    def unknown_to(self, coordinators: Coordinators) -> dict[TopicPartition, tuple[LogProducer, ...]]:
        """Open transactions that no coordinator has, by the last answer."""
        return self.producers.unknown_to(coordinators, self.unsettled(coordinators))

    def _wants(
        self, partition: TopicPartition, state: Standing, hot: AbstractSet[TopicPartition], coordinators: Coordinators
    ) -> bool:
        if partition in hot and state.seen >= self.readings.at[partition] and partition not in self._held:
            return False
        if not self.producers.is_known(partition):
            return True
        who = holding_producer(self.producers.of(partition), state.last_stable_offset)
        if who is None or not coordinators.knows(partition, who.producer_id):
            return True
        return coordinators.by_producer[who.producer_id].state is not TransactionState.ONGOING

    def described(
        self, partition: TopicPartition, producers: tuple[LogProducer, ...] | None, unasked: str | None = None
    ) -> None:
        """Store the answer of DescribeProducers for a partition; ``unasked`` is why there is none."""
        state = self.standing.get(partition)
        if state is None:
            return
        self.producers.described(partition, producers, unasked)
        if producers is not None:
            self._hold(partition, state, holding_producer(producers, state.last_stable_offset))

    def _hold(self, partition: TopicPartition, state: Standing, who: LogProducer | None) -> None:
        """The start of a hold by the same transaction does not change when the LSO moves."""
        if who is None:
            return
        before = self._held.get(partition)
        if before is not None and before.who == (who.producer_id, who.start_offset) and before.since.at < state.seen:
            state = self._restate(partition, state._replace(since=before.since, exact=before.exact))
        self._held[partition] = Held(who.producer_id, who.start_offset, state.since, state.exact)

    def held_by(self, partition: TopicPartition, state: Standing) -> int | None:
        """The producer id whose transaction was seen to start at the current LSO."""
        held = self._held.get(partition)
        return held.producer_id if held is not None and held.start_offset == state.last_stable_offset else None

    def not_before(self, partition: TopicPartition, state: Standing, started: float | None) -> Standing:
        """The stall, limited to the age of its holder where its saved instant depends on a clock that cannot be
        checked. Elsewhere its first records may be of an earlier transaction of the same producer.
        """
        if not state.since.unchecked or started is None or (begin := self.anchor.monotonic(started)) <= state.seen:
            return state
        return self._restate(partition, state._replace(since=Dated(begin)))

    def begun(self, partition: TopicPartition, state: Standing, seen: float) -> Standing:
        """Move the start of the stall to an earlier instant permanently: a later process continues with the shown
        instant.
        """
        if seen >= state.seen:
            return state
        earlier = Dated(seen, by_unix=True)
        if (held := self._held.get(partition)) is not None and held.since == state.since:
            self._held[partition] = held._replace(since=earlier)
        return self._restate(partition, state._replace(since=earlier))

    def _restate(self, partition: TopicPartition, state: Standing) -> Standing:
        self.standing[partition] = state
        return state
