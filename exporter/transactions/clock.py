"""The coordinators' clocks, from the arrival of records with their timestamps. No I/O: instants are arguments.

A record of the transaction log has a timestamp of its coordinator's clock and arrives later than that. So at its
arrival that clock shows the timestamp or more: our monotonic clock is ahead of it by so much at most, whatever our wall
clock shows. The least delayed record gives the best bound. Each broker has a clock of its own. All distances are
``ours - theirs``, in seconds.

All instants that are shown are by one clock, the reference: that of the brokers while they agree, else the one that
most of the known brokers share, else our wall clock as it was when that was found: it may be set at any time. A
timestamp by a clock that is apart from the reference is moved (``CoordinatorClocks.ahead``).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping

from exporter.transactions.facts import NOTICEABLE_SECONDS, CoordinatorTime

LIVE_WINDOW = 600.0
"""Seconds for which a new record is used for the estimate: clocks are set at times, and drift."""
WINDOW = 7200.0
"""Seconds for which any record bounds the clock: longer than transactions are open."""
ENOUGH = 3
"""Number of new records from which the difference is estimated: a single one may have been delayed."""
SPACED_SECONDS = 1.0
"""Seconds between those of one broker: what waited for replication comes at once."""
ALONE_SECONDS = 30.0
"""How long the clock of the only broker that wrote new records is not taken for that of the others, if there are."""
LATELY_SECONDS = 240.0
"""How long a broker that wrote to the log dates what is compared: longer than markers are kept."""
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
    """The clocks of all coordinators, by broker; None is one that is not known. Not thread-safe: for one worker.

    ``monotonic`` and ``wall`` are our two clocks at one instant.
    """

    def __init__(self) -> None:
        self._any = CoordinatorClock()
        self._live: dict[int, _Smallest] = {}  # never expire: clocks differ as well while nothing is written
        self._read: dict[int, _Smallest] = {}  # the same by records that are not new
        self._spaced: dict[int, list[float]] = {}  # when new records came
        self._wrote_at: dict[int, float] = {}  # when the newest one came
        self._known_at = math.inf
        self._ours: float | None = None  # the reference, where it is our wall clock
        self.known: dict[int, float] = {}
        """The distances of our monotonic clock from those of brokers of which there was enough."""
        self.leaders: frozenset[int] = frozenset()
        """The brokers that lead the log."""

    def stamped(self, broker: int | None, timestamp: float, received: float, *, live: bool) -> None:
        """As ``CoordinatorClock.stamped``, of a record that this broker wrote."""
        self._any.stamped(timestamp, received, live=live)
        if broker is None:
            return
        if not live:
            self._read.setdefault(broker, _Smallest(WINDOW)).take(received - timestamp, received)
            return
        self._live.setdefault(broker, _Smallest(LIVE_WINDOW)).take(received - timestamp, received)
        self._wrote_at[broker] = received
        spaced = self._spaced.setdefault(broker, [])
        if len(spaced) < ENOUGH and (not spaced or received - spaced[-1] >= SPACED_SECONDS):
            spaced.append(received)
        if len(spaced) == ENOUGH:
            self.known[broker] = self._live[broker].kept()
            self._known_at = min(self._known_at, received)

    def restore(self, known: Mapping[int, float], monotonic: float) -> None:
        """Take what an earlier process knew under the same monotonic clock."""
        for broker, ahead in known.items():
            self._live.setdefault(broker, _Smallest(LIVE_WINDOW)).take(ahead, monotonic)
            self._spaced[broker] = [monotonic] * ENOUGH
            self._wrote_at[broker] = monotonic
            self.known[broker] = self._live[broker].kept()
        self._known_at = -math.inf

    @property
    def are_apart(self) -> bool:
        """Return whether two clocks are apart, so that timestamps are moved."""
        return _are_apart(self.known.values())

    def time(self, monotonic: float, wall: float) -> CoordinatorTime:
        """The reference beside the monotonic clock."""
        found = self._any.time(monotonic)
        if self.are_apart:
            ahead = self._reference(monotonic, wall)
            shown = [ahead for broker, ahead in self.known.items() if self._leads(broker)]
            return CoordinatorTime(ahead, ahead, furthest=min(shown, default=None))
        self._ours = None
        alone = len(self._live) == 1 < len(self.leaders) and monotonic - self._known_at < ALONE_SECONDS
        if alone or _are_apart([of_broker.kept() for of_broker in self._live.values()]):
            return CoordinatorTime(None, found.at_most)  # which clock it is will be known soon
        return found

    def _reference(self, monotonic: float, wall: float) -> float:
        """The distance of the reference while clocks are apart."""
        near = (
            [one for one in self.known.values() if 0 <= one - least < NOTICEABLE_SECONDS]
            for least in self.known.values()
        )
        most = max(near, key=len)
        if 2 * len(most) > len(self.known):
            self._ours = None
            return min(most)
        if self._ours is None:
            self._ours = monotonic - wall
        return self._ours

    def ahead(self, broker: int | None, monotonic: float, wall: float) -> float | None:
        """Seconds by which a broker's clock is ahead of the reference: what its timestamps are moved back by. 0 where
        that is not noticeable, None where it is not known.
        """
        if not self.are_apart:
            return 0.0
        if broker is None or (known := self.known.get(broker)) is None:
            return None
        ahead = self._reference(monotonic, wall) - known
        return ahead if abs(ahead) >= NOTICEABLE_SECONDS else 0.0

    def behind(self, broker: int | None, monotonic: float, wall: float) -> float | None:
        """Seconds by which the clock of a broker is behind ``time`` at most, negative ahead. None where no record of it
        was read.
        """
        at_most = self.time(monotonic, wall).at_most
        if broker is None or at_most is None:
            return None
        live, read = self._live.get(broker), self._read.get(broker)
        known = live.kept() if live is not None else None if read is None else read.smallest(monotonic, 1)
        return None if known is None else known - at_most

    def skews(self, monotonic: float, wall: float) -> dict[int, float]:
        """Seconds by which our clock is ahead of that of each broker that leads now, negative behind. Too large by the
        delay of the least delayed record.
        """
        present = sorted(broker for broker in self._live if self._leads(broker))
        return {broker: wall - monotonic + self._live[broker].kept() for broker in present}

    def apart(self, monotonic: float, wall: float) -> float:
        """Seconds between the two clocks that are furthest apart of those that date decisions and markers of the last
        minutes: of the brokers that lead the log or wrote to it lately, and the reference.
        """
        lately = {broker for broker, at in self._wrote_at.items() if monotonic - at < LATELY_SECONDS}
        clocks = [known.kept() for broker, known in self._live.items() if self._leads(broker) or broker in lately]
        if self.are_apart:
            clocks.append(self._reference(monotonic, wall))
        return max(clocks, default=0.0) - min(clocks, default=0.0)

    def _leads(self, broker: int) -> bool:
        """Return whether a broker leads a part of the log, as far as that is known."""
        return not self.leaders or broker in self.leaders


def _are_apart(distances: Collection[float]) -> bool:
    return max(distances, default=0.0) - min(distances, default=0.0) >= NOTICEABLE_SECONDS


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
