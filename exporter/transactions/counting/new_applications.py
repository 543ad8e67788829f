"""The applications that appeared in the last hour. No I/O; instants are log time in Unix seconds."""

from __future__ import annotations

from collections import deque

HOUR = 3600.0
MOST_NEW = 10_000
"""Largest number of applications that are remembered."""


class NewApplications:
    """Applications are new from the instant on at which all were known."""

    def __init__(self) -> None:
        self._complete_since: float | None = None
        self._appeared: deque[float] = deque(maxlen=MOST_NEW)  # when

    def complete_since(self, instant: float) -> None:
        """Note that every application with an id by this instant is known."""
        if self._complete_since is None:
            self._complete_since = instant

    def is_new(self, instant: float) -> bool:
        """Return whether what appears at this instant is new."""
        return self._complete_since is not None and instant >= self._complete_since

    def appeared(self, instant: float) -> None:
        """Note a new application."""
        self._appeared.append(instant)

    def recent(self, log_now: float) -> int | None:
        """How many applications appeared in the last hour; None while those before are not all known."""
        while self._appeared and self._appeared[0] < log_now - HOUR:
            self._appeared.popleft()
        return None if self._complete_since is None else len(self._appeared)
