"""Decisions of the last minutes compared with the markers of their partitions, as they come. No I/O.

``torn.judge`` compares, as for ``audit markers``. A finding is kept as a suspect first and is reported when a later
read shows the same: an abort is known only after its fence window, and a marker may be replicated late.

Not seen: what the byte limit leaves out, partitions without READ, and an ABORT written by hand after the next marker of
its producer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from exporter.kafka.log.control import Marker, PartitionMarkers
from exporter.model import Fact, TopicPartition
from exporter.transactions.decided.recent_decisions import RecentDecisions
from exporter.transactions.decided.shared_epoch import CLOCK_SLACK_MS
from exporter.transactions.decided.torn import Decision, Torn, judge
from exporter.words import FoundMarker

HOUR = 3600.0
CONFIRM_SECONDS = 15.0
"""Seconds from the first read that shows a finding to the one that confirms it."""
WAIT_SECONDS = 60.0
"""How long a decision waits for its partitions to be read."""
RIVAL_SECONDS = 30.0
"""How long a decision that was compared is kept: its markers are not those of another."""
KEPT_MS = 180_000
"""How long markers are kept of a partition, by the newest decision. A decision from before that is not compared: at a
first start the tail reads those of an hour.
"""
MOST_PENDING = 50_000
MOST_FOUND = 1_000


class TornMarker(NamedTuple):
    """A transaction and a partition whose marker is not that of its decision; ``at`` is monotonic."""

    torn: Torn
    found: FoundMarker
    at: float


@dataclass(frozen=True, slots=True)
class TornMarkers(Fact):
    """The transactions of the last hour whose marker in a partition is not that of their decision."""

    found: tuple[TornMarker, ...]


class _Waiting(NamedTuple):
    """A decision that is to be compared. ``suspected``: since when a finding is known, monotonic; infinite without.
    ``doubtful``: the clock that dated it was not known.
    """

    decision: Decision
    noted: float
    suspected: float = math.inf
    doubtful: bool = False


_Key = tuple[str, int, TopicPartition, int]


class MarkerWatch:
    """The decisions that wait, the markers that were read, and what was found. Instants are monotonic."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._rivals: deque[tuple[float, Decision]] = deque(maxlen=MOST_PENDING)
        self._seen: int | None = None
        self._found: dict[_Key, TornMarker] = {}
        self._newest_ms = 0
        self.followed: dict[TopicPartition, PartitionMarkers] = {}
        self.read_at: dict[TopicPartition, float] = {}
        self.unproven: frozenset[TopicPartition] = frozenset()
        """The partitions of decisions that wait for ``look_back``."""
        self.compared = 0
        self.not_compared = 0

    @property
    def found(self) -> tuple[TornMarker, ...]:
        """The findings of the last hour, the newest last."""
        return tuple(self._found.values())

    def note(self, decided: RecentDecisions, now: float, is_ours: Callable[[str], bool]) -> None:
        """Take in the decisions that are new. ``is_ours`` says whether the partitions of a topic are watched.

        A partition that is followed from a later time than a decision is read again.
        """
        seen = decided.first if self._seen is None else self._seen
        self.not_compared += max(0, decided.first - seen)
        for number, decision in enumerate(decided.since(seen), max(seen, decided.first)):
            places = frozenset([partition for partition in decision.partitions if is_ours(partition.topic)])
            if places:
                whole = len(places) == len(decision.partitions)
                mine = decision if whole else decision._replace(partitions=places)
                self._waiting.append(_Waiting(mine, now, doubtful=number < decided.doubtful))
                self._newest_ms = max(self._newest_ms, decision.completed_ms or 0)
        self._seen = decided.end
        self._keep([waiting for waiting in self._waiting if _from_ms(waiting.decision) >= self._oldest_ms])
        self._keep(self._waiting[-MOST_PENDING:])
        for waiting in self._waiting:
            for partition in waiting.decision.partitions:
                own = self.followed.get(partition)
                if own is not None and own.since_ms > _from_ms(waiting.decision):
                    self.leave(partition)

    @property
    def _oldest_ms(self) -> int:
        """From when on the markers are kept."""
        return self._newest_ms - KEPT_MS

    def _keep(self, kept: list[_Waiting]) -> None:
        """Give up all other decisions."""
        self.not_compared += len(self._waiting) - len(kept)
        self._waiting = kept

    def wanted(self) -> dict[TopicPartition, int]:
        """The partitions to read, the one that was read longest ago first, and from which instant on (Unix ms)."""
        places: dict[TopicPartition, int] = {}
        for waiting in self._waiting:
            begun_ms = waiting.decision.begun_ms
            for partition in waiting.decision.partitions:
                places[partition] = min(places.get(partition, begun_ms), begun_ms)
        held = [watched.torn for watched in self._found.values() if watched.found is FoundMarker.NOTHING]
        for torn in held:
            places.setdefault(torn.partition, torn.decision.prepared_ms)
        order = sorted(places, key=lambda place: self.read_at.get(place, -math.inf))
        return {partition: places[partition] for partition in order}

    def follow(self, partition: TopicPartition, start: int, since_ms: int, *, cut: bool = True) -> PartitionMarkers:
        """Begin to read a partition at the first offset of this time (Unix ms), or again."""
        own = self.followed[partition] = PartitionMarkers(start, cut, reached=start, since_ms=since_ms)
        return own

    def leave(self, partition: TopicPartition) -> None:
        """Read this partition no further; the next decision that names it begins again."""
        self.followed.pop(partition, None)

    def forget(self, topics: AbstractSet[str]) -> None:
        """Drop what was read of topics that were deleted or made again, and what was found in them."""
        for partition in [partition for partition in self.followed if partition.topic in topics]:
            self.leave(partition)
        for key in [key for key in self._found if key[2].topic in topics]:
            del self._found[key]

    def give_up(self) -> None:
        """Give up all decisions that wait."""
        self._keep([])

    def leave_out(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Give up the decisions of these partitions: they may not be read."""
        self._keep([waiting for waiting in self._waiting if not waiting.decision.partitions & partitions])

    def compare(
        self,
        reached: AbstractSet[TopicPartition],
        now: float,
        compacted: frozenset[str] = frozenset(),
        doubtful: AbstractSet[TopicPartition] = frozenset(),
    ) -> None:
        """Compare the decisions whose partitions are all in ``reached``: read to an end asked for after them.

        ``compacted`` are topics whose cleaner may have taken markers: only a marker that contradicts is found there.
        Of older clients, whose markers are told apart by times, nothing is found in ``doubtful`` partitions, whose
        leader's clock is not known to be that of the coordinators.
        """
        ready, left = [], []
        for waiting in self._waiting:
            if waiting.decision.partitions <= reached:
                ready.append(waiting)
            elif now - waiting.noted < WAIT_SECONDS:
                left.append(waiting)
            else:
                self.not_compared += 1
        read = {partition: self.followed[partition] for partition in reached}
        self._settle(read, now)
        torn, unproven = self._torn(ready, read, compacted)
        self.unproven = frozenset(
            place for places in unproven.values() for place in places if not read[place].looked_back
        )
        for waiting in ready:
            findings = [place for place in torn.get(id(waiting.decision), ()) if self._is_news(place, read, now)]
            if not findings and id(waiting.decision) in unproven:
                if self.unproven.isdisjoint(unproven[id(waiting.decision)]):
                    self.not_compared += 1
                    self._rivals.append((now, waiting.decision))
                else:
                    left.append(waiting)
            elif not findings:
                # A missing marker proves nothing where a cleaner may have taken it.
                whole = compacted.isdisjoint(partition.topic for partition in waiting.decision.partitions)
                self.compared += whole
                self.not_compared += not whole
                self._rivals.append((now, waiting.decision))
            elif not waiting.decision.v2 and (
                waiting.doubtful or not doubtful.isdisjoint(finding.partition for finding in findings)
            ):
                if now - waiting.noted < WAIT_SECONDS:
                    left.append(waiting)
                else:
                    self.not_compared += 1
                    self._rivals.append((now, waiting.decision))
            elif now - waiting.suspected >= CONFIRM_SECONDS:
                self.compared += 1
                self._rivals.append((now, waiting.decision))
                for finding in findings:
                    self._found[_key(finding)] = TornMarker(finding, _what(finding.marker), now)
            else:
                left.append(waiting._replace(suspected=min(waiting.suspected, now), noted=now))
        self._waiting = left
        self._forget(now)

    def _torn(
        self, ready: Collection[_Waiting], read: Mapping[TopicPartition, PartitionMarkers], compacted: frozenset[str]
    ) -> tuple[dict[int, list[Torn]], dict[int, list[TopicPartition]]]:
        """The findings about decisions that are ready, and the partitions that may be younger than one, both by the
        identity of the decision.
        """
        ours = {id(waiting.decision) for waiting in ready}
        if not ours:
            return {}, {}
        since_ms = min(waiting.decision.completed_ms or 0 for waiting in ready)
        producers = {waiting.decision.producer_id for waiting in ready}  # a marker is no other producer's
        rest = (waiting.decision for waiting in self._waiting if id(waiting.decision) not in ours)
        others = [
            decision for decision in (*(rival for _, rival in self._rivals), *rest) if decision.producer_id in producers
        ]
        known = [*others, *(waiting.decision for waiting in ready)]
        found: dict[int, list[Torn]] = {}
        unproven: dict[int, list[TopicPartition]] = {}
        judged = judge(known, read, since_ms, compacted)
        for torn in judged.unproven:
            if id(torn.decision) in ours:
                unproven.setdefault(id(torn.decision), []).append(torn.partition)
        for torn in judged.torn:
            marker = torn.marker
            # A marker from before the begin of the transaction is that of one before it, which may not be known here.
            if id(torn.decision) in ours and (marker is None or marker.timestamp_ms >= torn.decision.begun_ms):
                found.setdefault(id(torn.decision), []).append(torn)
        return found, unproven

    def _is_news(self, torn: Torn, read: Mapping[TopicPartition, PartitionMarkers], now: float) -> bool:
        """Return whether a finding stands. A missing COMMIT that the next commit made up for is none; what an ABORT
        ended in its place is found.
        """
        if torn.marker is not None or not torn.decision.commit:
            return True
        later = _later(torn.decision, read[torn.partition].markers)
        if later is not None and not later.commit:
            self._found[_key(torn)] = TornMarker(torn, FoundMarker.ABORT, now)
        return later is None

    def _settle(self, read: Mapping[TopicPartition, PartitionMarkers], now: float) -> None:
        """Look for the marker that ended the records of each transaction without one."""
        for key, watched in list(self._found.items()):
            own = read.get(watched.torn.partition)
            if watched.found is not FoundMarker.NOTHING or own is None:
                continue
            later = _later(watched.torn.decision, own.markers)
            if later is None:
                continue
            if later.commit is watched.torn.decision.commit:
                del self._found[key]
            else:
                self._found[key] = TornMarker(watched.torn, _what(later), now)

    def _forget(self, now: float) -> None:
        while self._rivals and self._rivals[0][0] < now - RIVAL_SECONDS:
            self._rivals.popleft()
        for key, watched in list(self._found.items()):
            old = watched.found is not FoundMarker.NOTHING and watched.at < now - HOUR
            if old or len(self._found) > MOST_FOUND:
                del self._found[key]
        for partition in [partition for partition, at in self.read_at.items() if at < now - HOUR]:
            del self.read_at[partition]  # it is begun again with the next decision that names it
            self.leave(partition)
        oldest_ms = self._oldest_ms
        for own in self.followed.values():
            own.since_ms = max(own.since_ms, oldest_ms)
            if own.markers and own.markers[0].timestamp_ms < oldest_ms:
                own.markers = [marker for marker in own.markers if marker.timestamp_ms >= oldest_ms]


def _from_ms(decision: Decision) -> int:
    """The earliest time of its markers."""
    return decision.prepared_ms - CLOCK_SLACK_MS


def _key(torn: Torn) -> _Key:
    offset = -1 if torn.marker is None else torn.marker.offset
    return torn.decision.transactional_id, torn.decision.begun_ms, torn.partition, offset


def _what(marker: Marker | None) -> FoundMarker:
    if marker is None:
        return FoundMarker.NOTHING
    return FoundMarker.COMMIT if marker.commit else FoundMarker.ABORT


def _later(decision: Decision, markers: Iterable[Marker]) -> Marker | None:
    """The first marker of the producer after the decision: it ends what is open of the producer id in the partition."""
    completed_ms = decision.completed_ms or decision.prepared_ms
    after = (
        marker
        for marker in markers
        if marker.producer_id == decision.producer_id and marker.timestamp_ms >= completed_ms
    )
    return next(after, None)
