"""The aborts of one partition of the log whose outcome waits for log time. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from exporter.transactions.machine.entries import Entry
from exporter.transactions.outcome import DELIVERY_SLACK_MS
from exporter.transactions.transaction import Transaction


class _Queued(NamedTuple):
    """An abort in the queue: those that are due together in the order of the log."""

    due_ms: int
    order: int
    transaction: Transaction
    entry: Entry

    @property
    def waits(self) -> bool:
        return self.entry.pending is self.transaction


class PendingAborts:
    """A queue by due time. An abort is in it while its entry's ``pending`` is this abort: settling one clears
    that field only, and the queue drops it later.

    Clients choose how many aborts wait, and with which windows: nothing here looks at all of them for one.
    """

    def __init__(self) -> None:
        self.queue: list[_Queued] = []  # a heap
        self._added = 0

    @property
    def unsettled(self) -> Sequence[Entry]:
        """The ids whose abort waits, in the order in which they are due."""
        return [queued.entry for queued in sorted(self.queue) if queued.waits]

    @property
    def first_due_ms(self) -> int | None:
        """The log time that has to be reached to settle the abort that waits longest; None when none waits."""
        while self.queue and not self.queue[0].waits:
            heappop(self.queue)
        return self.queue[0].due_ms + DELIVERY_SLACK_MS if self.queue else None

    def add(self, entry: Entry, transaction: Transaction, due_ms: int) -> None:
        """Queue the abort of an id. Windows differ, so the queue is ordered by their ends."""
        entry.pending, entry.due_ms = transaction, due_ms
        self._added += 1
        heappush(self.queue, _Queued(due_ms, self._added, transaction, entry))

    def due(self, log_ms: int) -> Iterator[Entry]:
        """Remove and return the ids with an abort whose window has passed at this log time."""
        while self.queue and self.queue[0].due_ms + DELIVERY_SLACK_MS < log_ms:
            queued = heappop(self.queue)
            if queued.waits:
                yield queued.entry

    def set_back(self, step_ms: int) -> None:
        """Move all windows back with a clock that was set back."""
        self.queue = [queued._replace(due_ms=queued.due_ms - step_ms) for queued in self.queue if queued.waits]
        heapify(self.queue)
        for queued in self.queue:
            queued.entry.due_ms = queued.due_ms

    def clear(self) -> None:
        """Remove all."""
        for queued in self.queue:
            queued.entry.pending = None
        self.queue.clear()
