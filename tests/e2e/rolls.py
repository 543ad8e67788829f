"""Rolls of brokers under a workload: what was predicted, and what the transactions then met."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka.admin import NewTopic

from exporter.applications.applications import Grouping
from exporter.cluster import Cluster
from exporter.commands.roll import look
from exporter.core.state import StateDir
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.model import Deadline
from exporter.roll.facts import BrokerRoll, RollAnswer
from exporter.roll.partitions import roll_of
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import JavaProducer, Producer, ProducerError, RdkafkaProducer
from tests.e2e.conftest import cluster_of
from tests.e2e.ending_lines import command

OUTAGE_SECONDS = 15.0
HARM_SECONDS = 12.0
"""A transaction that took as long waited for the broker to come back, and not for an election."""
PLACES = {
    "three": [[1, 2, 3], [2, 3, 1], [3, 1, 2]],
    "pair": [[1, 2], [2, 3], [3, 1]],
    "single": [[1], [2], [3]],
}
LOG_PARTITIONS = 6
LATE_ID = "late-1"
MOST_WAITED = 120.0
"""Seconds for which a roll waits because it was told to."""


class RollResult(NamedTuple):
    """One roll: ``longest`` is the seconds of the longest transaction, ``refused`` how many the clients gave up.

    ``down`` is the broker that was away already, ``waited`` the seconds that were asked for before the answer that
    ``predicted`` and ``reasons`` have.
    """

    number: int
    topics: str
    broker: int
    down: int | None
    waited: float
    predicted: RollAnswer
    reasons: str
    longest: float
    refused: int
    lost_markers: int

    @property
    def harmed(self) -> bool:
        return self.longest >= HARM_SECONDS or self.refused > 0 or self.lost_markers > 0


def rolled_cluster() -> KafkaCluster:
    """Three brokers of which two may be away at once. One copy of the log suffices: the partitions decide."""
    properties = {"transaction.state.log.min.isr": "1", "offsets.topic.num.partitions": "3"}
    return cluster_of(
        "4.3.1", 3, own_controller=True, heap_mb=384, transaction_partitions=LOG_PARTITIONS, properties=properties
    )


def create(kafka: KafkaCluster, topic: str) -> None:
    admin = kafka.admin()
    config = {"min.insync.replicas": "2" if topic == "three" else "1"}
    places = PLACES[topic]
    admin.create_topics([NewTopic(topic, len(places), replica_assignment=places, config=config)])[topic].result(60)


def predicted(kafka: KafkaCluster, broker: int) -> BrokerRoll:
    """Return what `check roll` says, in this process."""
    properties = Properties.parse(kafka.client_properties())
    client = ClusterClient(properties)
    try:
        cluster = Cluster(properties, client, Grouping([]), StateDir(None))
        return roll_of(look(cluster, Deadline.after(60)), broker, OUTAGE_SECONDS)
    finally:
        client.close()


class RolledWorkload:
    """Clients of both generations that commit one transaction after the other, in all partitions of ``topics``."""

    def __init__(self, kafka: KafkaCluster, topics: Sequence[str]) -> None:
        self._topics = tuple(topics)
        self._ended: list[tuple[float, float]] = []
        self._refused: list[float] = []
        self._texts: list[str] = []
        self._stopped = threading.Event()
        self._producers: list[Producer] = [
            JavaProducer(kafka, "newer-1", timeout=120.0),
            RdkafkaProducer(kafka, "older-1", timeout=120.0),
        ]
        self._begun = dict.fromkeys(self._producers, 0.0)
        self._threads = [
            threading.Thread(target=self._run, args=(producer,), daemon=True) for producer in self._producers
        ]

    def start(self) -> None:
        for producer in self._producers:
            producer.init()
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(150)
        for producer in self._producers:
            producer.close()

    def longest(self, since: float) -> float:
        """Seconds of the longest transaction that ended, or is open, since then."""
        now = time.monotonic()
        ended = [end - begin for begin, end in self._ended if end >= since]
        return max([*ended, *(now - begin for begin in self._begun.values() if begin)], default=0.0)

    def refused(self, since: float) -> int:
        return sum(at >= since for at in self._refused)

    def wait_for_commits(self, seconds: float) -> None:
        """Wait until each client has committed a transaction that it began from here on."""
        began = time.monotonic()
        until = Deadline.after(seconds)
        while min(self._begun.values()) < began or self._none_since(began):
            assert poll(until, 0.1), f"the workload commits nothing: {self._ages()}; refused: {self._texts[-5:]}"

    def _ages(self) -> dict[str, float]:
        """Seconds since which the clients have their transaction."""
        now = time.monotonic()
        return {producer.transactional_id: round(now - begin, 1) for producer, begin in self._begun.items()}

    def _none_since(self, began: float) -> bool:
        return not any(begin >= began for begin, _ in self._ended)

    def _run(self, producer: Producer) -> None:
        while not self._stopped.is_set():
            begin = self._begun[producer] = time.monotonic()
            try:
                producer.begin()
                for topic in self._topics:
                    for number in range(len(PLACES[topic])):
                        producer.send(topic, 1, number)
                producer.flush()
                producer.commit()
            except ProducerError as error:
                self._refused.append(time.monotonic())
                self._texts.append(str(error))
                self._again(producer)
                continue
            self._ended.append((begin, time.monotonic()))
            self._stopped.wait(0.2)

    def _again(self, producer: Producer) -> None:
        while not self._stopped.is_set():
            try:
                producer.init()
            except ProducerError as error:
                self._texts.append(str(error))
                self._stopped.wait(1.0)
            else:
                return


@contextmanager
def workload(kafka: KafkaCluster, topics: Sequence[str]) -> Iterator[RolledWorkload]:
    running = RolledWorkload(kafka, topics)
    running.start()
    try:
        yield running
    finally:
        running.close()


def wait_in_sync(kafka: KafkaCluster) -> None:
    """Wait until every partition has a leader and all its replicas in sync."""
    admin, until = kafka.admin(), Deadline.after(180)
    while True:
        topics = admin.list_topics(timeout=30).topics.values()
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        if all(partition.leader >= 0 and len(partition.isrs) == len(partition.replicas) for partition in partitions):
            return
        assert poll(until, 0.2), "not all replicas are in sync"


def lost_markers(kafka: KafkaCluster) -> set[tuple[str, int, str]]:
    """Places whose marker is missing, as `audit markers` has them for the last minutes."""
    done = command("audit", "markers", "--bootstrap-server", kafka.bootstrap, "--since", "5m", "--output", "json")
    torn = json.loads(done.out)["clusters"][0]["torn"]
    return {
        (marker["topic"], marker["partition"], marker["completed"] or "") for marker in torn if marker["marker"] is None
    }


@contextmanager
def late_transaction(kafka: KafkaCluster) -> Iterator[int]:
    """A transaction that its coordinator, whose id is given, ends by its timeout within half a minute."""
    leaders = kafka.admin().list_topics(TRANSACTION_STATE, timeout=30).topics[TRANSACTION_STATE].partitions
    with JavaProducer(kafka, LATE_ID, timeout=15.0) as producer:
        producer.init()
        producer.begin()
        producer.send("three", 1, 0)
        producer.flush()
        yield leaders[coordinator_partition(LATE_ID, LOG_PARTITIONS)].leader


def advised(kafka: KafkaCluster, broker: int) -> tuple[float, BrokerRoll]:
    """Ask `check roll`, again after the seconds for which it says to wait. Returns their sum, and the last answer."""
    waited = 0.0
    while (said := predicted(kafka, broker)).answer is RollAnswer.WAIT and waited < MOST_WAITED:
        assert said.seconds is not None
        time.sleep(said.seconds)  # as the answer says
        waited += said.seconds
    return waited, said


def roll(
    kafka: KafkaCluster, running: RolledWorkload, number: int, topics: Sequence[str], broker: int, down: int | None
) -> RollResult:
    """Predict, stop, wait for the outage, start, and look at what came of it.

    ``down`` is stopped before, and stays so until the end.
    """
    with_markers = "pair" in topics or "single" in topics
    before = lost_markers(kafka) if with_markers else set()
    if down is not None:
        kafka.broker(down).stop()
        if "single" not in topics:  # those of its partitions that have no other replica take no records
            running.wait_for_commits(60)
    waited, said = advised(kafka, broker)
    began = time.monotonic()
    kafka.broker(broker).stop()
    time.sleep(max(0.0, OUTAGE_SECONDS - (time.monotonic() - began)))  # the outage itself
    longest = running.longest(began)
    for node in [broker, *([down] if down is not None else [])]:
        kafka.broker(node).start()
    kafka.wait_ready()
    wait_in_sync(kafka)
    running.wait_for_commits(150)
    longest = max(longest, running.longest(began))
    lost = len(lost_markers(kafka) - before) if with_markers else 0
    reasons = ",".join(sorted({row.reason.value for row in said.rows if row.effect is said.answer}))
    return RollResult(
        number,
        "+".join(topics),
        broker,
        down,
        waited,
        said.answer,
        reasons,
        round(longest, 1),
        running.refused(began),
        lost,
    )


def table(results: Sequence[RollResult]) -> Iterator[str]:
    """The rolls by topics, brokers away already and prediction, as rows of Markdown."""
    yield "| topics | another broker away | predicted | rolls | harmed | longest transaction | refused | lost markers |"
    yield "|---|---|---|---|---|---|---|---|"
    kinds: dict[tuple[str, str, str], list[RollResult]] = {}
    for result in results:
        said = f"wait, then {result.predicted}" if result.waited else result.predicted.value
        kinds.setdefault((result.topics, "no" if result.down is None else "yes", said), []).append(result)
    for kind, rolls in kinds.items():
        seconds = [result.longest for result in rolls]
        sums = (len(rolls), sum(result.harmed for result in rolls), f"{min(seconds):g}-{max(seconds):g} s")
        ended = (sum(result.refused for result in rolls), sum(result.lost_markers for result in rolls))
        yield f"| {' | '.join(map(str, (*kind, *sums, *ended)))} |"
