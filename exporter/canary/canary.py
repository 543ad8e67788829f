"""The canary: one turn after the other, within its budget of transactions.

It goes to the partitions of the transaction log in turn, with an id for each, and counts what it did, as samples.
"""

from __future__ import annotations

import itertools
import logging
import math
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from exporter import catalogue
from exporter.canary.clients import CanaryAdmin, ClientError, CommittedReader, TurnProducer
from exporter.canary.turn import Failure, Turn, TurnPlan, TurnResult
from exporter.cluster import Cluster
from exporter.core.histogram import Histogram
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.model import Deadline, Sample, Snapshot
from exporter.words import CanaryOutcome, CanaryPhase

HIDDEN_PLACES = 10
"""Ids that are used in turn where the transaction log is hidden: which coordinator each has is not known then."""
UNKNOWN = "unknown"
RETRY_EVERY = 2
"""Every so many turns is one of a partition that failed, while there are some."""


class LogPlace(NamedTuple):
    """A partition of the transaction log, an id that it coordinates, and its leader as a label value."""

    partition: int
    transactional_id: str
    coordinator: str


def places_of(prefix: str, leaders: Mapping[int, int | None]) -> tuple[LogPlace, ...]:
    """One place for each partition of the log; ``leaders`` by partition, empty where the log is hidden.

    The coordinator of an id leads partition ``hash(id) % partitions`` (TransactionStateManager.partitionFor).
    """
    if not leaders:
        return tuple(LogPlace(number, f"{prefix}-{number}", UNKNOWN) for number in range(HIDDEN_PLACES))
    found: dict[int, str] = {}
    for number in itertools.count():
        name = f"{prefix}-{number}"
        found.setdefault(coordinator_partition(name, len(leaders)), name)
        if len(found) == len(leaders):
            break
    return tuple(
        LogPlace(number, found[number], UNKNOWN if leaders[number] is None else str(leaders[number]))
        for number in sorted(leaders)
    )


class Rotation:
    """The order of turns: one partition after the other, those that failed twice as often. For one thread."""

    def __init__(self) -> None:
        self._turn = 0
        self._next = 0
        self._next_failed = 0
        self.cycles = 0

    def choose(self, places: tuple[LogPlace, ...], failing: Collection[int]) -> LogPlace:
        """The next place. ``cycles`` is how often all of them had their turn."""
        self._turn += 1
        again = [candidate for candidate in places if candidate.partition in failing]
        if again and len(again) < len(places) and self._turn % RETRY_EVERY == 0:
            self._next_failed += 1
            return again[self._next_failed % len(again)]
        place = places[self._next % len(places)]
        self._next += 1
        self.cycles, self._next = self.cycles + self._next // len(places), self._next % len(places)
        return place


NO_PARTITION = -1
"""Label of all partitions while the cluster has not been reached once."""
MOST_ERRORS = 200
"""Pairs of coordinator, phase and error: librdkafka's errors are a closed list, brokers come and go."""


