"""One partition of the transaction log, folded into rows by the agent's own state machine. No I/O, no clock.

Every transactional.id lives on one partition of the log (TransactionStateManager.partitionFor), so partitions are
folded separately, batch after batch; the state at the end of a batch is the start of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from exporter.model import TopicPartition
from exporter.transactions.machine.entries import Entry, Event
from exporter.transactions.machine.records import NO_TIMEOUT_MS, UndecodableRecord
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome

KEEP_MS = 3_600_000
"""An id that is idle for this long in log time is dropped: its transactions are in the rows. It is kept in case its
Complete record is written again, which happens within minutes.
"""
MOST_DETAILS = 3


class Row(NamedTuple):
    """A finished transaction, as ``table.COLUMNS`` describes it; times are Unix milliseconds, None unknown."""

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


class FoldState(NamedTuple):
    """State of a partition of the log between two batches: the offset to read next, and its log time."""

    next: int = 0
    log_ms: int = -1


class PartitionFold:
    """The fold of one partition over one batch: ``record`` for each record, then ``end``."""

    def __init__(self, number: int, standing: FoldState, kept: Iterable[Entry], group: Callable[[str], str]) -> None:
        self.rows: list[Row] = []
        self.missing = 0
        self.undecodable = 0
        self.details: list[str] = []
        self._number = number
        self._next = standing.next
        self._group = group
        self._machine = StateMachine(number, self._appeared)
        self._machine.log_ms = standing.log_ms
        self._machine.restore(sorted(kept, key=_due))

    # --- Reading ---

    def record(self, offset: int, record_ms: int, key: bytes, value: bytes | None) -> None:
        """Process one record. A skipped offset was compacted away before it was read."""
        self.missing += offset - self._next
        self._next = offset + 1
        try:
            self._take(self._machine.apply(offset, record_ms, key, value))
        except UndecodableRecord as problem:
            self.undecodable += 1
            if len(self.details) < MOST_DETAILS:
                self.details.append(f"partition {self._number} offset {offset} has {problem}")

    def end(self, end: int, quiet_ms: int) -> None:
        """End the batch. No record followed for ``quiet_ms``; -1: the batch did not reach the log's end.

        An end before the start is that of a log that was truncated; its newest records are gone.
        """
        if end > self._next:
            self.missing += end - self._next
        self._next = end
        if quiet_ms >= 0 and self._machine.log_ms >= 0:
            self._take(self._machine.log_time_reached(self._machine.log_ms + quiet_ms))

    # --- State for the next batch ---

    @property
    def standing(self) -> FoldState:
        return FoldState(self._next, self._machine.log_ms)

    def kept(self) -> list[Entry]:
        """The ids that the next batch needs to know."""
        since_ms = self._machine.log_ms - KEEP_MS
        every = self._machine.entries.values()
        return [entry for entry in every if entry.pending or entry.open or entry.record_ms >= since_ms]

    def oldest_pending(self) -> int | None:
        """The lowest offset of an abort that may still become a fence."""
        waiting = (entry.pending for entry in self._machine.unsettled)
        return min((transaction.offset for transaction in waiting if transaction is not None), default=None)

    # --- What happened ---

    def _take(self, events: Iterable[Event]) -> None:
        """Only an ended transaction makes a row; the rows of a dropped id stay."""
        for event in events:
            if isinstance(event, Transaction) and event.outcome is not None and event.completed_ms is not None:
                self.rows.append(_row(event, event.outcome, event.completed_ms))

    def _appeared(self, entry: Entry) -> None:
        entry.application = self._group(entry.transactional_id)


def _due(entry: Entry) -> tuple[int, int]:
    """Those that are due together in the order of the log."""
    return entry.due_ms, -1 if entry.pending is None else entry.pending.offset


def _row(ended: Transaction, outcome: Outcome, completed_ms: int) -> Row:
    begun_ms = ended.begun_ms if ended.begun_ms >= 0 else None
    return Row(
        ended.transactional_id,
        ended.application,
        ended.producer_id,
        ended.producer_epoch,
        ended.client_version if ended.client_version >= 0 else None,
        outcome.value,
        begun_ms,
        ended.prepared_ms,
        completed_ms,
        None if begun_ms is None else max(0, ended.prepared_ms - begun_ms) / 1000,
        max(0, completed_ms - ended.prepared_ms) / 1000,
        _in_order(ended.partitions) if ended.partitions else None,
        ended.timeout_ms if 0 <= ended.timeout_ms < NO_TIMEOUT_MS else None,
        ended.log_partition,
        ended.offset,
    )


def day_of(row: Row) -> str:
    """The day (UTC) on which it completed, which is the partition of the table that it is in."""
    return datetime.fromtimestamp(row.complete / 1000, UTC).strftime("%Y-%m-%d")


@lru_cache(maxsize=1024)
def _in_order(partitions: frozenset[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(partitions))
