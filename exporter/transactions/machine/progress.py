"""Progress in one partition of the transaction log: counted, dated-only and lost records, and log time. No I/O, no
clock.

A first start counts from the end of the log; the hour before it is read for instants and by-id gauges and is not
counted. A restart counts from the position of the last process, and counts transactions that had finished by then with
an outcome that was still pending.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.transactions.machine.log_changes import NO_CHANGES, PartitionChanges

CONTEXT_RECORDS = 1000
"""Records that a restart reads again before it counts, to know where the ids were: a coordinator may write a Complete
record twice.
"""
NO_EPOCH = -1
MOST_EPOCHS = 32
"""Leader epochs whose first offset is kept: to know from where on the log of another leader differs."""


class Agreement(NamedTuple):
    """How far a leader's log has what was read: up to the offset ``until``, exclusive. ``ask`` is another leader epoch
    whose end decides it, None where ``until`` is final.
    """

    until: int
    ask: int | None = None


class PartitionProgress:
    """One partition of the log. ``position`` is where counting begins, ``next`` the offset to read next."""

    __slots__ = (
        "_anchor_at",
        "_anchor_ms",
        "_anchor_next",
        "_waits_at",
        "asked_at",
        "changes",
        "confirmed",
        "confirmed_at",
        "end",
        "epoch",
        "epochs",
        "gone",
        "leaders",
        "log_end",
        "log_end_asked_at",
        "lost",
        "next",
        "position",
        "refused",
        "unsettled",
        "waits_since",
        "wanted",
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
        epochs: tuple[tuple[int, int], ...] = (),
        confirmed: int = NO_EPOCH,
        changes: PartitionChanges = NO_CHANGES,
    ) -> None:
        self.next = start
        self.position = position
        self.unsettled = set(unsettled)  # finished before the last process ended, and not counted by it, by offset
        self.epoch = epoch  # the leader epoch of the record before ``next``; NO_EPOCH when it is not known
        self.epochs = list(epochs)  # the leader epochs of records that were read, with the first offset of each
        self.confirmed = confirmed  # the newest leader epoch whose leader has what was read
        self.confirmed_at: tuple[float, float] | None = None  # when it was last known so: Unix seconds, monotonic
        self.leaders: dict[int, int] = {}  # the broker that leads, by leader epoch, of the newest epochs
        self.wanted = NO_EPOCH  # that of a record which is read once its leader has confirmed what is before it
        self.changes = changes
        self.waits_since: float | None = None  # monotonic: since when nothing was read although there is more
        self._waits_at = start
        self.end: int | None = None  # the high watermark when it was last asked for; None: no answer
        self.asked_at: float | None = None  # monotonic instant at which it was asked for
        self.log_end: int | None = None  # when it was last asked for and answered
        self.log_end_asked_at = 0.0  # monotonic
        self.whole_at: float | None = None  # the latest instant up to which all records are known to be read
        self.lost = lost
        self.refused = False
        self.gone = False  # the broker says that the log does not have ``next``
        self._anchor_ms = -1  # log time at a monotonic instant, when ``next`` was that
        self._anchor_at = 0.0
        self._anchor_next = -1

    # --- Counting ---

    def counts(self, offset: int) -> bool:
        """Return whether a transaction that finished at this offset is counted: it is new, or was pending when the last
        process ended.
        """
        return offset >= self.position or offset in self.unsettled

    def count(self, offset: int) -> bool:
        """As ``counts``, and removes it from the pending ones."""
        if not self.unsettled:
            return offset >= self.position
        counted = self.counts(offset)
        self.unsettled.discard(offset)
        return counted

    # --- Reading ---

    def read(self, offset: int) -> None:
        """Note the record at ``offset``. Skipped offsets were compacted away before they were read."""
        if offset > self.next:
            self.lost += max(0, offset - max(self.next, self.position))
        self.next = max(self.next, offset + 1)
        self.refused = False

    def in_epoch(self, epoch: int, offset: int) -> None:
        """Note that the record at ``offset`` is of this leader epoch, and all from it on up to now."""
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs = [*self.epochs[1 - MOST_EPOCHS :], (epoch, offset)]

    def led_by(self, epoch: int, broker: int | None) -> None:
        """Note who leads in an epoch."""
        if broker is not None and self.leaders.get(epoch) != broker:
            newest = dict(list(self.leaders.items())[1 - MOST_EPOCHS :])
            self.leaders = {**newest, epoch: broker}

    def continues(self, epoch: int | None) -> bool:
        """Return whether a record of this leader epoch surely follows what was read. If not, another leader was elected
        that may lack some of it; and a broker that lost it may have other records of an earlier epoch there.
        """
        if epoch is None or epoch in (self.epoch, NO_EPOCH):
            return True
        if self.next < self.position or self.epoch == NO_EPOCH:
            return self.confirmed == NO_EPOCH or epoch <= self.confirmed
        return self.epoch < epoch <= self.confirmed

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
        """Note that the requested log end was reached."""
        if self.log_end is not None and self.next >= self.log_end:
            self.whole_at = self.log_end_asked_at

    def note_wait(self, monotonic: float, *, busy: bool) -> None:
        """Note at the end of a read whether this partition has records that did not come. ``busy``: records of others
        were read until the time was over.
        """
        if busy or not self.lag or self.refused or self.gone or self.next != self._waits_at:
            self.waits_since, self._waits_at = None, self.next
        elif self.waits_since is None:
            self.waits_since = monotonic

    @property
    def current(self) -> bool:
        """Return whether the partition was read to the end that it had at the last request. False while a request has
        no answer.
        """
        return self.end is not None and self.next >= self.end and not self.refused and not self.gone

    @property
    def lag(self) -> int:
        """Offsets that exist and were not read yet."""
        return max(0, (self.end or 0) - self.next)

    # --- Lost records ---

    def agreed(self, asked: int, epoch: int, end: int) -> Agreement:
        """How far the leader has what was read, when it says of the leader epoch ``asked`` that its own log has records
        up to ``epoch``, which ends at the offset ``end``.

        Kafka's followers truncate by the same comparison (KIP-101, KIP-279; AbstractFetcherThread.
        getOffsetTruncationState): two logs with one record of an epoch are the same up to it, so the end of an epoch
        says nothing about records of later epochs, which the leader never had.
        """
        earlier = max((known for known, _ in self.epochs if known <= epoch), default=None)
        if earlier is None:
            if epoch == asked or not self.epochs:
                return Agreement(end)
            return Agreement(min(end, self.epochs[0][1]))
        if earlier < epoch < asked:
            return Agreement(end, earlier)
        return Agreement(min([end, *(first for known, first in self.epochs if known > earlier)]))

    def truncated(self, offset: int, epoch: int, *, seen: bool) -> None:
        """The log was truncated at ``offset`` and continues with other records; ``epoch`` is that of the record before.

        Counts beyond it stay. A new coordinator ends those transactions again under the same producer id, epoch and
        start: where this process has ``seen`` them end, the state machine detects that. Where an earlier process had,
        nothing is counted up to its position, and these records count as lost.
        """
        self.next = min(self.next, offset)
        if seen:
            self.position = min(self.position, offset)
        else:
            self.lost += self.position - offset
        self.unsettled = {start for start in self.unsettled if start < offset}
        self.epochs = [each for each in self.epochs if each[1] < offset]
        self.epoch = self.epochs[-1][0] if self.epochs else epoch
        self.gone = False

    def deleted(self, start: int) -> None:
        """The log begins at ``start``, beyond the next offset: the records in between are lost."""
        self.lost += max(0, start - max(self.next, self.position))
        self.next = max(self.next, start)
        self.epoch, self.epochs = NO_EPOCH, []
        self.gone = False

    def given_up(self, end: int) -> None:
        """The position is beyond the end of a log without its leader epoch: continue from its end; its records count as
        lost.
        """
        self.lost += max(1, end)
        self.next = self.position = end
        self.unsettled.clear()
        self.epoch, self.epochs = NO_EPOCH, []
        self.gone = False

    # --- Log time ---

    def timed(self, log_ms: int, monotonic: float) -> None:
        """Note that log time is ``log_ms`` or later at this instant: a record with that timestamp was read."""
        if self.next != self._anchor_next:
            self._anchor_ms, self._anchor_at, self._anchor_next = log_ms, monotonic, self.next

    def log_ms_at(self, monotonic: float) -> int | None:
        """A lower bound of log time at an instant: that of its newest record, advanced by the clock since it was read.
        None while no record was read, or one was since.
        """
        if self._anchor_ms < 0 or self.next != self._anchor_next:
            return None
        return self._anchor_ms + max(0, int((monotonic - self._anchor_at) * 1000))
