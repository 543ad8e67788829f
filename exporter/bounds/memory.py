"""Memory of answers that are being read and parsed: few large ones at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from exporter.model import Deadline

SMALL_BYTES = 256 * 1024
"""Bytes of an answer that needs no room: small answers never wait."""
MOST_LARGE = 3
"""Larger answers in memory at one time: of 32 MB each, a pod of 256 MB has room for as many."""
_LARGE = threading.BoundedSemaphore(MOST_LARGE)


class NoRoomError(Exception):
    """No room was free before the deadline of the answer."""


class AnswerRoom:
    """The room in memory of one answer, until the end of the ``with`` block. It belongs to one thread."""

    def __init__(self) -> None:
        self._taken = False

    def hold(self, size: int, deadline: Deadline) -> None:
        """Wait for room for an answer that has this size by now. Raises NoRoomError."""
        if size > SMALL_BYTES and not self._taken:
            self._taken = _LARGE.acquire(timeout=deadline.remaining())
            if not self._taken:
                raise NoRoomError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._taken:
            self._taken = False
            _LARGE.release()


LIGHT_BYTES = 1024 * 1024
"""Memory of the largest document that is parsed beside others: that of a Jolokia with 250 producers."""
_HEAVY = threading.Lock()


@contextmanager
def one_heavy_at_a_time(weight: int) -> Iterator[None]:
    """Larger documents, of so many bytes of memory, are parsed one at a time.

    Hold it only during work that ends without waiting for others: no request, and not this lock again.
    """
    if weight <= LIGHT_BYTES:
        yield
    else:
        with _HEAVY:
            yield
