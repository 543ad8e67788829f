"""A read of the transaction log from its start to given offsets, to find the transactions that are open there.

It keeps the first and the newest record of every id with an open transaction, and the records of the producer ids whose
decisions are looked for; nothing of other ids. These are decoded when they are asked for: most of the records that open
a transaction are followed by others of their id. A scan can stop at a deadline and continue later without reading
records again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Polled, fault_of, is_end
from exporter.model import Clock, Deadline, KnownLogEnd
from exporter.transactions.decided.decisions import LogRecord, LogRun, decisions_of, passed_offset, whole_since
from exporter.transactions.decided.fate import ProducerLog
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.machine.entries import OPEN_STATES
from exporter.transactions.machine.progress import NO_EPOCH
from exporter.transactions.machine.records import (
    NO_TIMEOUT_MS,
    TOPIC,
    LogValue,
    Status,
    UndecodableRecord,
    decode_key,
    decode_value,
)
from exporter.transactions.machine.records import head as head_of
from exporter.transactions.source.log_range import BATCH, POLL_SECONDS, RangeReader

PATIENCE_SECONDS = 3.0
"""Without a message for so long, an error that the client told of is believed: with TLS and a distant cluster the first
message takes longer than one read, and a broker that is down is told of at once.
"""
MOST_RECORDS = 2_000
"""Records kept of one producer id, the newest."""
NO_RECORD = (
    f"no record of {TOPIC} has this producer id, which its coordinator writes before it hands one out: the log was made"
    " anew since, or lost it"
)
MOST_PRODUCERS = 1_000
"""Producer ids whose records are kept until a new one is looked for."""


class Cost(NamedTuple):
    """The cost of a read. ``seconds`` is wall clock."""

    records: int = 0
    size: int = 0
    seconds: float = 0.0


class _OpenRecord(NamedTuple):
    """A record of an id with an open transaction. Its head is known to be readable."""

    offset: int
    leader_epoch: int | None
    value: bytes


class _OpenRecords(NamedTuple):
    """The first and the newest record of an id since it has an open transaction."""

    first: _OpenRecord
    newest: _OpenRecord


class _KeptRecord(NamedTuple):
    """A record of a producer id whose decisions are looked for."""

    number: int
    offset: int
    leader_epoch: int | None
    record_ms: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class FoundOpen:
    """The ids with a transaction that is not completed, each with its newest record, and messages about ids whose
    newest record could not be decoded.
    """

    values: Sequence[tuple[str, LogValue]]
    undecodable: tuple[str, ...]

    def owners(self) -> dict[int, str]:
        """The ids by producer id, by the previous and by the next one."""
        return {
            producer_id: transactional_id
            for transactional_id, value in self.values
            for producer_id in (value.tags.previous_producer_id, value.tags.next_producer_id, value.producer_id)
            if producer_id >= 0
        }

    def transactions(self, application_of: Callable[[str], str]) -> tuple[OpenTransaction, ...]:
        """The transactions."""
        return tuple(
            OpenTransaction(
                transactional_id,
                application_of(transactional_id),
                value.producer_id,
                value.producer_epoch,
                OPEN_STATES[value.status],
                value.start_ms / 1000 if value.start_ms >= 0 else None,
                value.timeout_ms / 1000 if 0 <= value.timeout_ms < NO_TIMEOUT_MS else None,
                value.last_update_ms / 1000 if value.status > 1 and value.last_update_ms >= 0 else None,
                frozenset(value.partitions or ()),
            )
            for transactional_id, value in self.values
        )


class LogScan:
    """Not thread-safe: for one worker. ``connect`` makes a reader, which is closed at the end of the scan."""

    def __init__(self, connect: Callable[[], RangeReader], clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._reader: RangeReader | None = None
        self._assigned: set[int] = set()
        self._heard = 0.0  # monotonic: when the reader was made, or gave a message
        self._open: dict[int, dict[bytes, _OpenRecords]] = {}
        self._unread: dict[int, dict[bytes, str]] = {}
        self._runs: dict[int, LogRun] = {}
        self._of_producer: dict[int, deque[_KeptRecord]] = {}
        self._forgotten: dict[int, int] = {}  # the offset after the last record that was not kept, by producer id
        self.reached: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        """The leader epoch of the last record that was read of each partition, where it is known."""
        self.cost = Cost()

    # --- Reading ---

    def look_for(self, producer_ids: AbstractSet[int]) -> None:
        """Keep the records of these producer ids, too. For a new one the log is read again from its start."""
        if not producer_ids - self._of_producer.keys():
            return
        for number in list(self.reached):
            self.start_again(number)
        self._forgotten.clear()
        if len(self._of_producer) > MOST_PRODUCERS:
            self._of_producer.clear()
        for producer_id in producer_ids:
            self._of_producer.setdefault(producer_id, deque(maxlen=MOST_RECORDS))

    def read(
        self, ends: Mapping[int, int], deadline: Deadline, advance: Callable[[int], object] = lambda _: None
    ) -> bool:
        """Continue until every partition is read up to these offsets, or the deadline. Returns whether all are.

        ``advance`` is called with the number of offsets passed. Raises AskError when reading is refused.
        """
        began = self._clock.monotonic()
        for number, end in ends.items():
            if end < self.reached.get(number, 0):  # truncated, or created again: the records read are outdated
                self.start_again(number)
        try:
            done = self._read(ends, deadline, advance)
        except AskError:
            self.close()
            raise
        finally:
            seconds = self.cost.seconds + self._clock.monotonic() - began
            self.cost = self.cost._replace(seconds=seconds)
        if done:
            self.close()
        return done

    def close(self) -> None:
        """Close the connection. Records read are kept."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
            self._assigned.clear()

    def _read(self, ends: Mapping[int, int], deadline: Deadline, advance: Callable[[int], object]) -> bool:
        left = {number: end for number, end in ends.items() if self.reached.get(number, 0) < end}
        if not left:
            return True
        if self._reader is None or self._assigned != set(left):
            if self._reader is None:
                self._reader, self._heard = self._connect(), self._clock.monotonic()
            self._reader.assign({number: self.reached.get(number, 0) for number in left})
            self._assigned = set(left)
        while left and not deadline.over:
            before = sum(self.reached.get(number, 0) for number in ends)
            messages = self._reader.poll(BATCH, min(POLL_SECONDS, max(0.01, deadline.remaining())))
            if messages:
                self._heard = self._clock.monotonic()
            self._take(messages, left)
            for number in [number for number, end in left.items() if self.reached.get(number, 0) >= end]:
                del left[number]
                self._assigned.discard(number)
                self._reader.leave(number)
            advance(max(0, sum(self.reached.get(number, 0) for number in ends) - before))
        silent = self._clock.monotonic() - self._heard >= PATIENCE_SECONDS
        if left and silent and (fault := self._reader.trouble()) is not None:
            raise AskError(fault)
        return not left

    def _take(self, messages: list[Polled], left: Mapping[int, int]) -> None:
        records = size = 0
        for message in messages:
            number = message.partition()
            if number not in left:
                continue
            if (error := message.error()) is not None:
                if not is_end(error):
                    raise AskError(fault_of(error, TOPIC))
                self.reached[number] = max(self.reached.get(number, 0), message.offset())
                self._run(number).ended(message.offset())
                continue
            offset = message.offset()
            if offset < self.reached.get(
                number, 0
            ):  # the position was missing: the client restarted at the earliest offset
                self.start_again(number)
            self.reached[number] = offset + 1
            if (epoch := message.leader_epoch()) is not None:
                self.epochs[number] = epoch
            self._run(number).read(offset, epoch)
            key, value = message.key() or b"", message.value()
            records += 1
            size += len(key) + len(value or b"")
            try:
                opens = _leaves_open(key, value)
            except UndecodableRecord as problem:
                self._unread.setdefault(number, {})[key] = _unread(number, offset, problem)
                continue
            if unread := self._unread.get(number):
                unread.pop(key, None)
            if self._of_producer and value is not None:
                self._keep(_KeptRecord(number, offset, epoch, message.timestamp()[1], key, value))
            opened = self._open.setdefault(number, {})
            if opens and value is not None:
                newest = _OpenRecord(offset, epoch, value)
                before = opened.get(key)
                opened[key] = _OpenRecords(newest if before is None else before.first, newest)
            else:
                opened.pop(key, None)
        self.cost = Cost(self.cost.records + records, self.cost.size + size, self.cost.seconds)

    def _run(self, number: int) -> LogRun:
        if (found := self._runs.get(number)) is None:
            found = self._runs[number] = LogRun()
        return found

    def _keep(self, record: _KeptRecord) -> None:
        """Keep the record if it is of a producer id that is looked for, also as the one before a rotation."""
        _, producer_id, epoch, _, status = head_of(record.value)
        ids = {producer_id}
        if epoch == 0 and status >= Status.COMPLETE_COMMIT:
            with suppress(UndecodableRecord):  # where it leaves something open, ``found`` says so
                ids.add(decode_value(record.value).tags.previous_producer_id)
        for known_id in ids & self._of_producer.keys():
            kept = self._of_producer[known_id]
            if len(kept) == MOST_RECORDS:
                self._forgotten[known_id] = kept[0].offset + 1
            kept.append(record)

    def producer_log(
        self,
        producer_id: int,
        leader_epochs: Mapping[int, int],
        known_ends: Mapping[int, KnownLogEnd] = MappingProxyType({}),
    ) -> ProducerLog:
        """The transactions of one producer id in the log, by the present leader epochs of all its partitions.

        ``known_ends`` are those of the partitions from before the records that are judged. The id must have been looked
        for. Raises UndecodableRecord.
        """
        kept = self._of_producer[producer_id]
        numbers: Iterable[int] = {record.number for record in kept} or leader_epochs.keys()
        starts = {number: self._run(number).whole_from(leader_epochs[number]) for number in numbers}
        forgotten = self._forgotten.get(producer_id, 0)
        starts = {number: None if at is None else max(at, forgotten) for number, at in starts.items()}
        passed = {
            number: passed_offset(at, known_ends.get(number), leader_epochs[number]) for number, at in starts.items()
        }
        whole = whole_since(starts, passed, recorded=bool(kept))
        below = next(iter(passed.values())) if kept and len(starts) == 1 else -1
        records = [
            LogRecord(
                record.offset, record.leader_epoch, record.record_ms, decode_key(record.key), decode_value(record.value)
            )
            for record in kept
        ]
        gaps = tuple(_gap(number, self._run(number), leader_epochs[number]) for number, at in starts.items() if at != 0)
        if not kept:
            gaps = (*gaps, NO_RECORD)
        return ProducerLog(decisions_of(producer_id, records), whole, below, gaps[:1])

    def owner(self, producer_id: int) -> str:
        """The id of the newest record with this producer id, which belongs to one id only; "" without a record."""
        kept = self._of_producer.get(producer_id)
        return decode_key(kept[-1].key) if kept else ""

    def of_one_coordinator(self, before: Mapping[int, int], leader_epochs: Mapping[int, int]) -> set[str]:
        """The ids whose open transaction began before these ends of the log, in the present leader epoch of their
        partition: with the same coordinator, and by its clock.

        The first record of a transaction has one instant for the begin and the update
        (TransactionMetadata.prepareAddPartitions). Compaction may have taken it.
        """
        found = set()
        for number, opened in self._open.items():
            for key, kept in opened.items():
                first = kept.first
                if first.offset >= before.get(number, 0) or first.leader_epoch != leader_epochs.get(number, NO_EPOCH):
                    continue
                with suppress(UndecodableRecord):  # where it leaves something open, ``found`` says so
                    value = decode_value(first.value)
                    if value.last_update_ms == value.start_ms == decode_value(kept.newest.value).start_ms:
                        found.add(decode_key(key))
        return found

    def start_again(self, number: int) -> None:
        """Drop what was read of a partition: the next read begins at its start."""
        self._runs.pop(number, None)
        for producer_id, kept in self._of_producer.items():
            others = [record for record in kept if record.number != number]
            self._of_producer[producer_id] = deque(others, maxlen=MOST_RECORDS)
        self.reached.pop(number, None)
        self.epochs.pop(number, None)
        self._open.pop(number, None)
        self._unread.pop(number, None)
        self._assigned.discard(number)

    def found(self) -> FoundOpen:
        """The open transactions by the records read so far. Decodes the newest record of every id with an open
        transaction.
        """
        values = []
        undecodable = [text for unread in self._unread.values() for text in unread.values()]
        for number, opened in self._open.items():
            for key, kept in opened.items():
                try:
                    values.append((decode_key(key), decode_value(kept.newest.value)))
                except UndecodableRecord as problem:
                    undecodable.append(_unread(number, kept.newest.offset, problem))
        return FoundOpen(values, tuple(undecodable))


def _leaves_open(key: bytes, value: bytes | None) -> bool:
    """Return whether a record leaves a transaction open, by its head. Raises UndecodableRecord."""
    decode_key(key)
    return value is not None and head_of(value)[4] in OPEN_STATES


def _gap(number: int, run: LogRun, leader_epoch: int) -> str:
    """Why a commit may be missing in a partition of the log."""
    if run.epoch == leader_epoch and run.start:
        return f"{TOPIC}-{number} has lost or compacted records before offset {run.start}"
    return (
        f"{TOPIC}-{number} had an election (leader epoch {leader_epoch}): an unclean one may have taken the record"
        " of a commit"
    )


def _unread(number: int, offset: int, problem: UndecodableRecord) -> str:
    return f"{TOPIC}-{number} offset {offset} has {problem}"
