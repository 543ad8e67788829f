"""The aborts of one partition of the log whose outcome waits for log time. No I/O, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exporter.transactions.entries import Ended
from exporter.transactions.outcome import DELIVERY_SLACK_MS


class Unsettled(NamedTuple):
    """An abort that waits for the record that would make it a fence, until log time ``due_ms``."""

    due_ms: int
    transaction: Ended


class PendingAborts:
    """A queue by due time. An abort is in it while its entry's ``pending`` is this abort: settling one clears
    that field only, and the queue drops it later.
    """

    def __init__(self) -> None:
        self.queue: deque[Unsettled] = deque()

    @property
    def unsettled(self) -> Sequence[Unsettled]:
        """The aborts that wait, in the order in which they are due."""
        waiting = self.queue
        while waiting and waiting[0].transaction.entry.pending is not waiting[0].transaction:
            waiting.popleft()
        return [each for each in waiting if each.transaction.entry.pending is each.transaction]

    @property
    def first_due_ms(self) -> int | None:
        """The log time that has to be reached to settle the abort that waits longest; None when none waits."""
        return self.queue[0].due_ms + DELIVERY_SLACK_MS if self.unsettled else None

    def add(self, transaction: Ended, due_ms: int) -> None:
        """Queue the abort. Windows differ, so the queue is ordered by their ends."""
        transaction.entry.pending = transaction
        later: list[Unsettled] = []
        while self.queue and self.queue[-1].due_ms > due_ms:
            later.append(self.queue.pop())
        self.queue.append(Unsettled(due_ms, transaction))
        self.queue.extend(reversed(later))

    def due_ms(self, transaction: Ended) -> int:
        """When a queued abort is due, in log time."""
        return next(each.due_ms for each in self.queue if each.transaction is transaction)

    def due(self, log_ms: int) -> Iterator[Ended]:
        """Remove and return the aborts whose window has passed at this log time."""
        while self.queue and self.queue[0].due_ms + DELIVERY_SLACK_MS < log_ms:
            transaction = self.queue.popleft().transaction
            if transaction.entry.pending is transaction:
                yield transaction

    def set_back(self, step_ms: int) -> None:
        """Move all windows back with a clock that was set back."""
        self.queue = deque(each._replace(due_ms=each.due_ms - step_ms) for each in self.queue)

    def clear(self) -> None:
        """Remove all."""
        for waiting in self.queue:
            waiting.transaction.entry.pending = None
        self.queue.clear()
