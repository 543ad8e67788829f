"""The tail of the transaction log: its connection, and from where on each partition is read.

``transactions/source/txnlog.py`` decides where to begin and makes the samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from exporter.kafka.log.tail import Polled, TailReader
from exporter.model import Clock, Deadline, Fault, Reason
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.known_log import KnownLog
from exporter.transactions.log_records import LogRecords
from exporter.transactions.machine.progress import PartitionProgress
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.saved import SavedPartition

BATCH = 300
"""Messages of one poll: few enough to be in the processor's cache when they are processed."""
TIDY_SECONDS = 60.0
"""Seconds between two looks for quiet ids."""
QUIET_MS = 300_000
"""Log time after which an id without a record is put away. Its next record takes it back, which
takes as long again as the record itself.
"""


class LogTail:
    """The continuous read of the log into ``known``, by ``records``. Not thread-safe: for one worker."""

    def __init__(
        self,
        aggregates: Aggregates,
        open_tail: Callable[[], TailReader],
        clock: Clock,
    ) -> None:
        """``open_tail`` is called with the first partition."""
        self.known = KnownLog(aggregates, clock)
        self.records = LogRecords(self.known, clock)
        self._open_tail = open_tail
        self._tail: TailReader | None = None
        self._clock = clock
        self._disconnects = 0
        self.unconfirmed = False
        """Whether a connection was lost since the cluster was last confirmed: nothing is read until it is."""
        self.hurries = False
        """Whether ``follow`` ended by its deadline, with records that were not read yet."""
        self._tidied_at = -math.inf
        self._reached_end: set[int] = set()  # the partitions that were read to an end of theirs

    def close(self) -> None:
        if self._tail is not None:
            self._tail.close()

    def trouble(self) -> Fault | None:
        """Why no messages arrive, if that is known."""
        if self.known.refused:
            detail = f"reading {TOPIC} is refused for {self.known.refused} partitions: grant READ on Topic:{TOPIC}"
            return Fault(Reason.AUTHORIZATION, detail)
        return None if self._tail is None else self._tail.trouble()

    def begin(self, partitions: Mapping[int, tuple[PartitionProgress, SavedPartition | None]]) -> None:
        """Read these partitions, too. Raises what ``open_tail`` does."""
        if self._tail is None:
            self._tail = self._open_tail()
        for number, (progress, saved) in partitions.items():
            self.known.progress[number] = progress
            self.known.changed()
            if saved is not None:
                self.records.restore_at(number, saved)
        self.assign()

    def assign(self) -> None:
        """Assign every partition again at its position: librdkafka reports an end, or a refusal, once for each
        assignment.
        """
        if self._tail is None:
            return
        reading = {number: progress for number, progress in self.known.progress.items() if not progress.gone}
        self._tail.assign(
            {number: progress.next for number, progress in reading.items()},
            {number: progress.epoch for number, progress in reading.items() if progress.next >= progress.position},
        )

    def confirm(self) -> None:
        """Read on where reading ended, after the brokers were found to be of the same cluster."""
        self._disconnects = 0 if self._tail is None else self._tail.disconnects
        self.unconfirmed = False
        self.assign()

    def reconnect(self, servers: str) -> None:
        """Read on by a new client, which asks these brokers who leads."""
        if self._tail is not None:
            self._tail.reconnect(servers)
        self.assign()

    def asked(self, ends: Mapping[int, int], asked_at: float) -> None:
        """As ``KnownLog.asked``; a partition that was refused is tried again."""
        self.known.asked(ends, asked_at)
        if self.known.refused:
            self.assign()

    def follow(self, deadline: Deadline) -> list[Fault]:
        """Read until the deadline or the end. Returns the faults."""
        messages: list[Polled] = []
        while self._tail is not None and not self.unconfirmed:
            messages = self._tail.poll(BATCH, min(0.5, max(0.05, deadline.remaining())))
            if self._tail.disconnects != self._disconnects:
                # Some of these messages may be of the next connection.
                self.unconfirmed, messages = True, []
            self.records.take(messages)
            if deadline.over or not messages or (len(messages) < BATCH and not self.known.lagging):
                break
        self.hurries = bool(messages) and self.known.lagging
        now = self._clock.monotonic()
        if tidy := now - self._tidied_at >= TIDY_SECONDS:
            self._tidied_at = now
        for number, progress in self.known.progress.items():
            machine = self.known.machine(number)
            progress.timed(machine.log_ms, now)
            progress.end.read_to(progress.next)
            progress.note_wait(now, busy=self.hurries)
            if number not in self._reached_end and progress.current:
                self._reached_end.add(number)
                machine.tidy(machine.log_ms + 1)  # which ids are still in use is not known yet
            elif tidy and (log_ms := progress.log_ms_at(now)) is not None:
                machine.tidy(log_ms - QUIET_MS)
            self.records.reached(number, progress)
        return self.records.faults()
