"""The finished transactions of a range of offsets in one partition of ``__transaction_state``, by the agent's own state
machine. No clock, no state: what the range is of is read again from the log before it.

Every transactional.id lives on one partition of the log (TransactionStateManager.partitionFor), so partitions are read
separately.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from exporter.model import TopicPartition
from exporter.transactions.machine.entries import Entry, Event
from exporter.transactions.machine.progress import CONTEXT_RECORDS
from exporter.transactions.machine.records import (
    HEAD,
    HEAD_SIZE,
    NO_TIMEOUT_MS,
    Status,
    UndecodableRecord,
    decode_value,
)
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.outcome import DELIVERY_SLACK_MS, FENCE_WINDOW_MS
from exporter.transactions.transaction import Transaction

_LOG = logging.getLogger(__name__)

SETTLED_MS = FENCE_WINDOW_MS + DELIVERY_SLACK_MS + 1
"""Milliseconds of log time after a Complete record in which its abort may still become a fence."""
OUT_OF_ORDER_MS = 60_000
"""A record that began a transaction has a timestamp at most this much before the start that later records name."""
_FURTHER = 8
"""How many times as far the next read for context goes back."""
_ROWS_AT_ONCE = 10_000
_ROOM_EACH = 500
"""Records between two looks for ids that are idle."""
_DECIDED = (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)
_OPEN = (Status.ONGOING, *_DECIDED)


class StoredRecord(NamedTuple):
    """A record of the log. ``timestamp_ms`` is Unix milliseconds."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


ReadLog: TypeAlias = Callable[[int, int], Iterator[StoredRecord]]
"""The records of a partition from an offset to another one (exclusive), without those that compaction removed."""


@dataclass(frozen=True)
class LogSpan:
    """Offsets of one partition: ``start`` is the first that is read, ``end`` the first that is not.

    Transactions that completed before the offset ``settled`` were emitted by earlier spans, all of them.
    ``quiet``: no record followed ``end`` for so long that no abort before it can still become a fence.
    """

    partition: int
    start: int
    settled: int
    end: int
    quiet: bool


class Row(NamedTuple):
    """A finished transaction, as ``columns.COLUMNS`` describes it; times are Unix milliseconds, None unknown."""

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    client_transaction_version: int | None
    outcome: str
    begin: int | None
    prepare: int
    complete: int
    open_seconds: float | None
    completion_seconds: float
    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int | None
    log_partition: int
    log_offset: int


def finished(span: LogSpan, read: ReadLog, group: Callable[[str], str]) -> Iterator[list[Row]]:
    """The transactions whose outcome was settled in this span, each in one span only.

    A function of the span and the log: read again, it is the same. ``group`` gives an id's application. An abort that
    may still become a fence at the end is of a later span. A record that cannot be decoded is logged and skipped.
    """

    def appeared(entry: Entry) -> None:
        entry.application = group(entry.transactional_id)

    machine = StateMachine(span.partition, appeared)
    rows: list[Row] = []
    before_settles = span.settled == span.start

    def quiet() -> list[Transaction]:
        return _ended(machine.log_time_reached(machine.log_ms + SETTLED_MS)) if machine.log_ms >= 0 else []

    for number, record in enumerate(read(context_start(span.start, span.end, read), span.end)):
        if before_settles and record.offset >= span.start:
            quiet()
            before_settles = False
        if number % _ROOM_EACH == 0:
            machine.make_room()
        try:
            ended = _ended(machine.apply(*record))
        except UndecodableRecord as problem:
            if record.offset >= span.start:
                _LOG.warning("partition %s offset %s of the log has %s", span.partition, record.offset, problem)
            continue
        if ended and record.offset >= span.start:
            rows += [row_of(transaction) for transaction in ended if transaction.offset >= span.settled]
            if len(rows) >= _ROWS_AT_ONCE:
                yield rows
                rows = []
    if span.quiet:
        rows += [row_of(transaction) for transaction in quiet() if transaction.offset >= span.settled]
    if rows:
        yield rows


# --- The records before a span ---


class _Id:
    """An id in the records from which a span may be folded: ``sought_ms`` is the start of the transaction that its
    first record there decides, -1 where that record decides none. ``open`` and ``complete_ms`` are of its last record
    before the span.
    """

    __slots__ = ("complete_ms", "open", "sought_ms")

    def __init__(self, sought_ms: int) -> None:
        self.sought_ms = sought_ms
        self.open = True  # no record before the span: it is not known to be closed
        self.complete_ms = -1


