"""Memory of all answers that are being read and parsed, limited as a sum."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from exporter.bounds.ledger import LIMITS
from exporter.model import Deadline
from exporter.words import HeldBytes

UNCOUNTED_BYTES = 64 * 1024
"""Bytes of each answer that are not counted: small answers never wait."""
PATIENCE_SECONDS = 2.0
"""Seconds that an answer waits for memory before the largest other one is given up."""


class NoRoomError(Exception):
    """The answer was given up: it is the largest and others need the memory, or none was free before its deadline."""


class MemoryShare:
    """The memory of one answer. It belongs to one thread, except for ``given_up``."""

    def __init__(self, held: MemoryBudget) -> None:
        self._held = held
        self.size = 0
        self.given_up = False
        self.give_up: Callable[[], None] | None = None
        """Ends what the thread waits for; None while it parses, which ends by itself."""

    def add(self, size: int, deadline: Deadline) -> None:
        """Count so many bytes more, once there is room for them. Raises NoRoomError."""
        self._held.add(self, size, deadline)


class MemoryBudget:
    """All answers in memory. A limit for each does not limit the sum: a hundred JVMs may answer at once.

    An answer waits while there is no memory for it. After ``PATIENCE_SECONDS`` the largest of the others is given up if
    it is larger than the waiting one, so that a few endless answers do not block the others.
    """

    def __init__(self, most: int = LIMITS[HeldBytes.READ], patience: float = PATIENCE_SECONDS) -> None:
        self._most = most
        self._patience = patience
        self._changed = threading.Condition()
        self._holds: set[MemoryShare] = set()

    @contextmanager
    def hold(self) -> Iterator[MemoryShare]:
        """The memory of an answer, given back at the end of the block."""
        hold = MemoryShare(self)
        with self._changed:
            self._holds.add(hold)
        try:
            yield hold
        finally:
            with self._changed:
                self._holds.discard(hold)
                self._changed.notify_all()

    @property
    def size(self) -> int:
        """Bytes that are held now."""
        with self._changed:
            return self._size()

    def add(self, hold: MemoryShare, size: int, deadline: Deadline) -> None:
        """See ``MemoryShare.add``."""
        since = deadline.monotonic()
        with self._changed:
            while True:
                if hold.given_up:
                    raise NoRoomError
                grown = hold.size + size
                others = self._size() - _counted(hold.size)
                if _counted(grown) == 0 or others + _counted(grown) <= self._most:
                    hold.size = grown
                    return
                if grown > self._most + UNCOUNTED_BYTES or deadline.over:
                    raise NoRoomError
                waited = deadline.monotonic() - since
                if waited >= self._patience:
                    self._give_up_larger_than(hold)
                    self._changed.wait(deadline.remaining())
                else:
                    self._changed.wait(min(self._patience - waited, deadline.remaining()))

    def _size(self) -> int:
        return sum(_counted(hold.size) for hold in self._holds)

    def _give_up_larger_than(self, hold: MemoryShare) -> None:
        """Give up the largest one that is still being read, unless one is on its way out already."""
        if any(hold.given_up for hold in self._holds):
            return
        reading = [other for other in self._holds if other is not hold and other.give_up is not None]
        largest = max(reading, key=lambda other: other.size, default=None)
        if largest is not None and largest.give_up is not None and largest.size >= hold.size:
            largest.given_up = True
            largest.give_up()
            self._changed.notify_all()


def _counted(size: int) -> int:
    return max(0, size - UNCOUNTED_BYTES)


MEMORY = MemoryBudget()
"""The budget of this process."""

LIGHT_BYTES = 1024 * 1024
"""Memory of the largest document that is parsed beside others: that of a Jolokia with 250 producers."""
_HEAVY = threading.Lock()


@contextmanager
def one_heavy_at_a_time(weight: int) -> Iterator[None]:
    """A lock for parsing a document that takes so many bytes of memory: large ones are parsed one at a time.

    Hold it only during work that ends without waiting for others: no request, and not this lock again.
    """
    if weight <= LIGHT_BYTES:
        yield
    else:
        with _HEAVY:
            yield
