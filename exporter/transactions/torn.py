"""Torn transactions: decided one way in the transaction log, and marked another way in a partition. Pure functions.

A transaction is decided by its Prepare record, which names its partitions and the producer epoch of its markers. Every
partition then gets a marker of that type. A transaction is torn by a partition whose log lacks the marker, or by an
ABORT of ``kafka-transactions.sh abort`` in the open transaction, after which the client's commit succeeds:
read_committed consumers then skip its records in that partition.

Clients of Transactions V2 raise the epoch with every transaction, so that each marker belongs to one transaction.
Transactions of older clients share an epoch: there a marker is compared by time as well, and the difference of the
brokers' clocks is allowed for wherever that avoids a false finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.kafka.log.control import Marker, PartitionMarkers
from exporter.model import TopicPartition
from exporter.transactions.records import LogValue, Status

CLOCK_SLACK_MS = 5_000
"""Allowed difference of two brokers' clocks, in milliseconds."""
V2 = 2


class Decision(NamedTuple):
    """A decided transaction. ``epoch`` is that of its markers, ``client_epochs`` those that its client wrote with.

    Times are Unix milliseconds by the log; ``completed_ms`` is None where the log has no Complete record of it.
    ``prepared`` are the epochs of all its Prepare records: one is written again when its append timed out.
    """

    transactional_id: str
    producer_id: int
    commit: bool
    epochs: frozenset[int]
    client_epochs: frozenset[int]
    begun_ms: int
    prepared_ms: int
    completed_ms: int | None
    partitions: frozenset[TopicPartition]
    v2: bool


class Torn(NamedTuple):
    """A transaction and one partition whose marker does not match the decision.

    ``marker`` is the marker that contradicts the decision, None where the partition has no marker of the transaction.
    """

    decision: Decision
    partition: TopicPartition
    marker: Marker | None

    @property
    def found(self) -> str:
        """The contents of the partition, as a text."""
        if self.marker is None:
            return "no marker"
        return f"{'COMMIT' if self.marker.commit else 'ABORT'} at offset {self.marker.offset}"


class MarkerComparison(NamedTuple):
    """``judged`` transactions were compared in all their partitions. ``open_questions`` are those that could not be."""

    torn: tuple[Torn, ...]
    judged: int
    open_questions: tuple[str, ...]


