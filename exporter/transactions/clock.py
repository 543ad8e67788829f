"""The coordinators' time, from the arrival of records with their timestamps. No I/O: instants are arguments.

A record of the transaction log has a timestamp of its coordinator's clock and arrives later than that. So at its
arrival the coordinators' clock shows that timestamp or more: a lower bound that does not depend on our clock and
advances with the monotonic clock. The least delayed record gives the best bound. Each broker has a clock of its own:
where a coordinator's is not known, it is taken for the one furthest ahead.
"""

from __future__ import annotations

import math
from collections import deque

from exporter.transactions.facts import ClockBounds, CoordinatorTime

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
    """Bounds of the coordinators' clock. Not thread-safe: for one worker."""

    def __init__(self) -> None:
        self._all = _Largest(WINDOW)
        self._live = _Largest(LIVE_WINDOW)

    def stamped(self, timestamp: float, received: float, *, live: bool) -> None:
        """Note that a record with this timestamp (Unix seconds) was received at ``received``, monotonic.

        ``live``: the record did not exist shortly before, so it was not read late.
        """
        ahead = timestamp - received
        self._all.take(ahead, received)
        if live:
            self._live.take(ahead, received)

    def newest(self, monotonic: float) -> float:
        """Seconds by which it is ahead of our monotonic clock, by the best new record; the caller has given one."""
        largest = self._live.largest(monotonic, 1)
        return -math.inf if largest is None else largest

    def bounds(self, monotonic: float) -> ClockBounds:
        """The bounds at this instant."""
        return ClockBounds(self._all.largest(monotonic, 1), self._live.largest(monotonic, ENOUGH))


class CoordinatorClocks:
    """The clocks of all coordinators, by broker; None is one that is not known. Not thread-safe: for one worker."""

    def __init__(self) -> None:
        self._any = CoordinatorClock()
        self._by_broker: dict[int, CoordinatorClock] = {}
        self._live: dict[int, float] = {}  # the last estimate of each: clocks differ as well while nothing is written

    def stamped(self, broker: int | None, timestamp: float, received: float, *, live: bool) -> None:
        """As ``CoordinatorClock.stamped``, of a record that this broker wrote."""
        self._any.stamped(timestamp, received, live=live)
        if broker is None:
            return
        clock = self._by_broker.setdefault(broker, CoordinatorClock())
        clock.stamped(timestamp, received, live=live)
        if live:
            self._live[broker] = clock.newest(received)

    def bounds(self, monotonic: float) -> ClockBounds:
        """The bounds of the clock furthest ahead."""
        return self._any.bounds(monotonic)

    def skews(self, monotonic: float, wall: float) -> dict[int, float]:
        """Seconds by which our clock is ahead of that of each broker, negative behind: ``local - coordinator``. Too
        large by the delay of the least delayed record.
        """
        return {broker: wall - monotonic - ahead for broker, ahead in sorted(self._live.items())}

    def behind(self, monotonic: float) -> dict[int, float]:
        """Return by broker the whole seconds by which its clock may be behind ``bounds``, where it noticeably is."""
        at_least = self._any.bounds(monotonic).at_least
        if at_least is None:
            return {}
        return {
            broker: float(math.ceil(at_least - live))
            for broker, live in self._live.items()
            if at_least - live >= NOTICEABLE_BEHIND_SECONDS
        }

    def shift_ms(self, before: int | None, after: int | None) -> int:
        """Milliseconds by which the clock of ``after`` is ahead of that of ``before``; 0 where one is not known."""
        if before is None or after is None or before not in self._live or after not in self._live:
            return 0
        return round((self._live[after] - self._live[before]) * 1000)


def coordinator_time(bounds: ClockBounds, monotonic: float, wall: float) -> CoordinatorTime:
    """The coordinators' clock compared with ours, which shows ``wall`` at this monotonic instant."""
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
