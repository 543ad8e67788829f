"""The canary: one turn after the other, within its budget of transactions."""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections.abc import Callable
from typing import NamedTuple

from exporter import catalogue
from exporter.canary.clients import CanaryAdmin, ClientError, CommittedReader, TurnProducer
from exporter.canary.places import UNKNOWN, LogPlace, Rotation, places_of
from exporter.canary.tally import NO_PARTITION, CanaryTally
from exporter.canary.turn import Failure, Turn, TurnPlan, TurnResult
from exporter.cluster import Cluster
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.model import Deadline, Snapshot
from exporter.words import CanaryPhase

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
