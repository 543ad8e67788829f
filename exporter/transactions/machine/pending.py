"""The aborts of one partition of the log whose outcome waits for log time. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from exporter.transactions.machine.entries import Ended
from exporter.transactions.outcome import DELIVERY_SLACK_MS


class Unsettled(NamedTuple):
    """An abort that waits for the record that would make it a fence, until log time ``due_ms``."""

    due_ms: int
    transaction: Ended


class _Queued(NamedTuple):
    """An abort in the queue: those that are due together in the order of the log."""

    due_ms: int
    order: int
    transaction: Ended

    @property
    def waits(self) -> bool:
        return self.transaction.entry.pending is self.transaction


class PendingAborts:
    """A queue by due time. An abort is in it while its entry's ``pending`` is this abort: settling one clears
    that field only, and the queue drops it later.

    Clients choose how many aborts wait, and with which windows: nothing here looks at all of them for one.
    """

    def __init__(self) -> None:
        self.queue: list[_Queued] = []  # a heap
        self._due_ms: dict[int, int] = {}  # by the identity of those in the queue
        self._added = 0

    @property
    def unsettled(self) -> Sequence[Unsettled]:
        """The aborts that wait, in the order in which they are due."""
        return [Unsettled(pending.due_ms, pending.transaction) for pending in sorted(self.queue) if pending.waits]

    @property
    def first_due_ms(self) -> int | None:
        """The log time that has to be reached to settle the abort that waits longest; None when none waits."""
        while self.queue and not self.queue[0].waits:
            self._pop()
        return self.queue[0].due_ms + DELIVERY_SLACK_MS if self.queue else None

    def add(self, transaction: Ended, due_ms: int) -> None:
        """Queue the abort. Windows differ, so the queue is ordered by their ends."""
        transaction.entry.pending = transaction
        self._added += 1
        heappush(self.queue, _Queued(due_ms, self._added, transaction))
        self._due_ms[id(transaction)] = due_ms

    def _pop(self) -> Ended:
        transaction = heappop(self.queue).transaction
        del self._due_ms[id(transaction)]
        return transaction

    def due_ms(self, transaction: Ended) -> int:
        """When a queued abort is due, in log time."""
        return self._due_ms[id(transaction)]

    def due(self, log_ms: int) -> Iterator[Ended]:
        """Remove and return the aborts whose window has passed at this log time."""
        while self.queue and self.queue[0].due_ms + DELIVERY_SLACK_MS < log_ms:
            transaction = self._pop()
            if transaction.entry.pending is transaction:
                yield transaction

    def set_back(self, step_ms: int) -> None:
        """Move all windows back with a clock that was set back."""
        self.queue = [pending._replace(due_ms=pending.due_ms - step_ms) for pending in self.queue]
        heapify(self.queue)
        self._due_ms = {id(pending.transaction): pending.due_ms for pending in self.queue}

    def clear(self) -> None:
        """Remove all."""
        for waiting in self.queue:
            waiting.transaction.entry.pending = None
        self.queue.clear()
        self._due_ms.clear()
