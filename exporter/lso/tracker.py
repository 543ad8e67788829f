"""Which partitions stand still, since when, and who holds them: the memory between two reads. No I/O.

``sources/lso.py`` reads and feeds it; ``judge`` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

from exporter.lso.rules import (
    Coordinators,
    LogProducer,
    Standing,
    Suspicion,
    holder,
    is_hanging,
    is_stalled,
    name_blocker,
    remembered,
    standing,
    suspect,
)
from exporter.model import ReleaseTimes, Stall, TopicPartition


class Reading(NamedTuple):
    """One look at a partition: offsets, and the monotonic instant."""

    last_stable_offset: int
    high_watermark: int
    at: float

    @property
    def lag(self) -> int:
        return max(0, self.high_watermark - self.last_stable_offset)


@dataclass(slots=True)
class Holding:
    """What is known of the open transactions in a partition that stands at ``last_stable_offset``."""

    last_stable_offset: int
    producers: tuple[LogProducer, ...] | None = None  # None: not asked, or no answer
    unasked: str | None = None
    suspicions: dict[int, Suspicion] | None = None


class StallWatch:
    """The partitions of one cluster. ``stall_after`` is in seconds."""

    def __init__(self, stall_after: float) -> None:
        self._stall_after = stall_after
        self.readings: dict[TopicPartition, Reading] = {}
        self.standing: dict[TopicPartition, Standing] = {}
        self._holdings: dict[TopicPartition, Holding] = {}
        self._remembered: dict[TopicPartition, tuple[int, float]] = {}
        self._proven: dict[TopicPartition, float] = {}

    # --- Over a restart ---

    def remember(self, document: Mapping[str, Any]) -> None:
        """Take in what an earlier process saw: ``{"topic": {"partition": [lso, since]}}``."""
        for topic, partitions in document.items():
            if not isinstance(partitions, dict):
                continue
            for number, value in partitions.items():
                match value:
                    case [int(offset), float(since) | int(since)] if number.isdigit():
                        self._remembered[TopicPartition(topic, int(number))] = (offset, float(since))

    def memory(self) -> dict[str, dict[str, list[float]]]:
        """What to remember: every partition that stands below its high watermark."""
        document: dict[str, dict[str, list[float]]] = {}
        standing = {partition: (state.last_stable_offset, state.since) for partition, state in self.standing.items()}
        for (topic, number), (offset, since) in (self._remembered | standing).items():
            document.setdefault(topic, {})[str(number)] = [offset, round(since, 3)]
        return document

    # --- Reading ---

    def look(
        self, partition: TopicPartition, last_stable_offset: int, high_watermark: int, now: float, wall: float
    ) -> None:
        """Take in one reading; ``now`` is monotonic, ``wall`` Unix seconds."""
        watched = partition in self.readings
        self.readings[partition] = Reading(last_stable_offset, high_watermark, now)
        before = self.standing.get(partition)
        state = standing(before, last_stable_offset, high_watermark, now, wall, watched=watched)
        known = None if watched else self._remembered.pop(partition, None)
        if known is not None and state is not None and known[0] == last_stable_offset and known[1] <= wall:
            state = remembered(state, known[1], now, wall)
        if state is None:
            self.standing.pop(partition, None)
        else:
            self.standing[partition] = state
        if before is not None and (state is None or state.last_stable_offset != before.last_stable_offset):
            self._holdings.pop(partition, None)
            self._proven.pop(partition, None)

    def due(self, earliest: float, latest: float) -> float | None:
        """The last instant in this span, on the monotonic clock, at which a standing partition becomes stalled."""
        instants = (state.seen + self._stall_after for state in self.standing.values())
        return max((each for each in instants if earliest < each <= latest), default=None)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are gone."""
        for partition in partitions:
            self.readings.pop(partition, None)
            self.standing.pop(partition, None)
            self._holdings.pop(partition, None)
            self._remembered.pop(partition, None)
            self._proven.pop(partition, None)

    def keep(self, partitions: AbstractSet[TopicPartition]) -> None:
        """These are all there are: forget the others."""
        self.forget([each for each in (*self.readings, *self._remembered) if each not in partitions])

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """These were not read for too long to say anything of; when they come back unmoved, they stand since then."""
        for partition in partitions:
            state = self.standing.get(partition)
            self.forget([partition])
            if state is not None:
                self._remembered[partition] = (state.last_stable_offset, state.since)

    def unproven(self, max_age: float) -> list[TopicPartition]:
        """The stalled partitions whose leader was not confirmed within ``max_age`` seconds."""
        return [
            partition
            for partition, state in self.standing.items()
            if is_stalled(state, self._stall_after, at := self.readings[partition].at)
            and at - self._proven.get(partition, float("-inf")) >= max_age
        ]

    def prove(self, partitions: Iterable[TopicPartition]) -> None:
        """The leaders that gave the last readings of these were confirmed."""
        self._proven.update({each: self.readings[each].at for each in partitions if each in self.standing})

    # --- Who holds them ---

    def to_describe(self, hot: AbstractSet[TopicPartition], coordinators: Coordinators) -> list[TopicPartition]:
        """Partitions whose producers must be asked for.

        At first sight where no open transaction is known to write (``hot``), which is how a hanging one looks;
        elsewhere once the LSO was seen standing still. While a coordinator knows the holder, the LSO cannot stand for
        another one, and nothing is asked again.
        """
        return [
            partition for partition, state in self.standing.items() if self._wants(partition, state, hot, coordinators)
        ]

    def _wants(
        self, partition: TopicPartition, state: Standing, hot: AbstractSet[TopicPartition], coordinators: Coordinators
    ) -> bool:
        if partition in hot and state.seen >= self.readings[partition].at:
            return False
        holding = self._holdings.get(partition)
        if holding is None or holding.producers is None:
            return True
        who = holder(holding.producers, state.last_stable_offset)
        return who is None or not coordinators.knows(partition, who.producer_id)

    def described(
        self, partition: TopicPartition, producers: tuple[LogProducer, ...] | None, unasked: str | None = None
    ) -> None:
        """What DescribeProducers said of a standing partition; ``unasked`` is why it said nothing."""
        state = self.standing.get(partition)
        if state is None:
            return
        holding = self._holdings.setdefault(partition, Holding(state.last_stable_offset))
        holding.unasked = unasked
        if producers is not None:
            holding.producers = producers

    def strangers(self, coordinators: Coordinators) -> set[int]:
        """Producer ids with an open transaction in a standing partition that no coordinator is known to know."""
        return {
            producer.producer_id
            for partition, holding in self._holdings.items()
            for producer in holding.producers or ()
            if not coordinators.knows(partition, producer.producer_id)
        }

    def cross_check(self, coordinators: Coordinators) -> None:
        """Raise, keep or drop the suspicion that a transaction hangs, as of the last reading of its partition."""
        for partition, holding in self._holdings.items():
            before = holding.suspicions or {}
            after = {}
            for producer in holding.producers or ():
                seen_at = self.readings[partition].at
                doubt = suspect(before.get(producer.producer_id), partition, producer, coordinators, seen_at)
                # An old answer of DescribeProducers begins no suspicion: it may have ended since.
                if doubt is not None and (holding.unasked is None or producer.producer_id in before):
                    after[producer.producer_id] = doubt
            holding.suspicions = after

    def hanging(self, partition: TopicPartition, coordinators: Coordinators) -> frozenset[int]:
        """Producer ids whose transaction in this partition is proven to hang."""
        holding = self._holdings.get(partition)
        if holding is None or not holding.suspicions or holding.unasked is not None:
            return frozenset()
        return frozenset(
            producer_id
            for producer_id, doubt in holding.suspicions.items()
            if is_hanging(doubt, coordinators, self._stall_after, self.readings[partition].at)
        )

    def answerable(self, partition: TopicPartition, coordinators: Coordinators) -> bool:
        """Whether it could be asked if any open transaction of this partition hangs."""
        if partition not in self.standing:
            return True
        holding = self._holdings.get(partition)
        if holding is None:
            return True
        return holding.unasked is None and (
            not coordinators.missing
            or all(coordinators.knows(partition, producer.producer_id) for producer in holding.producers or ())
        )

    def stalls(
        self,
        coordinators: Coordinators,
        releases: ReleaseTimes | None,
        leaders: Mapping[TopicPartition, int],
    ) -> Iterator[Stall]:
        """The stalled partitions, each with exactly one blocker."""
        for partition, state in self.standing.items():
            reading = self.readings[partition]
            if not is_stalled(state, self._stall_after, reading.at):
                continue
            holding = self._holdings.get(partition) or Holding(state.last_stable_offset)
            who = holder(holding.producers or (), state.last_stable_offset)
            hangs = who is not None and who.producer_id in self.hanging(partition, coordinators)
            unasked = holding.unasked
            if holding.producers is None and unasked is None:
                unasked = "its producers were not asked for yet"
            blocker = name_blocker(
                partition, state.last_stable_offset, who, coordinators, hanging=hangs, unasked=unasked
            )
            started = blocker.started if who is None or blocker.started is not None else who.last_timestamp
            since = state.since if state.exact else self._dated(partition, state, started, releases)
            leader = leaders.get(partition)
            yield Stall(partition, since, state.last_stable_offset, reading.high_watermark, leader, blocker)

    @staticmethod
    def _dated(
        partition: TopicPartition, state: Standing, started: float | None, releases: ReleaseTimes | None
    ) -> float:
        """When a stall older than this process began: the later of its holder's start and the end of the one before."""
        ended = releases.ended.get(partition) if releases is not None else None
        known = [instant for instant in (started, ended) if instant is not None]
        return min(max(known), state.since) if known else state.since
