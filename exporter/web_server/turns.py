"""Which sockets the event loop serves first, of all that are ready: those of the clients that it served least."""

from __future__ import annotations

import heapq
import selectors
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

MOST_AT_ONCE = 2
"""Sockets of clients that are served in one round of the loop. A scrape takes some six rounds, and each socket of
another client 0.7 ms of one (mean) while sources decode.
"""
HALF_SECONDS = 1.0
"""After so long what a client was served counts half."""


class NetworkClient(Protocol):
    """A connection."""

    @property
    def network(self) -> str:
        """Connections of one network share its turns."""


Ready = tuple[selectors.SelectorKey, int]


class Turns(selectors.DefaultSelector):
    """A selector that returns a few ready sockets at once. The kernel reports the others again at the next call.

    So a client that sends to two hundred connections waits for itself, and others wait for few of its sockets. For the
    event loop's thread.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.clients: dict[int, NetworkClient] = {}
        """By file descriptor. Others, such as a listener, are returned whenever they are ready."""
        self._served: Counter[str] = Counter()
        self._monotonic = monotonic
        self._halved = monotonic()

    def select(self, timeout: float | None = None) -> list[Ready]:
        """As selectors has it, of at most ``MOST_AT_ONCE`` sockets of clients."""
        ready = super().select(timeout)
        first = self._first(ready)
        self._forget()
        self._served.update(self.clients[key.fd].network for key, _ in first if key.fd in self.clients)
        return first

    def _first(self, ready: Sequence[Ready]) -> list[Ready]:
        always = [entry for entry in ready if entry[0].fd not in self.clients]
        if len(ready) - len(always) <= MOST_AT_ONCE:
            return list(ready)
        due: list[tuple[int, int, Ready]] = []
        of_client: Counter[str] = Counter()
        for place, entry in enumerate(ready):
            client = self.clients.get(entry[0].fd)
            if client is not None:
                due.append((self._served[client.network] + of_client[client.network], place, entry))
                of_client[client.network] += 1
        return always + [entry for _, _, entry in heapq.nsmallest(MOST_AT_ONCE, due)]

    def _forget(self) -> None:
        now = self._monotonic()
        if now - self._halved >= HALF_SECONDS:
            self._halved = now
            self._served = Counter({client: count // 2 for client, count in self._served.items() if count > 1})