def context_start(start: int, end: int, read: ReadLog) -> int:
    """The offset from which records are folded, so that the transactions of a span are known whole.

    These are the transactions that are open at the start and decided in the span, and aborts before it that may still
    become fences. A record of an open transaction names its partitions and the client's epoch, and the newest such
    record is enough. Without it (compaction removes it once there are newer ones) what it says is unknown.
    """
    if start == 0:
        return 0
    size = CONTEXT_RECORDS
    while True:
        begin = max(0, start - size)
        ids, first_ms, last_ms = _ids(start, read(begin, end))
        if begin == 0 or first_ms is None or last_ms is None or first_ms < last_ms - SETTLED_MS:
            break
        size *= _FURTHER
    sought = {
        key: known.sought_ms
        for key, known in ids.items()
        if known.sought_ms >= 0 and (known.open or known.complete_ms >= (last_ms or 0) - SETTLED_MS)
    }
    needed = begin
    while sought and begin > 0:
        size *= _FURTHER
        upper, begin = begin, max(0, start - size)
        kept: dict[bytes, int] = {}
        whole: set[bytes] = set()
        first_ms = None
        for record in read(begin, upper):
            first_ms = record.timestamp_ms if first_ms is None else first_ms
            if record.key not in sought:
                continue
            if _status(record.value) in _DECIDED:
                kept.setdefault(record.key, record.offset)
            else:  # what is before it is of earlier transactions, or says no more
                kept[record.key] = record.offset
                whole.add(record.key)
        needed = min([needed, *kept.values()])
        sought = {key: begun_ms for key, begun_ms in sought.items() if key not in whole}
        if sought and first_ms is not None and first_ms < min(sought.values()) - OUT_OF_ORDER_MS:
            break
    return needed


def _ids(start: int, records: Iterator[StoredRecord]) -> tuple[dict[bytes, _Id], int | None, int | None]:
    """The ids in these records, and the timestamps of the first of them and of the newest before the span."""
    ids: dict[bytes, _Id] = {}
    first_ms = last_ms = None
    for record in records:
        key, value = record.key, record.value
        known = ids.get(key)
        if known is None:
            known = ids[key] = _Id(_decided_ms(record))
        if record.offset < start:
            first_ms = record.timestamp_ms if first_ms is None else first_ms
            last_ms = max(last_ms or 0, record.timestamp_ms)
            status = _status(value)
            if status == Status.ONGOING:
                known.sought_ms = -1
            known.open = status in _OPEN
            known.complete_ms = record.timestamp_ms if status == Status.COMPLETE_ABORT else -1
    return ids, first_ms, last_ms


def _status(value: bytes | None) -> int:
    return HEAD.unpack_from(value)[4] if value is not None and len(value) >= HEAD_SIZE else Status.EMPTY


def _decided_ms(record: StoredRecord) -> int:
    """The start of the transaction that a record decides; -1 for another record, and one that cannot be decoded."""
    if record.value is None or _status(record.value) < Status.PREPARE_COMMIT:
        return -1
    try:
        return decode_value(record.value).start_ms
    except UndecodableRecord:
        return -1


# --- Rows ---


def _ended(events: Iterable[Event]) -> list[Transaction]:
    """The transactions among the events that ended."""
    return [event for event in events if isinstance(event, Transaction)]


def row_of(ended: Transaction) -> Row:
    """The row of a finished transaction. Raises ValueError for one that is only decided."""
    if ended.completed_ms is None:
        raise ValueError(f"the transaction of {ended.transactional_id!r} is not completed")
    begun_ms = ended.begun_ms if ended.begun_ms >= 0 else None
    return Row(
        ended.transactional_id,
        ended.application,
        ended.producer_id,
        ended.producer_epoch,
        ended.client_version if ended.client_version >= 0 else None,
        ended.outcome_word,
        begun_ms,
        ended.prepared_ms,
        ended.completed_ms,
        None if begun_ms is None else max(0, ended.prepared_ms - begun_ms) / 1000,
        max(0, ended.completed_ms - ended.prepared_ms) / 1000,
        _in_order(ended.partitions) if ended.partitions else None,
        ended.timeout_ms if 0 <= ended.timeout_ms < NO_TIMEOUT_MS else None,
        ended.log_partition,
        ended.offset,
    )


@lru_cache(maxsize=1024)
def _in_order(partitions: frozenset[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(partitions))
