"""Scrapes before foreign data: the threads of a process share one interpreter, in turns that no priority changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_WAIT_SECONDS = 0.05
"""Seconds that ``give_way`` waits at most: about as long as a body of 1,500 changed series takes."""


class Precedence:
    """While an answer is being made, threads that read or parse foreign data wait where they call ``give_way``.

    Each waits half of its time at most, so that readers who ask without end do not stop the sources. Any thread may
    call any method.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, most_wait: float = MOST_WAIT_SECONDS) -> None:
        self._monotonic, self._most_wait = monotonic, most_wait
        self._lock = threading.Lock()
        self._making = 0
        self._none_is_made = threading.Event()
        self._none_is_made.set()
        self._waits = threading.local()

    @contextmanager
    def making(self) -> Iterator[None]:
        """An answer is being made during this block."""
        with self._lock:
            self._making += 1
            self._none_is_made.clear()
        try:
            yield
        finally:
            with self._lock:
                self._making -= 1
                if not self._making:
                    self._none_is_made.set()

    def give_way(self) -> None:
        """Wait while an answer is being made, ``most_wait`` seconds at most. Not for the event loop's thread."""
        if self._none_is_made.is_set():
            return
        began = self._monotonic()
        if began < getattr(self._waits, "not_before", began):
            return
        self._none_is_made.wait(self._most_wait)
        ended = self._monotonic()
        self._waits.not_before = ended + (ended - began)


SCRAPES = Precedence()
"""The precedence of ``/metrics`` in this process."""
