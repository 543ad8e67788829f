"""The failed attempts to connect to a broker: their cause, and when the next one may be made."""

from __future__ import annotations

import random

from exporter.model import Fault

FIRST_BACKOFF = 0.25
LAST_BACKOFF = 3.0
"""Seconds between attempts to connect: the first pause, and the longest, which limits attempts after a refusal."""

QUICK_SECONDS = 0.2
"""A failed attempt to connect that took longer is repeated beside the requests, which get the last cause meanwhile."""


class Attempts:
    """Attempts that failed one after the other. Instants are monotonic seconds."""

    __slots__ = ("_failures", "_retry_at", "_slow", "cause")

    def __init__(self) -> None:
        self.cause: Fault | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._slow = False

    def failed(self, cause: Fault, began: float, now: float) -> None:
        """Note an attempt that began and failed at these instants."""
        wait = min(LAST_BACKOFF, FIRST_BACKOFF * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self.cause = cause
        self._slow = now - began > QUICK_SECONDS
        self._retry_at = now + wait * random.uniform(0.8, 1.2)  # noqa: S311  # no secret: spreads load

    def due_beside(self, now: float) -> bool:
        """Return whether an attempt is to be made beside the requests."""
        return self._slow and now >= self._retry_at

    def refusal(self, now: float) -> Fault | None:
        """Return why a request may not connect yet; None when it may."""
        return self.cause if self._slow or now < self._retry_at else None
