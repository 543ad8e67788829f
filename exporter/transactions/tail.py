"""The tail of the transaction log: it feeds the state machines, and tracks positions and undecodable records.

``transactions/source/txnlog.py`` decides where to begin and makes the samples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby, takewhile
from operator import methodcaller
from typing import Any

from exporter.core.derived import Derived
from exporter.kafka.log.tail import Polled, TailReader, fault_of, is_end, is_gone
from exporter.model import Clock, Deadline, Fault, Reason
from exporter.transactions.clock import CoordinatorClocks
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.machine.entries import Ended, Entry, Event, Initialised
from exporter.transactions.machine.progress import NO_EPOCH, LogPosition, PartitionProgress
from exporter.transactions.machine.records import TOPIC, UndecodableRecord
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.saved import SavedPartition, kept_document, partition_document, partition_position

LIVE_SECONDS = 10.0
"""Seconds after a read of the log's end in which records beyond it count as new."""
BATCH = 300
"""Messages of one poll: few enough to be in the processor's cache when they are processed."""
MOST_FAULTS = 10
"""Undecodable records that are logged in one read; a counter has all of them."""
MOST_UNREAD = 1000
STUCK_SECONDS = 10.0
"""Seconds without a record of a partition that has more of them, from which this is a fault."""
TIDY_SECONDS = 60.0
"""Seconds between two looks for quiet ids."""
QUIET_MS = 300_000
"""Log time after which an id without a record is put away. Its next record takes it back, and twice the time."""
_COUNTED = (Ended, Initialised)
_partition_of = methodcaller("partition")


