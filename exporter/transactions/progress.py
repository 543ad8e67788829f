"""How far one partition of the transaction log was read: what is counted, what is only dated, what was lost.

And what is known of its time. No I/O, no clock.

A first start begins at the end of the log; the hour before it is read for dates and by-id gauges and is not counted.
A restart counts from where the last process stopped. What that process had seen finish but not yet settled is
counted, too.
"""

from __future__ import annotations

CONTEXT_RECORDS = 1000
"""Records that a restart reads again before it counts, to know where the ids were: a coordinator may write a Complete
record twice.
"""
NO_EPOCH = -1


class PartitionProgress:
    """One partition of the log. ``position`` is where counting begins, ``next`` the offset to read next."""

    __slots__ = (
        "_anchor_at",
        "_anchor_ms",
        "_anchor_next",
        "asked_at",
        "end",
        "epoch",
        "gone",
        "log_end",
        "log_end_asked_at",
        "lost",
        "next",
        "position",
        "refused",
        "unsettled",
        "whole_at",
    )

    def __init__(
        self,
        start: int,
        position: int,
        unsettled: frozenset[int] = frozenset(),
        *,
        epoch: int = NO_EPOCH,
        lost: int = 0,
    ) -> None:
        self.next = start
        self.position = position
        self.unsettled = set(unsettled)  # what the last process saw finish and did not count, by offset
        self.epoch = epoch  # the leader epoch of the record before ``next``; NO_EPOCH when it is not known
        self.end: int | None = None  # the high watermark when it was last asked for; None: no answer
        self.asked_at: float | None = None  # monotonic instant at which it was asked for
        self.log_end: int | None = None  # when it was last asked for and answered
        self.log_end_asked_at = 0.0  # monotonic
        self.whole_at: float | None = None  # the latest instant by which all that was written is known to be read
        self.lost = lost
        self.refused = False
        self.gone = False  # the broker says that the log does not have ``next``
        self._anchor_ms = -1  # log time at a monotonic instant, when ``next`` was that
        self._anchor_at = 0.0
        self._anchor_next = -1

    # --- What is counted ---

    def counts(self, offset: int) -> bool:
        """Whether what finished at this offset is to be counted: it is new, or the last process left it unsettled."""
        return offset >= self.position or offset in self.unsettled

    def count(self, offset: int) -> bool:
        """As ``counts``, for what is counted now: it is not left unsettled any more."""
        counted = self.counts(offset)
        self.unsettled.discard(offset)
        return counted

    # --- What was read ---

    def read(self, offset: int) -> None:
        """The record at ``offset`` came. Offsets that never come were compacted away before they were read."""
        if offset > self.next:
            self.lost += max(0, offset - max(self.next, self.position))
        self.next = max(self.next, offset + 1)
        self.refused = False

    def reached_end(self, offset: int) -> None:
        """The high watermark was reached at ``offset``."""
        if offset > self.next:
            self.read(offset - 1)
        self.refused = False

    def asked(self, end: int | None, monotonic: float) -> None:
        """The high watermark, asked for at ``monotonic``; None when there was no answer."""
        self.end = end
        self.asked_at = monotonic

    def log_end_asked(self, log_end: int, monotonic: float) -> None:
        """The log end, replicated or not, asked for at ``monotonic``."""
        self.log_end, self.log_end_asked_at = log_end, monotonic

    def note_whole(self) -> None:
        """Take note when the log end that was asked for is read."""
        if self.log_end is not None and self.next >= self.log_end:
            self.whole_at = self.log_end_asked_at

    @property
    def current(self) -> bool:
        """Whether all that was there at the last look was read. False while a look gets no answer."""
        return self.end is not None and self.next >= self.end and not self.refused and not self.gone

    @property
    def lag(self) -> int:
        """Offsets that are known to be there and were not read."""
        return max(0, (self.end or 0) - self.next)

    # --- What is gone ---

    def truncated(self, offset: int, epoch: int, *, seen: bool) -> None:
        """The log was cut at ``offset``, and goes on there with other records; ``epoch`` is that of the record before.

        What was counted beyond stays counted. A new coordinator ends those transactions again under the same producer
        id, epoch and start: where this process has ``seen`` them end, the state machine knows. Where an earlier process
        did, nothing is counted again up to its position, and so many records are lost.
        """
        self.next = min(self.next, offset)
        if seen:
            self.position = min(self.position, offset)
        else:
            self.lost += self.position - offset
        self.unsettled = {each for each in self.unsettled if each < offset}
        self.epoch = epoch
        self.gone = False

    def deleted(self, start: int) -> None:
        """The log begins at ``start``, beyond what was to be read next: what lay between is lost."""
        self.lost += max(0, start - max(self.next, self.position))
        self.next = max(self.next, start)
        self.epoch = NO_EPOCH
        self.gone = False

    def given_up(self, end: int) -> None:
        """The position is beyond the end of a log that knows nothing of it: go on from its end, all in it is lost."""
        self.lost += max(1, end)
        self.next = self.position = end
        self.unsettled.clear()
        self.epoch = NO_EPOCH
        self.gone = False

    # --- Its time ---

    def timed(self, log_ms: int, monotonic: float) -> None:
        """The log's time is ``log_ms`` or later at this instant, as a record with that timestamp was read by then."""
        if self.next != self._anchor_next:
            self._anchor_ms, self._anchor_at, self._anchor_next = log_ms, monotonic, self.next

    def log_ms_at(self, monotonic: float) -> int | None:
        """A lower bound of the log's time at an instant: that of its newest record, run on with the clock since it was
        read. None while no record was read, or one was since.
        """
        if self._anchor_ms < 0 or self.next != self._anchor_next:
            return None
        return self._anchor_ms + max(0, int((monotonic - self._anchor_at) * 1000))
