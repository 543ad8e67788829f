"""Following the transaction log: a tail feeds the state machines, and what was read is remembered, or undecodable.

``sources/txnlog.py`` decides where to begin and says what came of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from exporter.kafka.log.tail import Polled, TailReader, fault_of, is_end
from exporter.model import Clock, Deadline, Fault, Reason
from exporter.transactions.aggregates import Aggregates
from exporter.transactions.entries import Entry
from exporter.transactions.events import Event
from exporter.transactions.progress import PartitionProgress
from exporter.transactions.records import TOPIC, UndecodableRecord
from exporter.transactions.state_machine import StateMachine

log = logging.getLogger(__name__)

BATCH = 300
"""Messages taken at once: few enough to be still in the processor's cache when their turn comes."""
MOST_FAULTS = 10
"""Undecodable records that are named in one read; a counter has them all."""
MOST_UNREAD = 1000
HOUR_MS = 3_600_000
BEGAN_SECONDS = 5.0
OPEN_PER_SECOND = 500
"""Open transactions that are looked through a second, for where to begin after a restart."""


class LogTail:
    """Every partition of the log that was begun, and its progress. Belongs to one worker, as its tail does."""

    def __init__(self, aggregates: Aggregates, tail: TailReader, clock: Clock) -> None:
        self._aggregates = aggregates
        self.machines: dict[int, StateMachine] = {}
        self._tail = tail
        self._clock = clock
        self.progress: dict[int, PartitionProgress] = {}
        self.undecodable = 0
        self.unread: dict[bytes, Fault] = {}  # keys whose newest record could not be decoded
        self.readable = False
        self._faults: list[Fault] = []
        self._began: dict[int, int] = {}
        self._began_until = float("-inf")

    def close(self) -> None:
        self._tail.close()

    def entries(self) -> Iterator[Entry]:
        """Every known transactional.id."""
        return chain.from_iterable(machine.entries.values() for machine in self.machines.values())

    def open(self) -> Iterator[Entry]:
        """Those with an open transaction."""
        return chain.from_iterable(machine.open.values() for machine in self.machines.values())

    def machine(self, number: int) -> StateMachine:
        if (found := self.machines.get(number)) is None:
            found = self.machines[number] = StateMachine(number)
        return found

    def take(self, number: int, events: Iterable[Event]) -> None:
        """Hand on what happened in a partition of the log, and whether it is to be counted."""
        for event in events:
            offset = getattr(event, "offset", -1)
            self._aggregates.take(event, new=offset >= 0 and self.counted(number, offset))

    def offsets_since(self, partitions: Iterable[int], since: float, deadline: Deadline) -> dict[int, int | None]:
        """As ``Tail.offsets_since``."""
        return self._tail.offsets_since(partitions, since, deadline)

    # --- Where it stands ---

    def begin(self, partitions: Mapping[int, PartitionProgress]) -> None:
        """Read these partitions, too."""
        self.progress.update(partitions)
        self.assign()

    def assign(self) -> None:
        """Read on from where every partition stands: librdkafka tells an end, or a refusal, once an assignment."""
        self._tail.assign({number: progress.next for number, progress in self.progress.items()})

    def asked(self, ends: Mapping[int, int], asked_at: float) -> None:
        """Take in the high watermarks that were asked for at ``asked_at``, monotonic; absent ones gave no answer."""
        for number, progress in self.progress.items():
            end = ends.get(number)
            if end is not None and end < progress.next and progress.ended_at is not None:
                log.warning("%s-%s ends at %s, before %s: it was truncated", TOPIC, number, end, progress.next)
                progress.truncated(end)
                self.assign()
            progress.asked(end, asked_at)
        if self.refused:
            self.assign()

    def settles_by(self, now: float) -> bool:
        """Whether an abort has waited long enough by the clock, and only a look at the log's end is missing."""
        for number, progress in self.progress.items():
            due_ms = self.machine(number).first_due_ms
            if due_ms is not None and (log_ms := progress.log_ms_at(now)) is not None and log_ms > due_ms:
                return True
        return False

    @property
    def refused(self) -> int:
        """How many partitions may not be read."""
        return sum(progress.refused for progress in self.progress.values())

    @property
    def caught_up(self) -> bool:
        return all(progress.ended_at is not None for progress in self.progress.values())

    @property
    def lag(self) -> int:
        return sum(progress.lag for progress in self.progress.values())

    @property
    def lost(self) -> int:
        return sum(progress.lost for progress in self.progress.values())

    # --- Reading ---

    def follow(self, deadline: Deadline) -> list[Fault]:
        """Read what is there until the deadline; a shorter batch than asked for means that all was read.

        Gives back what went wrong on the way.
        """
        self._faults = []
        while True:
            messages = self._tail.poll(BATCH, min(0.5, max(0.05, deadline.remaining())))
            self._take(messages)
            if len(messages) < BATCH or deadline.over:
                break
        for number, progress in self.progress.items():
            if (log_ms := progress.proven_log_ms()) is not None:
                self.take(number, self.machine(number).log_time_reached(log_ms))
        return self._faults

    def trouble(self) -> Fault | None:
        """Why nothing comes, if that is known."""
        if self.refused:
            detail = f"reading {TOPIC} is refused for {self.refused} partitions: grant READ on Topic:{TOPIC}"
            return Fault(Reason.AUTHORIZATION, detail)
        return self._tail.trouble()

    def _take(self, messages: list[Polled]) -> None:
        machines = {number: self.machine(number) for number in self.progress}
        progresses = self.progress
        unread = self.unread
        for message in messages:
            if message.error() is not None:
                self._event(message)
                continue
            number = message.partition()
            offset = message.offset()
            progress = progresses[number]
            if offset == progress.next:
                progress.next = offset + 1
            else:
                progress.read(offset)
            key = message.key() or b""
            try:
                events = machines[number].apply(offset, message.timestamp()[1], key, message.value())
            except UndecodableRecord as problem:
                self._undecodable_record(progress, number, offset, key, problem)
            else:
                if events:
                    self.take(number, events)
                if unread:
                    unread.pop(key, None)
            self.readable = True

    def _event(self, message: Polled) -> None:
        error, number = message.error(), message.partition()
        if error is None:
            return
        progress = self.progress.get(number)
        fault = fault_of(error, TOPIC)
        if progress is not None and is_end(error):
            self.readable = True
            progress.reached_end(message.offset(), self._clock.monotonic(), self.machine(number).log_ms)
        elif progress is not None and fault.reason is Reason.AUTHORIZATION:
            progress.refused = True
            progress.ended_at = None
        else:
            self._faults.append(fault)

    def _undecodable_record(
        self, progress: PartitionProgress, number: int, offset: int, key: bytes, problem: UndecodableRecord
    ) -> None:
        if offset >= progress.position:
            self.undecodable += 1
        reason = Reason.UNSUPPORTED if problem.newer else Reason.MALFORMED
        advice = ": upgrade kafka-eos-exporter" if problem.newer else ""
        fault = Fault(reason, f"{TOPIC}-{number} offset {offset} has {problem}{advice}")
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(fault)
        # Beyond the most, one that is never read stands for all.
        self.unread[key if len(self.unread) < MOST_UNREAD else b""] = fault

    # --- Over a restart ---

    def counted(self, number: int, offset: int) -> bool:
        """Whether what finished at this offset is to be counted; as ``PartitionProgress.count``."""
        progress = self.progress.get(number)
        return progress is not None and progress.count(offset)

    def memory(self) -> dict[str, dict[str, Any]]:
        """What ``log_progress.begin`` wants to know of every partition after a restart."""
        # With thousands open, looking through all of them is not for every read.
        if (now := self._clock.monotonic()) >= self._began_until:
            self._began = self._first_opened()
            self._began_until = now + min(BEGAN_SECONDS, sum(1 for _ in self.open()) / OPEN_PER_SECOND)
        began = self._began
        partitions: dict[str, dict[str, Any]] = {}
        for number, progress in self.progress.items():
            unsettled = {each.transaction.offset for each in self.machine(number).unsettled}
            unsettled = {offset for offset in unsettled if progress.counts(offset)}
            if progress.next < progress.position:  # still reading what is only dated: the rest may come
                unsettled |= progress.unsettled
            kept = {"next": max(progress.next, progress.position), "unsettled": sorted(unsettled)}
            partitions[str(number)] = kept | ({"open": began[number]} if number in began else {})
        return partitions

    def _first_opened(self) -> dict[int, int]:
        """From where on to read each partition to see how the open transactions of the last hour began."""
        first: dict[int, int] = {}
        for entry in self.open():
            number = entry.log_partition
            recent = entry.start_ms >= self.machine(number).log_ms - HOUR_MS
            if recent and entry.begun_offset >= 0:
                first[number] = min(first.get(number, entry.begun_offset), entry.begun_offset)
        return first
