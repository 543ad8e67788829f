"""Messages of librdkafka into the state machines, in the order of the log; and records that cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile
from operator import methodcaller
from typing import Any

from exporter.kafka.log.tail import Polled, fault_of, is_end, is_gone
from exporter.model import Clock, Fault, Reason
from exporter.transactions.known_log import KnownLog
from exporter.transactions.machine.progress import NO_EPOCH, PartitionProgress
from exporter.transactions.machine.records import TOPIC, UndecodableRecord
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.saved import SavedPartition, kept_document, partition_document, partition_position

LIVE_SECONDS = 10.0
"""Seconds after a read of the log's end in which records beyond it count as new."""
MOST_FAULTS = 10
"""Undecodable records that are logged in one read; a counter has all of them."""
MOST_UNREAD = 1000
_partition_of = methodcaller("partition")


class LogRecords:
    """Takes the messages of the partitions that ``log`` has begun. Not thread-safe: for one worker."""

    def __init__(self, log: KnownLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self.undecodable = 0
        self.unread: dict[bytes, Fault] = {}  # keys whose newest record could not be decoded
        self.readable = False
        self._restoring: dict[int, SavedPartition] = {}  # whose saved ids were not reached yet
        self._faults: list[Fault] = []

    def faults(self) -> list[Fault]:
        """The faults since the last call."""
        found, self._faults = self._faults, []
        return found

    def take(self, messages: Sequence[Polled]) -> None:
        """Process messages, in the order of the log."""
        if not messages:
            return
        self._log.changed()
        received = self._clock.monotonic()
        taken: dict[int, bool] = {}  # whether the first record of the partition was live
        for number, run in groupby(messages, _partition_of):
            progress = self._log.progress.get(number)
            if progress is None:  # errors of no partition
                for message in run:
                    self._event(message)
                continue
            live = taken[number] if number in taken else _is_live(progress, received)
            if self._take_confirmed(number, progress, list(run), received, live=live):
                taken[number] = live
        for number in taken:
            self._log.machine(number).make_room()
            self.readable = True

    def _take_confirmed(
        self, number: int, progress: PartitionProgress, run: list[Polled], received: float, *, live: bool
    ) -> bool:
        """Take messages of one partition up to the first whose leader may lack some of what was read. The partition is
        read on once that leader was asked. Returns whether there is a new record.
        """
        taken = False
        while run and not progress.gone:
            same = _of_one_epoch(run)
            epoch = _epoch_of(same[0])
            if epoch is not None and same[-1].offset() >= progress.next and not progress.continues(epoch):
                progress.gone, progress.led.wanted = True, epoch
                break
            if epoch not in (None, NO_EPOCH, progress.epoch):
                progress.led.in_epoch(epoch, max(same[0].offset(), progress.next))
            if epoch is not None:
                # Before the records are processed: an election is between two clocks.
                newest = next(message for message in reversed(same) if message.error() is None)
                broker = progress.led.brokers.get(epoch)
                self._log.coordinators.stamped(broker, newest.timestamp()[1] / 1000, received, live=live)
                machine = self._log.machine(number)
                machine.ahead_ms = self._ahead_ms(machine, broker, same, received)
            if self._take_run(number, progress, same):
                taken = True
                if progress.next >= progress.position:
                    progress.epoch = NO_EPOCH if epoch is None else epoch
            run = run[len(same) :]
        return taken

    def _ahead_ms(self, machine: StateMachine, broker: int | None, run: Sequence[Polled], received: float) -> int:
        """By how much the clock that stamped records of one leader epoch is ahead of the common one.

        Where that is not known, they are neither from after they came nor from before the record before them.
        """
        coordinators, wall = self._log.coordinators, self._clock.wall()
        ahead = coordinators.ahead(broker, received, wall)
        if ahead is not None:
            return round(1000 * ahead)
        stamps = [message.timestamp()[1] for message in run if message.error() is None]
        seen = received - (coordinators.time(received, wall).ahead or 0.0)
        ahead_ms = max(0, stamps[-1] - round(1000 * seen))
        return ahead_ms if machine.log_ms < 0 else min(ahead_ms, stamps[0] - machine.log_ms)

    def _take_run(self, number: int, progress: PartitionProgress, run: Iterable[Polled]) -> bool:
        """Take messages of one partition; return whether one of them is a new record."""
        machine, restoring, unread = self._log.machine(number), self._restoring, self.unread
        apply, ahead_ms = machine.apply, machine.ahead_ms
        taken = False
        for message in run:
            key = message.key()
            if key is None:  # an event has none, and a record of Kafka's always has one
                if message.error() is not None:
                    self._event(message)
                    continue
                key = b""
            offset = message.offset()
            if restoring and number in restoring:
                self._restore(number, offset)
            if offset == progress.next:
                progress.next = offset + 1
            elif offset > progress.next:
                progress.read(offset)
            else:
                continue
            taken = True
            try:
                events = apply(offset, message.timestamp()[1] - ahead_ms, key, message.value())
            except UndecodableRecord as problem:
                self._undecodable_record(progress, number, offset, key, problem)
            else:
                if events:
                    self._log.count(progress, events)
                if unread:
                    unread.pop(key, None)
        return taken

    def _event(self, message: Polled) -> None:
        error, number = message.error(), message.partition()
        if error is None:
            return
        progress = self._log.progress.get(number)
        if progress is not None and is_end(error):
            self.readable = True
            progress.reached_end(message.offset())
            return
        if progress is not None and is_gone(error):
            progress.gone = True
            return
        fault = fault_of(error, TOPIC)
        if progress is not None and fault.reason is Reason.AUTHORIZATION:
            progress.refused = True
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
        # Beyond the limit, one key that is never read represents all.
        self.unread[key if len(self.unread) < MOST_UNREAD else b""] = fault

    # --- Over a restart ---

    def restore_at(self, number: int, saved: SavedPartition) -> None:
        """Put the ids of the last process back when the offset is reached at which they were saved."""
        if saved.taken_at is not None:
            self._restoring[number] = saved

    def reached(self, number: int, progress: PartitionProgress) -> None:
        """Note that a partition was read for now: no record may come at the offset at which its ids were saved."""
        if number in self._restoring and progress.next >= progress.position:
            self._restore(number, progress.next)

    def _restore(self, number: int, offset: int) -> None:
        """Put the saved ids back before the first record that came after they were saved."""
        saved = self._restoring[number]
        if saved.taken_at is None or offset >= saved.taken_at:
            del self._restoring[number]
            self._log.machine(number).restore(saved.ids)
            self._log.changed()

    def lose(self, number: int, offset: int) -> int:
        """Note that the log lost the records from ``offset`` on: what only they showed is unknown. Returns how many ids
        that are.
        """
        kept = self._restoring.get(number)
        if kept is not None and kept.taken_at is not None:
            kept.ids = [entry for entry in kept.ids if entry.offset < offset]
            kept.taken_at = min(kept.taken_at, offset)
        return self._log.lose(number, offset)

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """The state that a restart needs, of every partition."""
        found: dict[str, dict[str, Any]] = {}
        for number, progress in self._log.progress.items():
            machine = self._log.machine(number)
            kept = self._restoring.get(number)
            found[str(number)] = (
                partition_document(progress, machine)
                if kept is None
                else kept_document(kept, partition_position(progress, machine))
            )
        return found


def _of_one_epoch(run: list[Polled]) -> list[Polled]:
    """The first messages of a run that have the same leader epoch. Records are in the order of epochs, so that two ends
    of one epoch have it in between; errors, which have none, go with what is before them.
    """
    first = _epoch_of(run[0])
    if first is not None and first == _epoch_of(run[-1]):
        return run
    return [run[0], *takewhile(lambda message: _epoch_of(message) in (None, first), run[1:])]


def _epoch_of(message: Polled) -> int | None:
    """The leader epoch of a record, NO_EPOCH where it has none; None for an error."""
    if message.error() is not None:
        return None
    epoch = message.leader_epoch()
    return NO_EPOCH if epoch is None else epoch


def _is_live(progress: PartitionProgress, now: float) -> bool:
    """Return whether the next records are newer than a recent read of the log's end."""
    asked_at = progress.end.asked_at
    return progress.current and asked_at is not None and now - asked_at <= LIVE_SECONDS