class LogTail:
    """Every partition of the log that was begun, and its progress. Not thread-safe: for one worker."""

    def __init__(
        self,
        aggregates: Aggregates,
        open_tail: Callable[[], TailReader],
        clock: Clock,
        ended: Callable[[Ended], None] | None = None,
    ) -> None:
        """``open_tail`` is called with the first partition, ``ended`` with each transaction that ended."""
        self._aggregates = aggregates
        self._open_tail = open_tail
        self._tail: TailReader | None = None
        self._clock = clock
        self._ended = ended
        self.machines: dict[int, StateMachine] = {}
        self.progress: dict[int, PartitionProgress] = {}
        self.undecodable = 0
        self.unread: dict[bytes, Fault] = {}  # keys whose newest record could not be decoded
        self.readable = False
        self.changes = 0
        """How often records were taken: without that, no id changes."""
        self._disconnects = 0
        self.unconfirmed = False
        """Whether a connection was lost since the cluster was last confirmed: nothing is read until it is."""
        self.losses = 0
        """How often a partition lost records."""
        self.hurries = False
        """Whether ``follow`` ended by its deadline, with records that were not read yet."""
        self.revision = 0
        """How often something was read, or an end was requested: without that, neither ``open`` nor ``positions``
        changes.
        """
        self._positions = Derived(self._positions_at)
        self._unseen = Derived(self._find_unseen)
        self._restoring: dict[int, SavedPartition] = {}  # whose saved ids were not reached yet
        self._tidied_at = -math.inf
        self._reached_end: set[int] = set()  # the partitions that were read to an end of theirs
        self.coordinators = CoordinatorClocks()
        self._faults: list[Fault] = []

    def close(self) -> None:
        if self._tail is not None:
            self._tail.close()

    # --- What is known ---

    def machine(self, number: int) -> StateMachine:
        if (found := self.machines.get(number)) is None:
            found = self.machines[number] = StateMachine(number)
        return found

    def entries(self) -> Iterator[Entry]:
        """Every known transactional.id."""
        return chain.from_iterable(machine.known() for machine in self.machines.values())

    def unseen_since(self, record_ms: int) -> Counter[str]:
        """How many ids of each application have no record with this timestamp or a later one."""
        return self._unseen(record_ms, self.changes)

    def _find_unseen(self, record_ms: int, _changes: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for machine in self.machines.values():
            found.update([entry.application for entry in machine.entries.values() if entry.record_ms < record_ms])
            found.update(machine.finished.unseen_since(record_ms))
        return found

    def open(self) -> Iterator[Entry]:
        """The ids with an open transaction, of the partitions that were read to their end."""
        return self._open(current=True)

    def open_unread(self) -> Iterator[Entry]:
        """The ids that had an open transaction when their partition was last read, of the other partitions: it may have
        ended since.
        """
        return self._open(current=False)

    def _open(self, *, current: bool) -> Iterator[Entry]:
        numbers = (number for number, progress in self.progress.items() if progress.current == current)
        return chain.from_iterable(self.machine(number).open.values() for number in numbers)

    @property
    def current(self) -> bool:
        """Return whether every partition was read to the end that it had at the last read of ends."""
        return all(progress.current for progress in self.progress.values())

    @property
    def lagging(self) -> bool:
        """Return whether there are records that can be read and were not."""
        return any(progress.lag and not progress.refused and not progress.gone for progress in self.progress.values())

    @property
    def answering_current(self) -> bool:
        """As ``current``, for the partitions that answered the last request for ends; False when none did."""
        answering = [progress for progress in self.progress.values() if progress.end is not None]
        return bool(answering) and all(progress.current for progress in answering)

    @property
    def refused(self) -> int:
        """How many partitions may not be read."""
        return sum(progress.refused for progress in self.progress.values())

    @property
    def gone(self) -> dict[int, PartitionProgress]:
        """The partitions whose position the log may have lost."""
        return {number: progress for number, progress in self.progress.items() if progress.gone}

    @property
    def lag(self) -> int | None:
        """Offsets that were not read yet; None while the end of a partition is not known."""
        if any(progress.end is None for progress in self.progress.values()):
            return None
        return sum(progress.lag for progress in self.progress.values())

    @property
    def lost(self) -> int:
        return sum(progress.lost for progress in self.progress.values())

    def opened(self) -> Iterator[OpenTransaction]:
        """Yield the transactions of ``open``, each with the seconds by which the clock that began it may be behind that
        of ``coordinators``. A clock that is not known may be the one furthest behind.
        """
        behind = self.coordinators.behind(self._clock.monotonic())
        most = max(behind.values(), default=0.0)
        for entry in self.open():
            opened = entry.view or entry.transaction()
            broker = self._led_in(entry.log_partition, entry.begun_in) if behind else None
            seconds = most if broker is None or not self.coordinators.knows(broker) else behind.get(broker, 0.0)
            yield opened._replace(clock_behind=seconds) if seconds else opened

    def _led_in(self, number: int, epoch: int) -> int | None:
        progress = self.progress.get(number)
        return None if progress is None else progress.led.brokers.get(epoch)

    @property
    def as_of(self) -> float | None:
        """The monotonic instant at which the transactions of ``open`` were open; None where that is not known.

        A coordinator may have ended a transaction whose record waits for replication, so it is the log end that counts.
        """
        reading = [(number, progress) for number, progress in self.progress.items() if progress.current]
        has_open = [progress for number, progress in reading if self.machine(number).open]
        instants = [
            # Before the first answer only the high watermark was requested.
            progress.asked_at if progress.whole_at is None else progress.whole_at
            for progress in has_open or [progress for _, progress in reading]
        ]
        return min((instant for instant in instants if instant is not None), default=None)

    def log_ends_asked(self, log_ends: Mapping[int, int], asked_at: float) -> None:
        """Set the log ends that were requested at ``asked_at``, monotonic."""
        for number, end in log_ends.items():
            self.progress[number].log_end_asked(end, asked_at)

    def with_open(self) -> list[int]:
        """The partitions in which a transaction is open."""
        return [number for number in self.progress if self.machine(number).open]

    def _is_live(self, progress: PartitionProgress, now: float) -> bool:
        """Return whether the next records are newer than a recent read of the log's end."""
        return progress.current and progress.asked_at is not None and now - progress.asked_at <= LIVE_SECONDS

    def trouble(self) -> Fault | None:
        """Why no messages arrive, if that is known."""
        if self.refused:
            detail = f"reading {TOPIC} is refused for {self.refused} partitions: grant READ on Topic:{TOPIC}"
            return Fault(Reason.AUTHORIZATION, detail)
        return None if self._tail is None else self._tail.trouble()

    # --- Positions ---

    def begin(self, partitions: Mapping[int, tuple[PartitionProgress, SavedPartition | None]]) -> None:
        """Read these partitions, too. Raises what ``open_tail`` does."""
        if self._tail is None:
            self._tail = self._open_tail()
        for number, (progress, saved) in partitions.items():
            self.progress[number] = progress
            self._changed()
            if saved is not None and saved.taken_at is not None:
                self._restoring[number] = saved
        self.assign()

    def lose(self, number: int, offset: int) -> int:
        """Note that the log lost the records from ``offset`` on: what only they showed is unknown. Returns how many ids
        that are.
        """
        self._changed()
        self.losses += 1
        kept = self._restoring.get(number)
        if kept is not None and kept.taken_at is not None:
            kept.ids = [(entry, due_ms) for entry, due_ms in kept.ids if entry.offset < offset]
            kept.taken_at = min(kept.taken_at, offset)
        return self.machine(number).lose(offset)

    @property
    def unknown(self) -> dict[int, int]:
        """How many ids have an unknown state, since the log lost their newest record, by its partition."""
        return {number: len(machine.unknown) for number, machine in self.machines.items() if machine.unknown}

    def assign(self) -> None:
        """Assign every partition again at its position: librdkafka reports an end, or a refusal, once for each
        assignment.
        """
        if self._tail is None:
            return
        reading = {number: progress for number, progress in self.progress.items() if not progress.gone}
        self._tail.assign(
            {number: progress.next for number, progress in reading.items()},
            {number: progress.epoch for number, progress in reading.items() if progress.next >= progress.position},
        )

    def confirm(self) -> None:
        """Read on where reading ended, after the brokers were found to be of the same cluster."""
        self._disconnects = 0 if self._tail is None else self._tail.disconnects
        self.unconfirmed = False
        self.assign()

    def stuck(self) -> dict[int, float]:
        """The partitions of which nothing was read for ``STUCK_SECONDS`` although their leader has more, and for how
        many seconds.
        """
        now = self._clock.monotonic()
        waits = {
            number: now - progress.waits_since
            for number, progress in self.progress.items()
            if progress.waits_since is not None
        }
        return {number: seconds for number, seconds in waits.items() if seconds >= STUCK_SECONDS}

    def reconnect(self, servers: str) -> None:
        """Read on by a new client, which asks these brokers who leads."""
        if self._tail is not None:
            self._tail.reconnect(servers)
        self.assign()

    def asked(self, ends: Mapping[int, int], asked_at: float) -> None:
        """Set the high watermarks that were requested at ``asked_at``, monotonic; absent ones gave no answer.

        One below the position is from a broker that is behind. Only the end of a leader epoch shows that the log
        was truncated.
        """
        self.revision += 1
        for number, progress in self.progress.items():
            progress.asked(ends.get(number), asked_at)
        if self.refused:
            self.assign()

    # --- Reading ---

    def follow(self, deadline: Deadline) -> list[Fault]:
        """Read until the deadline or the end. Returns the faults."""
        self._faults = []
        messages: list[Polled] = []
        while self._tail is not None and not self.unconfirmed:
            messages = self._tail.poll(BATCH, min(0.5, max(0.05, deadline.remaining())))
            if self._tail.disconnects != self._disconnects:
                # Some of these messages may be of the next connection.
                self.unconfirmed, messages = True, []
            self._take(messages)
            if deadline.over or not messages or (len(messages) < BATCH and not self.lagging):
                break
        self.hurries = bool(messages) and self.lagging
        now = self._clock.monotonic()
        if tidy := now - self._tidied_at >= TIDY_SECONDS:
            self._tidied_at = now
        for number, progress in self.progress.items():
            machine = self.machine(number)
            progress.timed(machine.log_ms, now)
            progress.note_whole()
            progress.note_wait(now, busy=self.hurries)
            if number not in self._reached_end and progress.current:
                self._reached_end.add(number)
                machine.tidy(machine.log_ms + 1)  # which ids are still in use is not known yet
            elif tidy and (log_ms := progress.log_ms_at(now)) is not None:
                machine.tidy(log_ms - QUIET_MS)
            if number in self._restoring and progress.next >= progress.position:
                self._restore(number, progress.next)
        return self._faults

    def due(self, now: float) -> list[int]:
        """The partitions in which an abort has waited long enough by the clock: only the log's end is to be read."""
        return [number for number, seconds in self._waits(now) if seconds <= 0]

    def due_at(self, now: float) -> float | None:
        """The monotonic instant at which an abort has waited long enough if no record comes; None while none waits."""
        waits = [seconds + 0.001 for _, seconds in self._waits(now)]  # log time is cut to whole milliseconds
        return now + min(waits) if waits else None

    def _waits(self, now: float) -> Iterator[tuple[int, float]]:
        for number, progress in self.progress.items():
            due_ms = self.machine(number).first_due_ms
            if due_ms is not None and (log_ms := progress.log_ms_at(now)) is not None:
                yield number, (due_ms + 1 - log_ms) / 1000

    def reached(self, log_ends: Mapping[int, int], asked_at: float) -> None:
        """Advance log time of the partitions that were read to the log end that was requested at ``asked_at``."""
        for number, end in log_ends.items():
            progress = self.progress[number]
            if progress.next >= end and (log_ms := progress.log_ms_at(asked_at)) is not None:
                self.take(number, self.machine(number).log_time_reached(log_ms))

    def take(self, number: int, events: Iterable[Event]) -> None:
        """Pass on the events of a partition of the log, and whether they are new."""
        self._changed()
        self._pass_on(self.progress.get(number), events)

    def _take(self, messages: list[Polled]) -> None:
        if not messages:
            return
        self._changed()
        received = self._clock.monotonic()
        taken: dict[int, bool] = {}  # whether the first record of the partition was live
        for number, run in groupby(messages, _partition_of):
            progress = self.progress.get(number)
            if progress is None:  # errors of no partition
                for message in run:
                    self._event(message)
                continue
            live = taken[number] if number in taken else self._is_live(progress, received)
            if self._take_confirmed(number, progress, list(run), received, live=live):
                taken[number] = live
        for number in taken:
            self.machine(number).make_room()
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
                progress.gone, progress.wanted = True, epoch
                break
            if epoch not in (None, NO_EPOCH, progress.epoch):
                progress.led.in_epoch(epoch, max(same[0].offset(), progress.next))
            if epoch is not None:
                # Before the records are processed: an election is between two clocks.
                newest = next(message for message in reversed(same) if message.error() is None)
                broker = progress.led.brokers.get(epoch)
                self.coordinators.stamped(broker, newest.timestamp()[1] / 1000, received, live=live)
                self.machine(number).leader_epoch = epoch
            if self._take_run(number, progress, same):
                taken = True
                if progress.next >= progress.position:
                    progress.epoch = NO_EPOCH if epoch is None else epoch
            run = run[len(same) :]
        return taken

    def _take_run(self, number: int, progress: PartitionProgress, run: Iterable[Polled]) -> bool:
        """Take messages of one partition; return whether one of them is a new record."""
        apply, restoring, unread = self.machine(number).apply, self._restoring, self.unread
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
                events = apply(offset, message.timestamp()[1], key, message.value())
            except UndecodableRecord as problem:
                self._undecodable_record(progress, number, offset, key, problem)
            else:
                if events:
                    self._pass_on(progress, events)
                if unread:
                    unread.pop(key, None)
        return taken

    def _pass_on(self, progress: PartitionProgress | None, events: Iterable[Event]) -> None:
        for event in events:
            new = isinstance(event, _COUNTED) and progress is not None and progress.count(event.offset)
            self._aggregates.take(event, new=new)
            if self._ended is not None and isinstance(event, Ended):
                self._ended(event)

    def _changed(self) -> None:
        self.changes += 1
        self.revision += 1

    def _restore(self, number: int, offset: int) -> None:
        """Put the saved ids back before the first record that came after they were saved."""
        saved = self._restoring[number]
        if saved.taken_at is None or offset >= saved.taken_at:
            del self._restoring[number]
            self.take(number, self.machine(number).restore(saved.ids))

    def _event(self, message: Polled) -> None:
        error, number = message.error(), message.partition()
        if error is None:
            return
        progress = self.progress.get(number)
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

    def positions(self) -> Mapping[int, LogPosition]:
        """The position of counting in every partition; the same object while nothing was read or requested."""
        return self._positions(self.revision)

    def _positions_at(self, _revision: int) -> dict[int, LogPosition]:
        return {number: partition_position(known, self.machine(number)) for number, known in self.progress.items()}

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """The state that a restart needs, of every partition."""
        found: dict[str, dict[str, Any]] = {}
        for number, progress in self.progress.items():
            machine = self.machine(number)
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
