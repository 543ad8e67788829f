"""How far the transaction log was read: what is counted, what is only dated, what was lost. No I/O, no clock.

A first start begins at the end of the log; the hour before it is read for dates and by-id gauges and is not counted.
A restart counts from where the last process stopped. What that process had seen finish but not yet settled is
counted, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PartitionProgress:
    """One partition of the log. ``position`` is where counting begins, ``next`` the offset to read next."""

    __slots__ = ("end", "ended_at", "ended_log_ms", "lost", "next", "position", "refused", "unsettled")

    def __init__(self, start: int, position: int, unsettled: frozenset[int] = frozenset()) -> None:
        self.next = start
        self.position = position
        self.unsettled = unsettled  # what the last process saw finish and did not count, by offset
        self.end: int | None = None  # the high watermark when it was last asked for
        self.ended_at: float | None = None  # monotonic instant at which the end was last reached
        self.ended_log_ms = -1
        self.lost = 0
        self.refused = False

    def counts(self, offset: int) -> bool:
        """Whether what finished at this offset is counted: it is new, or the last process left it unsettled."""
        return offset >= self.position or offset in self.unsettled

    def read(self, offset: int) -> None:
        """The record at ``offset`` came. Offsets that never come were compacted away before they were read."""
        if offset > self.next:
            self.lost += max(0, offset - max(self.next, self.position))
        self.next = offset + 1
        self.refused = False

    def reached_end(self, offset: int, monotonic: float, log_ms: int) -> None:
        """The end was reached at ``offset``: from here on, log time runs with the clock."""
        self.read(offset - 1) if offset > self.next else None
        self.ended_at = monotonic
        self.ended_log_ms = log_ms
        self.refused = False

    @property
    def lag(self) -> int:
        """Offsets that are known to be there and were not read."""
        return max(0, (self.end or 0) - self.next)


def begin(end: int, hour_ago: int | None, saved: Mapping[str, Any], *, from_zero: bool) -> PartitionProgress:
    """Where to start in a partition whose high watermark is ``end``.

    ``saved`` is what the last process left ({"next": int, "unsettled": [int]}), {} for none; ``hour_ago`` the first
    offset of the last hour, None when it has no records; ``from_zero`` marks a partition that appeared while we
    watched.
    """
    if from_zero:
        return PartitionProgress(0, 0)
    position = saved.get("next")
    unsettled = saved.get("unsettled")
    # A position beyond the end is of a log that was truncated or made anew: what it says cannot be trusted.
    if not isinstance(position, int) or not 0 <= position <= end:
        return PartitionProgress(end if hour_ago is None else min(hour_ago, end), end)
    pending = (
        frozenset(each for each in unsettled if isinstance(each, int)) if isinstance(unsettled, list) else frozenset()
    )
    start = min((position, *pending, *(() if hour_ago is None else (hour_ago,))))
    return PartitionProgress(start, position, pending)