class CanaryTally:
    """Counts since the start, by coordinator. For use by one thread."""

    def __init__(self, started: float) -> None:
        """``started`` is Unix seconds."""
        self._outcomes: Counter[tuple[str, CanaryOutcome]] = Counter()
        self._failures: Counter[tuple[str, CanaryPhase, str]] = Counter()
        self._phases: dict[tuple[str, CanaryPhase], _PhaseTimes] = {}
        self._failing: dict[int, str] = {}
        self._last_success = started

    @property
    def failing(self) -> frozenset[int]:
        """Partitions of the transaction log whose last turn failed."""
        return frozenset(self._failing)

    @property
    def exit_code(self) -> int:
        """0 where every turn was right, 1 where a phase failed, 2 where no transaction was made."""
        if not sum(self._outcomes.values()):
            return 2
        return 1 if self._failures else 0

    def table(self) -> list[tuple[str, str, int, str, str, int, str]]:
        """Coordinator, phase, number of times, mean, slowest, number of failures and errors, a row for each phase."""
        failed: dict[tuple[str, CanaryPhase], Counter[str]] = {}
        for (coordinator, phase, error), count in self._failures.items():
            failed.setdefault((coordinator, phase), Counter())[error] += count
        order, rows = list(CanaryPhase), []
        for key in sorted({*self._phases, *failed}, key=lambda key: (key[0], order.index(key[1]))):
            times, mean, slowest = self._phases.get(key, _PhaseTimes()).summary()
            errors = failed.get(key, Counter())
            rows.append((key[0], str(key[1]), times, mean, slowest, errors.total(), ", ".join(sorted(errors))))
        return rows

    def add(self, partition: int, coordinator: str, result: TurnResult, wall: float) -> None:
        """Count a turn of one partition of the transaction log."""
        for outcome in result.outcomes:
            self._outcomes[coordinator, outcome] += 1
        for phase, seconds in result.phases:
            self._phases.setdefault((coordinator, phase), _PhaseTimes()).add(seconds)
        if partition != NO_PARTITION:
            self._failing.pop(NO_PARTITION, None)
        if result.failure is None:
            self._last_success = wall
            self._failing.pop(partition, None)
            return
        self._failing[partition] = coordinator
        key = (coordinator, result.failure.phase, result.failure.error)
        if key in self._failures or len(self._failures) < MOST_ERRORS:
            self._failures[key] += 1

    def samples(self, cluster: str, coordinators: frozenset[str]) -> Iterator[Sample]:
        """All samples. ``coordinators`` are those of now: each has its number of failing partitions, also 0."""
        for coordinator in sorted({coordinator for coordinator, _ in self._outcomes} | coordinators):
            for outcome in CanaryOutcome:
                count = float(self._outcomes[coordinator, outcome])
                yield catalogue.CANARY_TRANSACTIONS_TOTAL(count, cluster, coordinator, str(outcome))
        for (coordinator, phase, error), failures in sorted(self._failures.items()):
            yield catalogue.CANARY_FAILURES_TOTAL(float(failures), cluster, coordinator, str(phase), error)
        for (coordinator, phase), seen in sorted(self._phases.items()):
            yield catalogue.CANARY_PHASE_SECONDS(seen.histogram.value(), cluster, coordinator, str(phase))
        failing = Counter(self._failing.values())
        for coordinator in sorted(coordinators | failing.keys()):
            yield catalogue.CANARY_FAILING_PARTITIONS(float(failing[coordinator]), cluster, coordinator)
        yield catalogue.CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS(self._last_success, cluster)


