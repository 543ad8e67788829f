"""How far the transaction log was read: what is counted, what is only dated, what was lost. No I/O, no clock.

A first start begins at the end of the log; the hour before it is read for dates and by-id gauges and is not counted.
A restart counts from where the last process stopped. What that process had seen finish but not yet settled is
counted, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONTEXT_RECORDS = 1000
"""Records that a restart reads again before it counts, to know where the ids stood: a coordinator may write a Complete
record twice.
"""


class PartitionProgress:
    """One partition of the log. ``position`` is where counting begins, ``next`` the offset to read next."""

    __slots__ = (
        "asked_at",
        "end",
        "ended_at",
        "ended_log_ms",
        "ended_next",
        "lost",
        "next",
        "position",
        "refused",
        "unsettled",
    )

    def __init__(self, start: int, position: int, unsettled: frozenset[int] = frozenset()) -> None:
        self.next = start
        self.position = position
        self.unsettled = set(unsettled)  # what the last process saw finish and did not count, by offset
        self.end: int | None = None  # the high watermark when it was last asked for; None: no answer
        self.asked_at: float | None = None  # monotonic instant at which it was asked for
        self.ended_at: float | None = None  # monotonic instant at which the end was last reached
        self.ended_next = -1  # ``next`` at that instant
        self.ended_log_ms = -1  # log time at that instant
        self.lost = 0
        self.refused = False

    def counts(self, offset: int) -> bool:
        """Whether what finished at this offset is to be counted: it is new, or the last process left it unsettled."""
        return offset >= self.position or offset in self.unsettled

    def count(self, offset: int) -> bool:
        """As ``counts``, for what is counted now: it is not left unsettled any more."""
        counted = self.counts(offset)
        self.unsettled.discard(offset)
        return counted

    def read(self, offset: int) -> None:
        """The record at ``offset`` came. Offsets that never come were compacted away before they were read."""
        if offset > self.next:
            self.lost += max(0, offset - max(self.next, self.position))
        self.next = offset + 1
        self.refused = False

    def asked(self, end: int | None, monotonic: float) -> None:
        """The high watermark, asked for at ``monotonic``; None when there was no answer."""
        self.end = end
        self.asked_at = monotonic

    def reached_end(self, offset: int, monotonic: float, log_ms: int) -> None:
        """The end was reached at ``offset``: from here on, log time runs with the clock."""
        if offset > self.next:
            self.read(offset - 1)
        self.ended_at = monotonic
        self.ended_next = self.next
        self.ended_log_ms = log_ms
        self.refused = False

    def truncated(self, end: int) -> None:
        """The log ends before what was read of it: go on from its end."""
        self.next = self.position = end

    def log_ms_at(self, monotonic: float) -> int | None:
        """Log time at an instant, run on with the clock since the end was reached; None while it was not."""
        if self.ended_at is None or self.ended_log_ms < 0 or self.next != self.ended_next:
            return None
        return self.ended_log_ms + max(0, int((monotonic - self.ended_at) * 1000))

    def proven_log_ms(self) -> int | None:
        """Log time up to which everything is known to have been read; None when that cannot be told.

        All that was visible when the end was asked for has been read. Without an answer time stands still: behind a
        broken connection the records of the last seconds may be waiting.
        """
        if self.end is None or self.asked_at is None or self.next < self.end:
            return None
        return self.log_ms_at(self.asked_at)

    @property
    def lag(self) -> int:
        """Offsets that are known to be there and were not read."""
        return max(0, (self.end or 0) - self.next)


def begin(end: int, hour_ago: int | None, saved: Mapping[str, Any], *, from_zero: bool) -> PartitionProgress:
    """Where to start in a partition whose high watermark is ``end``.

    ``saved`` is what the last process left, {} for none: ``next``, the offsets of what was ``unsettled``, and from
    where on to read (``open``) to know how transactions began that were open then. ``hour_ago`` is the first offset of
    the last hour, None when it has no records; ``from_zero`` marks a partition that appeared while we watched.
    """
    if from_zero:
        return PartitionProgress(0, 0)
    position, unsettled, opened = saved.get("next"), saved.get("unsettled"), saved.get("open")
    recent = () if hour_ago is None else (hour_ago,)
    # A position beyond the end is of a log that was truncated or made anew: what it says cannot be trusted.
    if not isinstance(position, int) or not 0 <= position <= end:
        return PartitionProgress(min((end, *recent)), end)
    pending = frozenset(filter(_is_offset, unsettled)) if isinstance(unsettled, list) else frozenset()
    context = (opened,) if _is_offset(opened) else ()
    start = min((max(0, position - CONTEXT_RECORDS), *pending, *context, *recent))
    return PartitionProgress(start, position, pending)


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and value >= 0
