"""The coordinators' time, told by the arrival of what they have stamped. No I/O: instants are given.

A record of the transaction log carries the clock of its coordinator, and arrives after it was stamped, never before.
So the coordinators' clock shows its timestamp or more when it arrives: that bound holds whatever our clock says, and
runs on with the monotonic clock. The record that was delayed least makes the best bound. Coordinators whose clocks
differ among each other are one clock here: that of the one which is furthest ahead.
"""

from __future__ import annotations

from collections import deque

from exporter.model import ClockBounds, CoordinatorTime

LIVE_WINDOW = 600.0
"""Seconds for which a new record says where the clock is: clocks are set now and then, and drift."""
WINDOW = 7200.0
"""Seconds for which any record bounds the clock: longer than transactions are open."""
ENOUGH = 3
"""New records from which on the distance is told: a single one may have been long on its way."""
STEPS = 30
"""Values that are kept of a window: the best of each part of it."""


class CoordinatorClock:
    """Bounds of the coordinators' clock. Belongs to one worker."""

    def __init__(self) -> None:
        self._all = _Largest(WINDOW)
        self._live = _Largest(LIVE_WINDOW)

    def stamped(self, timestamp: float, received: float, *, live: bool) -> None:
        """Something with this timestamp (Unix seconds) was there at ``received``, monotonic.

        ``live`` says that it was not there shortly before: it is new, and not read late.
        """
        ahead = timestamp - received
        self._all.take(ahead, received)
        if live:
            self._live.take(ahead, received)

    def bounds(self, monotonic: float) -> ClockBounds:
        """What is known at this instant."""
        return ClockBounds(self._all.largest(monotonic, 1), self._live.largest(monotonic, ENOUGH))


def coordinator_time(bounds: ClockBounds, monotonic: float, wall: float) -> CoordinatorTime:
    """The coordinators' clock beside ours, which shows ``wall`` at this monotonic instant."""
    ours = wall - monotonic
    return CoordinatorTime(
        None if bounds.live is None else ours - bounds.live,
        None if bounds.at_least is None else ours - bounds.at_least,
    )


class _Largest:
    """The largest value of the last so many seconds. Of each part of them: its begin, its largest, how many."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._parts: deque[tuple[float, float, int]] = deque()

    def take(self, value: float, at: float) -> None:
        if self._parts and at - self._parts[-1][0] < self._window / STEPS:
            began, largest, count = self._parts[-1]
            self._parts[-1] = began, max(largest, value), count + 1
        else:
            self._parts.append((at, value, 1))
            self._expire(at)

    def largest(self, now: float, enough: int) -> float | None:
        """None where there were fewer than ``enough`` values."""
        self._expire(now)
        if sum(count for *_, count in self._parts) < enough:
            return None
        return max(value for _, value, _ in self._parts)

    def _expire(self, now: float) -> None:
        while self._parts and now - self._parts[0][0] > self._window:
            self._parts.popleft()
