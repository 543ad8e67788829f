"""One partition of the transaction log, folded into rows by the agent's own ledger. No I/O, no clock.

Every transactional.id lives on one partition of the log (TransactionStateManager.partitionFor), so partitions are
folded apart from each other, batch after batch; what a batch leaves behind is the next one's beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from exporter.model import TopicPartition
from exporter.transactions.entries import Entry, Finished, decode_section, encode_key
from exporter.transactions.records import NO_TIMEOUT_MS, UndecodableRecord
from exporter.transactions.state_machine import Ledger
from exporter.transactions.tail import DELIVERY_SLACK_MS

KEEP_MS = 3_600_000
"""An id that is idle for this long in log time is forgotten: all that is known of it is in its rows. A Complete record
that is written again, for which it was kept, comes within minutes.
"""
MOST_DETAILS = 3


class Row(NamedTuple):
    """A finished transaction, as ``history_table.COLUMNS`` describes it; times are Unix milliseconds, None unknown."""

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    client_transaction_version: int | None
    outcome: str
    ended_by_server: bool
    begin: int | None
    prepare: int
    complete: int
    open_seconds: float | None
    completion_seconds: float
    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int | None
    log_partition: int
    log_offset: int


class Standing(NamedTuple):
    """Where a partition of the log stands between two batches: the offset to read next, and its log time."""

    next: int = 0
    log_ms: int = -1


class Kept(NamedTuple):
    """An id between two batches. ``due_ms`` is when its pending abort is settled, None without one; in ``order``."""

    entry: Entry
    due_ms: int | None = None
    order: int = 0


class PartitionFold:
    """The fold of one partition over one batch: ``record`` for each record, then ``end``."""

    def __init__(self, number: int, standing: Standing, kept: Iterable[Kept], group: Callable[[str], str]) -> None:
        self.rows: list[Row] = []
        self.missing = 0
        self.undecodable = 0
        self.details: list[str] = []
        self._number = number
        self._next = standing.next
        self._ledger = Ledger(self, group)
        self._log = self._ledger.partition(number)
        self._log.log_ms = standing.log_ms
        for each in sorted(kept, key=lambda kept: kept.order):
            self._restore(each)

    def _restore(self, kept: Kept) -> None:
        entry = kept.entry
        key = encode_key(entry.transactional_id)
        self._ledger.entries[key] = entry
        if entry.open:
            self._ledger.open[key] = entry
        if kept.due_ms is not None and entry.pending is not None:
            self._log.unsettled.append((kept.due_ms, entry, entry.pending))

    # --- Reading ---

    def record(self, offset: int, record_ms: int, key: bytes, value: bytes | None) -> None:
        """Take in one record. An offset that is passed over was compacted away before it was read."""
        self.missing += offset - self._next
        self._next = offset + 1
        try:
            self._ledger.apply(self._log, offset, record_ms, key, value)
        except UndecodableRecord as problem:
            self.undecodable += 1
            if len(self.details) < MOST_DETAILS:
                self.details.append(f"partition {self._number} offset {offset} has {problem}")

    def end(self, end: int, quiet_ms: int) -> None:
        """The batch ends here. Nothing had come behind it for ``quiet_ms``; -1: it did not reach the log's end.

        An end before the start is that of a log that was truncated; its newest records are gone.
        """
        if end > self._next:
            self.missing += end - self._next
        self._next = end
        if quiet_ms > DELIVERY_SLACK_MS and self._log.log_ms >= 0:
            self._ledger.advance(self._log, self._log.log_ms + quiet_ms - DELIVERY_SLACK_MS)

    # --- What is left for the next batch ---

    @property
    def standing(self) -> Standing:
        return Standing(self._next, self._log.log_ms)

    def kept(self) -> list[Kept]:
        """The ids that the next batch needs to know."""
        waiting = {
            id(transaction): (due_ms, order)
            for order, (due_ms, entry, transaction) in enumerate(self._log.unsettled)
            if entry.pending is transaction
        }
        found = []
        for entry in self._ledger.entries.values():
            if entry.pending is not None:
                found.append(Kept(entry, *waiting[id(entry.pending)]))
            elif entry.open or entry.record_ms >= self._log.log_ms - KEEP_MS:
                found.append(Kept(entry))
        return found

    def oldest_pending(self) -> int | None:
        """The lowest offset of an abort that waits to be told from a fence."""
        return min((each.entry.pending.offset for each in self.kept() if each.entry.pending is not None), default=None)

    # --- The ledger's sink ---

    def finished(self, entry: Entry, transaction: Finished) -> None:
        begun_ms = transaction.begun_ms if transaction.begun_ms >= 0 else None
        partitions = _partitions(entry.section, entry.layout)
        self.rows.append(
            Row(
                transaction.transactional_id,
                entry.application,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.client_version if transaction.client_version >= 0 else None,
                transaction.outcome.value,
                transaction.by_server,
                begun_ms,
                transaction.prepared_ms,
                transaction.completed_ms,
                None if begun_ms is None else max(0, transaction.prepared_ms - begun_ms) / 1000,
                max(0, transaction.completed_ms - transaction.prepared_ms) / 1000,
                partitions or None,
                transaction.timeout_ms if 0 <= transaction.timeout_ms < NO_TIMEOUT_MS else None,
                transaction.log_partition,
                transaction.offset,
            )
        )

    def initialised(self, entry: Entry, log_partition: int, offset: int) -> None:
        """Only what finished makes a row."""

    def removed(self, entry: Entry) -> None:
        """Its rows stay: that is what a history is for."""


def day_of(row: Row) -> str:
    """The day (UTC) on which it completed, which is the partition of the table that it is in."""
    return datetime.fromtimestamp(row.complete / 1000, UTC).strftime("%Y-%m-%d")


@lru_cache(maxsize=1024)
def _partitions(section: bytes, layout: int) -> tuple[TopicPartition, ...]:
    return decode_section(section, layout)
