"""Torn transactions: decided one way in the transaction log, and marked another way in a partition. Pure functions.

A transaction is decided by its Prepare record, which names its partitions and the producer epoch of its markers. Every
partition then gets a marker of that type. A transaction is torn by a partition whose log lacks the marker, or by an
ABORT of ``kafka-transactions.sh abort`` in the open transaction, after which the client's commit succeeds:
read_committed consumers then skip its records in that partition.

Clients of Transactions V2 raise the epoch with every transaction, so that each marker belongs to one transaction.
Transactions of older clients share an epoch: ``shared_epoch`` says which marker is whose. What became of records
without a marker is said by ``fate.judge``, as in the proof that a transaction hangs.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import NamedTuple

from exporter.kafka.log.batches import Marker
from exporter.kafka.log.markers import PartitionMarkers
from exporter.model import TopicPartition
from exporter.transactions.decided import fate
from exporter.transactions.decided.shared_epoch import CLOCK_SLACK_MS, assigned
from exporter.transactions.machine.records import UndecodableRecord
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.transaction import Transaction

_TIMESTAMP = attrgetter("timestamp_ms")


class MarkerWindow(NamedTuple):
    """The markers that a decision asks for: of this type and epoch, with a timestamp in this closed interval."""

    epoch: int
    commit: bool
    first_ms: float
    last_ms: float


class MarkerIndex:
    """Markers of one producer id in one partition."""

    def __init__(self, markers: Iterable[Marker]) -> None:
        self._found: dict[tuple[int, bool], list[Marker]] = {}
        shared = set()
        for marker in markers:
            key = marker.producer_epoch, marker.commit
            known = self._found.get(key)
            if known is None:
                self._found[key] = [marker]
            else:
                known.append(marker)
                shared.add(key)
        for key in shared:
            self._found[key].sort(key=_TIMESTAMP)

    def any_of(self, epochs: Collection[int], *, commit: bool) -> bool:
        """Return whether there is a marker of this type with one of these epochs."""
        return any((epoch, commit) in self._found for epoch in epochs)

    def between(self, epochs: Collection[int], first_ms: float, last_ms: float, *, commit: bool) -> list[Marker]:
        """The markers of this type and these epochs with a timestamp in this interval, in the order of offsets."""
        found: list[Marker] = []
        for epoch in epochs:
            markers = self._found.get((epoch, commit))
            if markers:
                first = bisect_left(markers, first_ms, key=_TIMESTAMP)
                found += markers[first : bisect_right(markers, last_ms, key=_TIMESTAMP)]
        return sorted(found) if len(found) > 1 else found


class AskedMarkers:
    """The markers that the decisions of one producer id ask for in one partition."""

    def __init__(self, windows: Iterable[MarkerWindow]) -> None:
        found: defaultdict[tuple[int, bool], list[tuple[float, float]]] = defaultdict(list)
        for window in windows:
            found[window.epoch, window.commit].append((window.first_ms, window.last_ms))
        self._firsts: dict[tuple[int, bool], Sequence[float]] = {}
        self._latest: dict[tuple[int, bool], Sequence[float]] = {}
        for key, intervals in found.items():
            intervals.sort()
            latest: list[float] = []
            for _, last_ms in intervals:
                latest.append(max(last_ms, latest[-1]) if latest else last_ms)
            self._firsts[key] = [first_ms for first_ms, _ in intervals]
            self._latest[key] = latest

    def asks_for(self, marker: Marker) -> bool:
        """Return whether a decision asks for this marker."""
        key = marker.producer_epoch, marker.commit
        begun = bisect_right(self._firsts.get(key, ()), marker.timestamp_ms)
        return begun > 0 and self._latest[key][begun - 1] >= marker.timestamp_ms


_CHECK_EVERY = 4096
"""Decisions compared between two calls of ``check``: some milliseconds."""


class ComparisonStopped(Exception):  # noqa: N818 -- no error: a deadline or a signal
    """Raised by ``check`` to end a comparison; what was compared until then is returned."""


class Torn(NamedTuple):
    """A transaction and one partition whose marker does not match the decision.

    ``marker`` is the marker that contradicts the decision, None where the partition has no marker of the transaction.
    """

    decision: Transaction
    partition: TopicPartition
    marker: Marker | None

    @property
    def found(self) -> str:
        """The contents of the partition, as a text."""
        if self.marker is None:
            return "no marker"
        return f"{'COMMIT' if self.marker.commit else 'ABORT'} at offset {self.marker.offset}"


class MarkerComparison(NamedTuple):
    """``judged`` transactions were compared in all their partitions. ``open_questions`` are those that could not be.

    ``unproven`` have no marker in a partition that may be younger than they are, see ``look_back``.
    """

    torn: tuple[Torn, ...]
    judged: int
    open_questions: tuple[str, ...]
    unproven: tuple[Torn, ...] = ()


class DecidedLog:
    """The transactions in the records of the transaction log, each partition's in offset order, by the state machine of
    the agent. ``undecodable`` counts records.
    """

    def __init__(self) -> None:
        self._machines: dict[int, StateMachine] = {}
        self._ended: list[Transaction] = []
        self.undecodable = 0

    def take(self, number: int, offset: int, record_ms: int, key: bytes, value: bytes | None) -> None:
        """Take in one record of partition ``number``."""
        machine = self._machines.get(number)
        if machine is None:
            machine = self._machines[number] = StateMachine(number)
        try:
            events = machine.apply(offset, record_ms, key, value)
        except UndecodableRecord:
            self.undecodable += 1
        else:
            self._ended += [event for event in events if isinstance(event, Transaction)]

    @property
    def without_partitions(self) -> int:
        """How many transactions have no record left that names their partitions."""
        return sum(transaction.partitions is None for transaction in self._every())

    def transactions(self) -> tuple[Transaction, ...]:
        """All that were decided and name their partitions, in the order of time."""
        named = (transaction for transaction in self._every() if transaction.partitions is not None)
        return tuple(sorted(named, key=lambda transaction: transaction.prepared_ms))

    def _every(self) -> Iterator[Transaction]:
        yield from self._ended
        for machine in self._machines.values():
            yield from (entry.pending for entry in machine.unsettled if entry.pending is not None)
            yield from machine.prepared()


def judge(
    decisions: Iterable[Transaction],
    read: Mapping[TopicPartition, PartitionMarkers],
    since_ms: int,
    compacted: frozenset[str] = frozenset(),
    check: Callable[[], None] = lambda: None,
) -> MarkerComparison:
    """Compare every transaction that completed since then with the markers of its partitions.

    ``read`` has the partitions from ``since_ms`` on to an end that was asked for after the transaction log was read.
    ``compacted`` are topics whose cleaner may have taken markers: there only a contradiction is judged. ``check`` is
    called often and may raise ComparisonStopped: what was not compared then is in the open questions.
    """
    comparison = _Comparison(tuple(decisions), read, since_ms, compacted, check)
    try:
        comparison.run()
    except ComparisonStopped as reason:
        comparison.stopped = str(reason)
    return comparison.result()


def clocks_apart_ms(decisions: Iterable[Transaction], read: Mapping[TopicPartition, PartitionMarkers]) -> float:
    """By how many milliseconds the clock of a partition's leader differs from a coordinator's at the least, as far as
    the markers of Transactions V2 show it: whatever its time, the only one of an epoch is that of its transaction, and
    it is written between the Prepare and the Complete record. A client that falls back to the older protocol goes on in
    the epoch of its last marker: that is left out.
    """
    asked: dict[tuple[int, int, bool], Transaction] = {}
    older: set[tuple[int, int, bool]] = set()
    for known in decisions:
        keys = [(known.producer_id, epoch, known.commit) for epoch in known.marker_epochs]
        if not known.v2:
            older.update(keys)
        elif known.completed_ms is not None:
            asked |= dict.fromkeys(keys, known)
    for key in older & asked.keys():
        del asked[key]
    apart = 0.0
    for partition, own in read.items():
        for marker in own.markers:
            decision = asked.get((marker.producer_id, marker.producer_epoch, marker.commit))
            if decision is not None and partition in _named(decision):
                early = decision.prepared_ms - marker.timestamp_ms
                apart = max(apart, early, marker.timestamp_ms - (decision.completed_ms or 0))
    return apart


class _Comparison:
    """One call of ``judge``: partition by partition, and in a partition producer id by producer id."""

    def __init__(
        self,
        known: tuple[Transaction, ...],
        read: Mapping[TopicPartition, PartitionMarkers],
        since_ms: int,
        compacted: frozenset[str],
        check: Callable[[], None],
    ) -> None:
        self._known = known
        self._read = read
        self._since_ms = since_ms
        self._compacted = compacted
        self._check = check
        self._torn: list[tuple[int, TopicPartition, Torn]] = []  # with the place of the decision
        self._unclear: dict[int, list[str]] = {}  # by the place of the decision
        self._unproven: list[Torn] = []
        self._compared: set[TopicPartition] = set()
        self._steps = 0
        self.stopped = ""

    def run(self) -> None:
        """Compare. Raises ComparisonStopped."""
        places: defaultdict[TopicPartition, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for place, decision in enumerate(self._known):
            self._step()
            for partition in _named(decision):
                places[partition][decision.producer_id].append(place)
        for partition in sorted(places):
            own = self._read.get(partition)
            if own is not None:  # else it is named in the open questions
                self._compare(partition, own, places[partition])
                self._compared.add(partition)

    def result(self) -> MarkerComparison:
        """Return the markers found, and what could not be compared."""
        judged = 0
        questions: dict[str, None] = {}
        if self.stopped:
            left = {partition for known in self._known for partition in _named(known)} - self._compared
            questions[f"{self.stopped}: {len(left)} partitions were not compared"] = None
        for place, decision in enumerate(self._known):
            if self._is_due(decision):
                unread = [*self._unread(decision), *self._unclear.get(place, ())]
                questions.update(dict.fromkeys(unread))
                judged += not unread and _named(decision) <= self._compared
        torn = tuple(torn for *_, torn in sorted(self._torn, key=_place))
        return MarkerComparison(torn, judged, tuple(questions), tuple(self._unproven))

    def _step(self) -> None:
        self._steps += 1
        if self._steps % _CHECK_EVERY == 0:
            self._check()

    def _is_due(self, decision: Transaction) -> bool:
        return decision.completed_ms is not None and decision.completed_ms >= self._since_ms

    def _unread(self, decision: Transaction) -> Iterator[str]:
        for partition in _named(decision):
            own = self._read.get(partition)
            if own is None:
                yield f"{partition}: not read"
            elif own.fault is not None:
                yield own.fault.detail

    def _compare(self, partition: TopicPartition, own: PartitionMarkers, producers: Mapping[int, list[int]]) -> None:
        due = {
            producer_id: places
            for producer_id, places in producers.items()
            if any(self._is_due(self._known[place]) for place in places)
        }
        written: defaultdict[int, list[Marker]] = defaultdict(list)
        for marker in own.markers if due else ():
            self._step()
            if marker.producer_id in due:
                written[marker.producer_id].append(marker)
        whole = own.fault is None
        for producer_id, places in due.items():
            self._compare_producer(partition, own, places, written.get(producer_id, []), whole=whole)

    def _compare_producer(
        self, partition: TopicPartition, own: PartitionMarkers, places: list[int], written: list[Marker], *, whole: bool
    ) -> None:
        if len(places) == 1 and _has_only_its_own(self._known[places[0]], written):
            return  # the usual case, without an index
        markers = MarkerIndex(written)
        shared = _SharedEpochs(self._known, places, written)
        asked: AskedMarkers | None = None
        for place in places:
            self._step()
            decision = self._known[place]
            if not self._is_due(decision):
                continue
            ended = (
                markers.any_of(decision.marker_epochs, commit=decision.commit) if decision.v2 else place in shared.own
            )
            for marker in _opposite(decision, markers, ended=ended):
                if asked is None:
                    asked = AskedMarkers(
                        window for decision_place in places for window in _windows(self._known[decision_place])
                    )
                if not asked.asks_for(marker):
                    self._torn.append((place, partition, Torn(decision, partition, marker)))
            if ended or not whole:
                continue
            if partition.topic in self._compacted:
                text = f"{partition.topic} is compacted, or its settings are not known: a missing marker proves nothing"
                self._unclear.setdefault(place, []).append(text)
            elif _reaches(decision, own):
                self._judge(place, partition, shared)
            else:
                text = f"{partition}: retention may have taken markers of the time, or the topic was made again since"
                self._unclear.setdefault(place, []).append(text)
                self._unproven.append(Torn(decision, partition, None))

    def _judge(self, place: int, partition: TopicPartition, shared: _SharedEpochs) -> None:
        """Take in a transaction that has no marker of its own in a partition."""
        decision = self._known[place]
        said = fate.judge(shared.records(place, partition), fate.ProducerLog((decision._replace(offset=place),)))
        if decision.commit and said.fate is not fate.Fate.COMMITTED:
            self._unclear.setdefault(place, []).extend(said.missing[:1])
        elif place not in shared.unclear:
            self._torn.append((place, partition, Torn(decision, partition, None)))
        else:
            text = f"{partition}: an abort of {decision.transactional_id!r} has no marker that is known to be its own"
            self._unclear.setdefault(place, []).append(text)


class _SharedEpochs:
    """The markers of the transactions of older clients of one producer id in one partition, by their places."""

    def __init__(self, known: tuple[Transaction, ...], places: list[int], written: list[Marker]) -> None:
        self._known = known
        older = sorted((place for place in places if not known[place].v2), key=lambda place: known[place].prepared_ms)
        found = assigned([known[place] for place in older], written) if older else None
        self.own = {older[at] for at in found.own} if found else set()
        self.unclear = {older[at]: marker for at, marker in found.unclear.items()} if found else {}

    def records(self, place: int, partition: TopicPartition) -> fate.OpenRecords:
        """The records of a transaction without a marker of its own, as if they were open."""
        decision = self._known[place]
        epochs = decision.client_epochs
        other = self.unclear.get(place)
        ended = -1 if other is None else None
        return fate.OpenRecords(partition, decision.producer_id, max(epochs), min(epochs), other, ended=ended)


def _named(decision: Transaction) -> frozenset[TopicPartition]:
    return decision.partitions or frozenset()


def _place(found: tuple[int, TopicPartition, Torn]) -> tuple[int, TopicPartition]:
    return found[:2]


def _reaches(decision: Transaction, own: PartitionMarkers) -> bool:
    """Return whether the marker must be in what was read: a marker before it is older than the decision, or records of
    the transaction are there. Timestamps of records are their producer's, and may be of any time.
    """
    if not own.cut or 0 <= own.first_ms < decision.prepared_ms - CLOCK_SLACK_MS:
        return True
    return any(
        producer_id == decision.producer_id
        and epoch in decision.client_epochs
        and (decision.v2 or decision.begun_ms - CLOCK_SLACK_MS <= written_ms <= decision.prepared_ms)
        for producer_id, epoch, written_ms in own.begins
    )


def _windows(decision: Transaction) -> Iterator[MarkerWindow]:
    """The markers that a decision asks for."""
    first_ms, last_ms = (-math.inf, math.inf) if decision.v2 else _around(decision)
    for epoch in decision.marker_epochs:
        yield MarkerWindow(epoch, decision.commit, first_ms, last_ms)


def _around(decision: Transaction) -> tuple[float, float]:
    """The time of the markers of a decision, with the allowed difference of clocks."""
    completed_ms = math.inf if decision.completed_ms is None else decision.completed_ms
    return decision.prepared_ms - CLOCK_SLACK_MS, completed_ms + CLOCK_SLACK_MS


def _has_only_its_own(decision: Transaction, written: list[Marker]) -> bool:
    """Return whether the markers of a producer, of which only this transaction is known, are that of this transaction
    alone. Markers from before it are of none that is known: an older client's, whose transactions share an epoch.
    """
    first_ms, last_ms = _around(decision)
    if not decision.v2:
        begun_ms = min(decision.begun_ms, first_ms)
        written = [marker for marker in written if marker.timestamp_ms >= begun_ms]
    if len(written) != 1:
        return False
    (marker,) = written
    in_time = decision.v2 or first_ms <= marker.timestamp_ms <= last_ms
    return in_time and marker.commit is decision.commit and marker.producer_epoch in decision.marker_epochs


def _opposite(decision: Transaction, markers: MarkerIndex, *, ended: bool) -> list[Marker]:
    """Markers of the other type that are the transaction's own, unless another decision asks for them."""
    epochs: AbstractSet[int]
    if decision.v2:
        # The epoch of a transaction's markers is that of the next one's records: with its own marker there, another
        # of that epoch belongs to the next one.
        epochs = decision.client_epochs if ended else decision.client_epochs | decision.marker_epochs
        return markers.between(epochs, -math.inf, math.inf, commit=not decision.commit)
    epochs = (
        decision.marker_epochs
        if decision.marker_epochs == decision.client_epochs
        else decision.marker_epochs | decision.client_epochs
    )
    completed_ms = decision.completed_ms or decision.prepared_ms
    return markers.between(epochs, decision.begun_ms, completed_ms, commit=not decision.commit)
