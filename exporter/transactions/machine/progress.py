"""Progress in one partition of the transaction log: counted, dated-only and lost records, and log time. No I/O, no
clock.

A first start counts from the end of the log; the hour before it is read for instants and by-id gauges and is not
counted. A restart counts from the position of the last process, and counts transactions that had finished by then with
an outcome that was still pending.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from exporter.transactions.machine.log_changes import NO_CHANGES, PartitionChanges, read_changes, write_changes

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


class LogPosition(NamedTuple):
    """Where counting goes on in a partition of the log, and what a restart needs of the records before it.

    ``epoch`` is the leader epoch of the record before ``offset``, NO_EPOCH when it is not known; ``unsettled`` are the
    offsets of transactions that finished before it and are not counted yet; ``lost`` counts records. ``epochs`` and
    ``confirmed`` are those of ``LogLeaders``.
    """

    offset: int
    epoch: int = NO_EPOCH
    unsettled: frozenset[int] = frozenset()
    lost: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    confirmed: int = NO_EPOCH
    changes: PartitionChanges = NO_CHANGES

    def document(self) -> list[Any]:
        """As JSON."""
        changes = write_changes(self.changes)
        return [*self[:2], sorted(self.unsettled), self.lost, list(map(list, self.epochs)), self.confirmed, changes]

    @classmethod
    def read(cls, found: list[Any]) -> Self:
        """As ``document`` returned it. Raises TypeError or ValueError for anything else."""
        offset, epoch, unsettled, lost, epochs, confirmed, changes = found
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise ValueError(f"the position {offset!r}")
        known = tuple((int(epoch), int(first)) for epoch, first in epochs)
        counted = frozenset(map(int, unsettled)), int(lost)
        return cls(offset, int(epoch), *counted, known, int(confirmed), read_changes(changes))


class LogLeaders:
    """Who led a partition of the log while it was read. All epochs are leader epochs."""

    def __init__(self, epochs: Iterable[tuple[int, int]], confirmed: int, changes: PartitionChanges) -> None:
        self.epochs = list(epochs)  # those of records that were read, with the first offset of each
        self.confirmed = confirmed  # the newest whose leader has what was read
        self.confirmed_at: tuple[float, float] | None = None  # when it was last known so: Unix seconds, monotonic
        self.wanted = NO_EPOCH  # that of a record that is read once its leader has confirmed what is before it
        self.brokers: dict[int, int] = {}  # the broker that leads, by epoch, of the newest
        self.leader: int | None = None
        """The broker that leads in the newest epoch whose leader is known."""
        self.since = -math.inf  # monotonic: when this process learned of the last election
        self.changes = changes

    def in_epoch(self, epoch: int, offset: int) -> None:
        """Note that the record at ``offset`` is of this leader epoch, and all from it on up to now."""
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs = [*self.epochs[1 - MOST_EPOCHS :], (epoch, offset)]

    def led_by(self, epoch: int, broker: int | None, monotonic: float) -> None:
        """Note who leads in an epoch."""
        if broker is not None and self.brokers.get(epoch) != broker:
            if self.brokers:
                self.since = monotonic
            self.restore({**self.brokers, epoch: broker})

    def restore(self, brokers: Mapping[int, int]) -> None:
        """Set who led in which epoch, in their order."""
        self.brokers = dict(list(brokers.items())[-MOST_EPOCHS:])
        self.leader = self.brokers[max(self.brokers)] if self.brokers else None

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


class PartitionEnd:
    """The end of a partition of the log, as its leader said it. Instants are monotonic."""

    def __init__(self) -> None:
        self.high_watermark: int | None = None  # when it was last asked for; None: no answer
        self.asked_at: float | None = None
        self.log_end: tuple[int, float] | None = None  # replicated or not, and when it was asked for
        self.whole_at: float | None = None  # the latest instant up to which all records are known to be read

    def read_to(self, offset: int) -> None:
        """Note that ``offset`` is the next to read: whether the requested log end was reached."""
        if self.log_end is not None and offset >= self.log_end[0]:
            self.whole_at = self.log_end[1]


class _Anchor(NamedTuple):
    """Log time in milliseconds at a monotonic instant, when the offset to read next was ``next``."""

    next: int
    log_ms: int
    at: float


class PartitionProgress:
    """One partition of the log. ``position`` is where counting begins, ``next`` the offset to read next."""

    def __init__(self, start: int, saved: LogPosition) -> None:
        self.next = start
        self.position = saved.offset
        self.unsettled = set(saved.unsettled)
        self.epoch = saved.epoch
        self.lost = saved.lost
        self.led = LogLeaders(saved.epochs, saved.confirmed, saved.changes)
        self.end = PartitionEnd()
        self.refused = False
        self.gone = False  # the broker says that the log does not have ``next``
        self.waits_since: float | None = None  # monotonic: since when nothing was read although there is more
        self._waits_at = start
        self._anchor: _Anchor | None = None

    def kept(self, waiting: Iterable[int]) -> LogPosition:
        """The position to save; ``waiting`` are the offsets of aborts that wait for their outcome."""
        unsettled = {offset for offset in waiting if self.counts(offset)}
        if self.next < self.position:  # still reading records from before the counters began
            unsettled |= self.unsettled
        led, offset = self.led, max(self.next, self.position)
        known = frozenset(unsettled), self.lost, tuple(led.epochs), led.confirmed, led.changes
        return LogPosition(offset, self.epoch, *known)

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

    def continues(self, epoch: int | None) -> bool:
        """Return whether a record of this leader epoch surely follows what was read. If not, another leader was elected
        that may lack some of it; and a broker that lost it may have other records of an earlier epoch there.
        """
        if epoch is None or epoch in (self.epoch, NO_EPOCH):
            return True
        if self.next < self.position or self.epoch == NO_EPOCH:
            return self.led.confirmed == NO_EPOCH or epoch <= self.led.confirmed
        return self.epoch < epoch <= self.led.confirmed

    def reached_end(self, offset: int) -> None:
        """The high watermark was reached at ``offset``."""
        if offset > self.next:
            self.read(offset - 1)
        self.refused = False

    def asked(self, end: int | None, monotonic: float) -> None:
        """The high watermark, asked for at ``monotonic``; None when there was no answer."""
        self.end.high_watermark, self.end.asked_at = end, monotonic

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
        end = self.end.high_watermark
        return end is not None and self.next >= end and not self.refused and not self.gone

    @property
    def lag(self) -> int:
        """Offsets that exist and were not read yet."""
        return max(0, (self.end.high_watermark or 0) - self.next)

    # --- Lost records ---

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
        self.led.epochs = [known for known in self.led.epochs if known[1] < offset]
        self.epoch = self.led.epochs[-1][0] if self.led.epochs else epoch
        self.gone = False

    def deleted(self, start: int) -> None:
        """The log begins at ``start``, beyond the next offset: the records in between are lost."""
        self.lost += max(0, start - max(self.next, self.position))
        self.next = max(self.next, start)
        self.epoch, self.led.epochs = NO_EPOCH, []
        self.gone = False

    def given_up(self, end: int) -> None:
        """The position is beyond the end of a log without its leader epoch: continue from its end; its records count as
        lost.
        """
        self.lost += max(1, end)
        self.next = self.position = end
        self.unsettled.clear()
        self.epoch, self.led.epochs = NO_EPOCH, []
        self.gone = False

    # --- Log time ---

    def timed(self, log_ms: int, monotonic: float) -> None:
        """Note that log time is ``log_ms`` or later at this instant: a record with that timestamp was read."""
        if self._anchor is None or self.next != self._anchor.next:
            self._anchor = _Anchor(self.next, log_ms, monotonic)

    def log_ms_at(self, monotonic: float) -> int | None:
        """A lower bound of log time at an instant: that of its newest record, advanced by the clock since it was read.
        None while no record was read, or one was since.
        """
        anchor = self._anchor
        if anchor is None or anchor.log_ms < 0 or self.next != anchor.next:
            return None
        return anchor.log_ms + max(0, int((monotonic - anchor.at) * 1000))