class DecisionLog:
    """Folds records of the transaction log, each partition's in offset order, into decisions."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], Decision] = {}
        self._done: list[Decision] = []
        self._ongoing: dict[tuple[str, int], set[int]] = {}
        self.without_partitions = 0
        self.undecodable = 0

    def take(self, transactional_id: str, value: LogValue, record_ms: int) -> None:
        """Take in one record."""
        key = (transactional_id, value.start_ms)
        if value.status is Status.ONGOING:
            self._ongoing.setdefault(key, set()).add(value.producer_epoch)
        elif value.status in {Status.PREPARE_COMMIT, Status.PREPARE_ABORT}:
            self._prepared(key, value, record_ms)
        elif value.status in {Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT} and value.start_ms >= 0:
            self._ongoing.pop(key, None)
            known = self._found.get(key)
            if known is not None:
                self._found[key] = known._replace(completed_ms=record_ms)
            else:
                self.without_partitions += 1

    def _prepared(self, key: tuple[str, int], value: LogValue, record_ms: int) -> None:
        before = self._found.get(key)
        if before is not None and before.completed_ms is not None:  # two that began in one millisecond
            self._done.append(before)
            before = None
        v2 = value.tags.client_version >= V2
        opened = self._ongoing.get(key) or {value.producer_epoch - 1 if v2 else value.producer_epoch}
        self._found[key] = Decision(
            key[0],
            value.producer_id,
            value.status is Status.PREPARE_COMMIT,
            frozenset({value.producer_epoch, *(before.epochs if before else ())}),
            frozenset(opened),
            key[1],
            before.prepared_ms if before else record_ms,
            None,
            frozenset(value.partitions or ()),
            v2,
        )

    def decisions(self) -> tuple[Decision, ...]:
        """All that were decided, in the order of time."""
        return tuple(sorted((*self._done, *self._found.values()), key=lambda each: each.prepared_ms))


def judge(
    decisions: Iterable[Decision],
    read: Mapping[TopicPartition, PartitionMarkers],
    since_ms: int,
    compacted: frozenset[str] = frozenset(),
) -> MarkerComparison:
    """Compare every transaction that completed since then with the markers of its partitions.

    ``read`` has the partitions from ``since_ms`` on to an end that was asked for after the transaction log was read.
    ``compacted`` are topics whose cleaner may have taken markers: there only a contradiction is judged.
    """
    known = tuple(decisions)
    by_producer: dict[int, list[Decision]] = defaultdict(list)
    for each in known:
        by_producer[each.producer_id].append(each)
    markers: dict[tuple[TopicPartition, int], list[Marker]] = defaultdict(list)
    for partition, each_read in read.items():
        for marker in each_read.markers:
            markers[partition, marker.producer_id].append(marker)
    torn: list[Torn] = []
    judged = 0
    open_questions: dict[str, None] = {}
    for decision in known:
        if decision.completed_ms is None or decision.completed_ms < since_ms:
            continue
        unread = list(_unread(decision, read, compacted))
        open_questions.update(dict.fromkeys(unread))
        judged += not unread
        for partition in sorted(decision.partitions):
            own = read.get(partition)
            if own is None:  # named in the open questions
                continue
            found = markers.get((partition, decision.producer_id), ())
            rivals = [each for each in by_producer[decision.producer_id] if partition in each.partitions]
            torn += _contradictions(decision, partition, found, rivals)
            missing = not any(_ends(decision, each) for each in found)
            if missing and own.fault is None and partition.topic not in compacted and _reaches(decision, own):
                torn.append(Torn(decision, partition, None))
    return MarkerComparison(tuple(torn), judged, tuple(open_questions))


def _unread(
    decision: Decision, read: Mapping[TopicPartition, PartitionMarkers], compacted: frozenset[str]
) -> Iterator[str]:
    for partition in decision.partitions:
        own = read.get(partition)
        if own is None:
            yield f"{partition}: not read"
        elif own.fault is not None:
            yield own.fault.detail
        elif partition.topic in compacted:
            yield f"{partition.topic} is compacted: a missing marker there proves nothing"
        elif not _reaches(decision, own):
            yield f"{partition}: retention may have taken markers of the time"


def _reaches(decision: Decision, own: PartitionMarkers) -> bool:
    """Whether the marker must be in what was read: where retention cut the partition, it began before the decision."""
    return not own.cut or 0 <= own.first_ms < decision.prepared_ms - CLOCK_SLACK_MS


def _ends(decision: Decision, marker: Marker) -> bool:
    """Whether a marker is one that the decision asks for."""
    if marker.commit is not decision.commit or marker.producer_epoch not in decision.epochs:
        return False
    return decision.v2 or _around(decision, marker)


def _around(decision: Decision, marker: Marker) -> bool:
    completed_ms = decision.completed_ms if decision.completed_ms is not None else marker.timestamp_ms
    return decision.prepared_ms - CLOCK_SLACK_MS <= marker.timestamp_ms <= completed_ms + CLOCK_SLACK_MS


def _contradictions(
    decision: Decision, partition: TopicPartition, found: Sequence[Marker], rivals: Iterable[Decision]
) -> Iterator[Torn]:
    """Markers of the other type that are the transaction's own: of its epochs, and asked for by no other decision."""
    others = [each for each in rivals if each is not decision]
    ended = any(_ends(decision, each) for each in found)
    for marker in found:
        if marker.commit is decision.commit or any(_ends(each, marker) for each in others):
            continue
        if decision.v2:
            # The epoch of a transaction's markers is that of the next one's records: with its own marker there, another
            # of that epoch belongs to the next one.
            own = marker.producer_epoch in (
                decision.client_epochs if ended else decision.client_epochs | decision.epochs
            )
        else:
            completed_ms = decision.completed_ms or decision.prepared_ms
            in_time = decision.begun_ms <= marker.timestamp_ms <= completed_ms
            own = in_time and marker.producer_epoch in decision.epochs | decision.client_epochs
        if own:
            yield Torn(decision, partition, marker)
