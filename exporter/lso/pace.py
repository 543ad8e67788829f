"""When the last stable offsets are read next. No I/O; every instant is monotonic and an argument."""

from __future__ import annotations

from exporter.core.reading import next_start
from exporter.lso.tracker import StallTracker

JITTER = 0.05
"""Share of an interval by which a read may be early."""
DELAY_SHARE = 0.15
"""Share of an interval for which a read waits for a stall that is just below the threshold, beside what the last read
took.
"""
MOST_DELAY_SHARE = 0.25
"""The largest share with that. What a read gives expires after three intervals, and a read may take two."""
PROVING_PACE, PROVING_REST = 1.5, 0.5
"""Seconds between two reads while a proof reads the transaction log, a part of it in each: from the start of a read to
that of the next, and from its end at least.
"""


class ReadPace:
    """The pace of the reads of one cluster, which are ``interval`` seconds apart."""

    def __init__(self, interval: float, watch: StallTracker) -> None:
        self._interval = interval
        self._watch = watch
        self._beat: float | None = None  # the start of the last read at the interval, while a proof makes others

    def after(self, began: float, now: float, *, proving: bool) -> float:
        """Seconds from the start of the read that began and ends at these instants to the start of the next: the
        interval, and a delay where the next read would fall just before the stall threshold. Shorter while a proof
        reads the log; after it the reads are at the instants at which they would have been without it, since stalls
        that they saw are due at these.

        Thresholds are multiples of the interval, and reads are never exactly that far apart: without the delay, every
        other stall is reported an interval late. A stall counts from the answer of the read that saw it first, and up
        to the request of the one that reports it, so the time that a read takes comes on top.
        """
        interval = self._interval
        if proving:
            self._beat = began if self._beat is None else self._beat
            return max(min(interval, PROVING_PACE), now - began + PROVING_REST)
        next_read, early = began + interval, JITTER * interval
        if self._beat is not None:
            next_read = next_start(self._beat, now + PROVING_REST, interval)
            self._beat = None
        latest = next_read + min(DELAY_SHARE * interval + now - began, MOST_DELAY_SHARE * interval)
        due = self._watch.due(max(now, next_read - early), latest)
        # A read that took longer than an interval is followed by one at a multiple of them.
        return next_read - began if due is None or now > next_read else due + early - began
