"""The transaction log as it is known from the records that were read: its ids, and the progress of each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain

from exporter.core.derived import Derived
from exporter.model import Clock
from exporter.transactions.clock import CoordinatorClocks
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.machine.entries import Entry, Event, Initialised
from exporter.transactions.machine.progress import LogPosition, PartitionProgress
from exporter.transactions.machine.state_machine import StateMachine
from exporter.transactions.open_view import OpenView, scans_of
from exporter.transactions.saved import SavedClocks, partition_position
from exporter.transactions.transaction import Transaction

STUCK_SECONDS = 10.0
"""Seconds without a record of a partition that has more of them, from which this is a fault."""
_COUNTED = (Transaction, Initialised)


class KnownLog:
    """Every partition of the log that was begun. Not thread-safe: for one worker."""

    def __init__(self, aggregates: Aggregates, clock: Clock) -> None:
        self._aggregates = aggregates
        self._clock = clock
        self.machines: dict[int, StateMachine] = {}
        self.progress: dict[int, PartitionProgress] = {}
        self.coordinators = CoordinatorClocks()
        self.scans_late: Mapping[int, float] = {}
        """By broker: see ``OpenTransaction.scan_late``."""
        self.changes = 0
        """How often records were taken: without that, no id changes."""
        self.revision = 0
        """How often something was read, or an end was requested: without that, ``positions`` do not change."""
        self.losses = 0
        """How often a partition lost records."""
        self._view = OpenView()
        self._positions = Derived(self._positions_at)
        self._unseen = Derived(self._find_unseen)

    # --- Events ---

    def changed(self) -> None:
        """Note that records were taken, or that a partition was begun."""
        self.changes += 1
        self.revision += 1

    def take(self, number: int, events: Iterable[Event]) -> None:
        """Count the events of a partition of the log that are new, and pass on all of them."""
        self.changed()
        self.count(self.progress.get(number), events)

    def count(self, progress: PartitionProgress | None, events: Iterable[Event]) -> None:
        """As ``take``, for the events of one record of many: ``changed`` is called once for all of them."""
        for event in events:
            new = isinstance(event, _COUNTED) and progress is not None and progress.count(event.offset)
            self._aggregates.take(event, new=new)

    def lose(self, number: int, offset: int) -> int:
        """Note that the log lost the records from ``offset`` on: what only they showed is unknown. Returns how many ids
        that are.
        """
        self.changed()
        self.losses += 1
        return self.machine(number).lose(offset)

    def asked(self, ends: Mapping[int, int], asked_at: float) -> None:
        """Set the high watermarks that were requested at ``asked_at``, monotonic; absent ones gave no answer.

        One below the position is from a broker that is behind. Only the end of a leader epoch shows that the log
        was truncated.
        """
        self.revision += 1
        for number, progress in self.progress.items():
            progress.asked(ends.get(number), asked_at)

    def log_ends_asked(self, log_ends: Mapping[int, int], asked_at: float) -> None:
        """Set the log ends that were requested at ``asked_at``, monotonic."""
        for number, end in log_ends.items():
            self.progress[number].end.log_end = end, asked_at

    def reached(self, log_ends: Mapping[int, int], asked_at: float) -> None:
        """Advance log time of the partitions that were read to the log end that was requested at ``asked_at``."""
        for number, end in log_ends.items():
            progress = self.progress[number]
            if progress.next >= end and (log_ms := progress.log_ms_at(asked_at)) is not None:
                self.take(number, self.machine(number).log_time_reached(log_ms))

    # --- The ids ---

    def machine(self, number: int) -> StateMachine:
        if (found := self.machines.get(number)) is None:
            found = self.machines[number] = StateMachine(number, self._aggregates.appeared)
            found.touched = {}
        return found

    def entries(self) -> Iterator[Entry]:
        """Every known transactional.id."""
        return chain.from_iterable(machine.known() for machine in self.machines.values())

    def entries_of(self, applications: Container[str]) -> Iterator[Entry]:
        """Every known transactional.id of these applications."""
        return chain.from_iterable(machine.known_of(applications) for machine in self.machines.values())

    def unseen_since(self, record_ms: int) -> Counter[str]:
        """How many ids of each application have no record with this timestamp or a later one."""
        return self._unseen(record_ms, self.changes)

    def _find_unseen(self, record_ms: int, _changes: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for machine in self.machines.values():
            found.update([entry.application for entry in machine.entries.values() if entry.record_ms < record_ms])
            found.update(machine.finished.unseen_since(record_ms))
        return found

    def open_unread(self) -> Iterator[Entry]:
        """The ids that had an open transaction when their partition was last read, of the partitions that were not read
        to their end: it may have ended since.
        """
        numbers = (number for number, progress in self.progress.items() if not progress.current)
        return chain.from_iterable(self.machine(number).open.values() for number in numbers)

    def with_open(self) -> list[int]:
        """The partitions in which a transaction is open."""
        return [number for number in self.progress if self.machine(number).open]

    def opened(self) -> tuple[OpenTransaction, ...]:
        """The open transactions of the partitions that were read to their end, each with the clock of the coordinator
        that has it now; the same tuple while they do not change.
        """
        monotonic, wall = self._clock.monotonic(), self._clock.wall()
        scans = scans_of(self.coordinators, self.progress, self.scans_late, monotonic, wall)
        return self._view.read(self.machines, self.progress, scans)

    @property
    def unknown(self) -> dict[int, int]:
        """How many ids have an unknown state, since the log lost their newest record, by its partition."""
        return {number: len(machine.unknown) for number, machine in self.machines.items() if machine.unknown}

    # --- The partitions ---

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
        answering = [progress for progress in self.progress.values() if progress.end.high_watermark is not None]
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
        if any(progress.end.high_watermark is None for progress in self.progress.values()):
            return None
        return sum(progress.lag for progress in self.progress.values())

    @property
    def lost(self) -> int:
        return sum(progress.lost for progress in self.progress.values())

    @property
    def as_of(self) -> float | None:
        """The monotonic instant at which the transactions of ``opened`` were open; None where that is not known.

        A coordinator may have ended a transaction whose record waits for replication, so it is the log end that counts.
        """
        reading = [(number, progress) for number, progress in self.progress.items() if progress.current]
        has_open = [progress for number, progress in reading if self.machine(number).open]
        instants = [
            # Before the first answer only the high watermark was requested.
            progress.end.asked_at if progress.end.whole_at is None else progress.end.whole_at
            for progress in has_open or [progress for _, progress in reading]
        ]
        return min((instant for instant in instants if instant is not None), default=None)

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

    def due(self, now: float) -> list[int]:
        """The partitions in which an abort has waited long enough by the clock: only the log's end is to be read."""
        return [number for number, seconds in self._waits(now) if seconds <= 0]

    def due_at(self, now: float) -> float | None:
        """The monotonic instant at which an abort has waited long enough if no record comes; None while none waits."""
        waits = [seconds + 0.001 for _, seconds in self._waits(now)]  # log time is cut to whole milliseconds
        return now + min(waits) if waits else None

    def _waits(self, now: float) -> Iterator[tuple[int, float]]:
        for number, progress in self.progress.items():
            machine = self.machines.get(number)
            due_ms = None if machine is None else machine.first_due_ms
            if due_ms is not None and (log_ms := progress.log_ms_at(now)) is not None:
                yield number, (due_ms + 1 - log_ms) / 1000

    def positions(self) -> Mapping[int, LogPosition]:
        """The position of counting in every partition; the same object while nothing was read or requested."""
        return self._positions(self.revision)

    def _positions_at(self, _revision: int) -> dict[int, LogPosition]:
        return {number: partition_position(known, self.machine(number)) for number, known in self.progress.items()}

    def clocks(self) -> SavedClocks:
        """What is known of the brokers' clocks; in tenths of a second, so that it seldom changes."""
        known = {broker: round(ahead, 1) for broker, ahead in self.coordinators.known.items()}
        led = {number: tuple(progress.led.brokers.items()) for number, progress in self.progress.items()}
        return SavedClocks(self._clock.boot, known, led)

    def restore_clocks(self, saved: SavedClocks | None) -> None:
        """Go on from what an earlier process knew on the same boot."""
        if saved is not None and saved.boot and saved.boot == self._clock.boot:
            self.coordinators.restore(saved.known, self._clock.monotonic())
