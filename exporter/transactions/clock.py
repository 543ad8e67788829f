"""The coordinators' time, from the arrival of records with their timestamps. No I/O: instants are arguments.

A record of the transaction log has a timestamp of its coordinator's clock and arrives later than that. So at its
arrival the coordinators' clock shows that timestamp or more: our monotonic clock is ahead of it by so much at most,
whatever our wall clock shows. The least delayed record gives the best bound. Each broker has a clock of its own: where
a coordinator's is not known, it is taken for the one furthest ahead. All distances are ``ours - theirs``, in seconds.
"""

from __future__ import annotations

import math
from collections import deque

from exporter.transactions.facts import CoordinatorTime

LIVE_WINDOW = 600.0
"""Seconds for which a new record is used for the estimate: clocks are set at times, and drift."""
WINDOW = 7200.0
"""Seconds for which any record bounds the clock: longer than transactions are open."""
ENOUGH = 3
"""Number of new records from which the difference is estimated: a single one may have been delayed."""
NOTICEABLE_BEHIND_SECONDS = 2.0
"""Difference of two coordinators' clocks, in seconds, from which they are told apart: delays of records are less."""
STEPS = 30
"""Number of values kept of a window: the best of each part of it."""


class CoordinatorClock:
    """The coordinators' clock beside our monotonic one. Not thread-safe: for one worker."""

    def __init__(self) -> None:
        self._all = _Smallest(WINDOW)
        self._live = _Smallest(LIVE_WINDOW)

    def stamped(self, timestamp: float, received: float, *, live: bool) -> None:
        """Note that a record with this timestamp (Unix seconds) was received at ``received``, monotonic.

        ``live``: the record did not exist shortly before, so it was not read late.
        """
        ahead = received - timestamp
        self._all.take(ahead, received)
        if live:
            self._live.take(ahead, received)

    def time(self, monotonic: float) -> CoordinatorTime:
        """Their clock beside the monotonic one at this instant."""
        return CoordinatorTime(self._live.smallest(monotonic, ENOUGH), self._all.smallest(monotonic, 1))


class CoordinatorClocks:
    """The clocks of all coordinators, by broker; None is one that is not known. Not thread-safe: for one worker."""

    def __init__(self) -> None:
        self._any = CoordinatorClock()
        self._live: dict[int, _Smallest] = {}  # never expire: clocks differ as well while nothing is written

    def stamped(self, broker: int | None, timestamp: float, received: float, *, live: bool) -> None:
        """As ``CoordinatorClock.stamped``, of a record that this broker wrote."""
        self._any.stamped(timestamp, received, live=live)
        if live and broker is not None:
            self._live.setdefault(broker, _Smallest(LIVE_WINDOW)).take(received - timestamp, received)

    def time(self, monotonic: float) -> CoordinatorTime:
        """The clock furthest ahead, beside the monotonic one."""
        return self._any.time(monotonic)

    def skews(self, monotonic: float, wall: float) -> dict[int, float]:
        """Seconds by which our clock is ahead of that of each broker, negative behind. Too large by the delay of the
        least delayed record.
        """
        return {broker: wall - monotonic + ahead.kept() for broker, ahead in sorted(self._live.items())}

    def behind(self, monotonic: float) -> dict[int, float]:
        """Return by broker the whole seconds by which its clock may be behind ``time``, where it noticeably is."""
        at_most = self._any.time(monotonic).at_most
        if at_most is None:
            return {}
        return {
            broker: float(math.ceil(behind))
            for broker, ahead in self._live.items()
            if (behind := ahead.kept() - at_most) >= NOTICEABLE_BEHIND_SECONDS
        }

    def knows(self, broker: int) -> bool:
        """Return whether the clock of a broker is known, by a new record that it wrote."""
        return broker in self._live


class _Smallest:
    """The smallest value of the last so many seconds. Of each part of them: its begin, its smallest, how many."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._parts: deque[tuple[float, float, int]] = deque()

    def take(self, value: float, at: float) -> None:
        if self._parts and at - self._parts[-1][0] < self._window / STEPS:
            began, smallest, count = self._parts[-1]
            self._parts[-1] = began, min(smallest, value), count + 1
        else:
            self._parts.append((at, value, 1))
            self._expire(at)

    def smallest(self, now: float, enough: int) -> float | None:
        """None where there were fewer than ``enough`` values."""
        self._expire(now)
        if sum(count for *_, count in self._parts) < enough:
            return None
        return self.kept()

    def kept(self) -> float:
        """The smallest of the values that were kept when the last part began: there was one."""
        return min(value for _, value, _ in self._parts)

    def _expire(self, now: float) -> None:
        while self._parts and now - self._parts[0][0] > self._window:
            self._parts.popleft()
