"""Scrapes before foreign data: the threads of a process share one interpreter, in turns that no priority changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_WAIT_SECONDS = 0.05
"""Longest wait of ``give_way``: about as long as a body of 1,500 changed series takes."""
REST = 3
"""How many times as long nobody waits afterwards."""


class Precedence:
    """While an answer is being made, threads that read or parse foreign data wait where they call ``give_way``.

    All of them wait at the same time, a quarter of all time at most: readers who ask without end do not stop the
    sources. Any thread may call any method, but the event loop's not ``give_way``.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, most_wait: float = MOST_WAIT_SECONDS) -> None:
        self._monotonic, self._most_wait = monotonic, most_wait
        self._lock = threading.Lock()
        self._making = 0
        self._none_is_made = threading.Event()
        self._none_is_made.set()
        self._wait_until = self._rest_until = 0.0

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
        """Wait while an answer is being made, until ``most_wait`` seconds after the first thread that did."""
        if self._none_is_made.is_set():
            return
        with self._lock:
            now = self._monotonic()
            if now >= self._rest_until:
                self._wait_until = now + self._most_wait
                self._rest_until = self._wait_until + REST * self._most_wait
            left = self._wait_until - now
        if left > 0:
            self._none_is_made.wait(left)


SCRAPES = Precedence()
"""The precedence of ``/metrics`` in this process."""