def format_milliseconds(seconds: float) -> str:
    """``12 ms``, ``2.5 s``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"


class _PhaseTimes:
    """The durations of one phase."""

    __slots__ = ("histogram", "slowest")

    def __init__(self) -> None:
        self.histogram = Histogram(catalogue.CANARY_PHASE_SECONDS)
        self.slowest = 0.0

    def add(self, seconds: float) -> None:
        self.histogram.observe_seconds(seconds)
        self.slowest = max(self.slowest, seconds)

    def summary(self) -> tuple[int, str, str]:
        """Number of observations, their mean, and the slowest."""
        seen = self.histogram.value()
        if not seen.count or seen.total is None:
            return 0, "", ""
        return int(seen.count), format_milliseconds(seen.total / seen.count), format_milliseconds(self.slowest)


log = logging.getLogger(__name__)

RETENTION_SECONDS = 3600.0
"""Of the topic that the canary makes: it keeps no more than an hour of its records."""
METADATA_SECONDS = 15.0
"""Greatest age of the leaders of the transaction log, in seconds."""
ABORT_EVERY = 2
FENCE_EVERY = 10
"""Turns: every second one aborts, every tenth one fences. The brokers count each fence as a refused request."""


class CanarySettings(NamedTuple):
    """``interval`` is the least time between two transactions, ``timeout`` that of each phase, in seconds.

    ``thorough`` aborts and fences in every turn.
    """

    topic: str = catalogue.CANARY
    interval: float = 1.0
    timeout: float = 10.0
    thorough: bool = False


class Canary:
    """Runs turns until it is stopped, and publishes what it counted after each of them."""

    def __init__(self, cluster: Cluster, settings: CanarySettings, publish: Callable[[Snapshot], None]) -> None:
        self._cluster, self._settings, self._publish = cluster, settings, publish
        self._tally = CanaryTally(cluster.clock.wall())
        self._rotation = Rotation()
        self._over = threading.Event()
        self._places: tuple[LogPlace, ...] = ()
        self._read_at = -math.inf
        self._began_at = -math.inf
        self._data_partitions = 0
        self._turns = 0
        self._run = secrets.token_hex(4)

    @property
    def tally(self) -> CanaryTally:
        return self._tally

    def stop(self) -> None:
        """End after the turn in progress. May be called on any thread."""
        self._over.set()

    def run(self, cycles: float = math.inf) -> None:
        """Run turns until stopped, or until every partition of the log had so many.

        A cluster that does not answer is a failed turn; with a number of cycles it ends the run.
        """
        reader: CommittedReader | None = None
        try:
            while not self._over.is_set() and self._rotation.cycles < cycles:
                place = LogPlace(NO_PARTITION, "", UNKNOWN)
                try:
                    self._prepare()
                    if reader is None:
                        reader = CommittedReader(
                            self._cluster.properties, self._settings.topic, catalogue.CANARY, self._settings.timeout
                        )
                    cycle = self._rotation.cycles
                    place = self._rotation.choose(self._places, self._tally.failing)
                    result = self._turn(place, reader, cycle)
                except ClientError as error:
                    result = TurnResult((), (), Failure(CanaryPhase.INIT, error.code, str(error)))
                except AskError as error:
                    fault = error.fault
                    result = TurnResult((), (), Failure(CanaryPhase.INIT, str(fault.reason), fault.detail))
                self._note(place, result)
                if place.partition == NO_PARTITION and not math.isinf(cycles):
                    return
                if result.failure is not None:
                    self._over.wait(self._settings.interval)  # also where no transaction was begun
        finally:
            if reader is not None:
                reader.close()

    def _prepare(self) -> None:
        """Read where the coordinators are, and make the topic. Raises AskError, ClientError.

        When that fails later on, the last known places are used: each fails, or works, by itself.
        """
        now = self._cluster.clock.monotonic()
        if now - self._read_at < METADATA_SECONDS and self._places:
            return
        try:
            self._read_cluster()
        except (AskError, ClientError):
            if not self._places:
                raise
        self._read_at = now

    def _read_cluster(self) -> None:
        metadata = self._cluster.metadata(Deadline.after(self._settings.timeout), [TRANSACTION_STATE])
        log_partitions = metadata.topics.get(TRANSACTION_STATE, {})
        self._places = places_of(
            catalogue.CANARY, {partition: found.leader for partition, found in log_partitions.items()}
        )
        admin = CanaryAdmin(self._cluster.properties, self._settings.timeout)
        self._data_partitions = admin.partitions(self._settings.topic)
        if not self._data_partitions:
            self._data_partitions = max(2, len(metadata.brokers))
            admin.create(self._settings.topic, self._data_partitions, RETENTION_SECONDS)
            log.info("made the topic %s with %d partitions", self._settings.topic, self._data_partitions)

    def _turn(self, place: LogPlace, reader: CommittedReader, cycle: int) -> TurnResult:
        self._turns += 1
        first = self._turns % self._data_partitions
        plan = TurnPlan(
            place.transactional_id,
            self._settings.topic,
            tuple(dict.fromkeys((first, (first + 1) % self._data_partitions))),
            f"{self._run}-{self._turns}",
            # The cycle is added so that each partition has its turn of both.
            aborts=self._settings.thorough or (self._turns + cycle) % ABORT_EVERY == 0,
            fences=self._settings.thorough or (self._turns + cycle) % FENCE_EVERY == 0,
        )
        return Turn(plan, reader, self._producer, self._pause, self._settings.timeout, self._cluster.clock).run()

    def _producer(self, transactional_id: str) -> TurnProducer:
        return TurnProducer(self._cluster.properties, transactional_id, self._settings.timeout)

    def _pause(self) -> None:
        """Wait until the next transaction may begin."""
        self._over.wait(self._began_at + self._settings.interval - self._cluster.clock.monotonic())
        self._began_at = self._cluster.clock.monotonic()

    def _note(self, place: LogPlace, result: TurnResult) -> None:
        clock = self._cluster.clock
        self._tally.add(place.partition, place.coordinator, result, clock.wall())
        if result.failure is not None:
            phase, error, text = result.failure
            fields = {
                "coordinator": place.coordinator,
                "log_partition": place.partition,
                "phase": str(phase),
                "error": error,
            }
            log.warning("a turn failed: %s", text, extra=fields)
        coordinators = frozenset(place.coordinator for place in self._places)
        name = self._cluster.name
        samples = self._tally.samples(name, coordinators) if name else ()
        self._publish(Snapshot.until_replaced("canary", samples, clock, target=self._cluster.target, cluster=name))
