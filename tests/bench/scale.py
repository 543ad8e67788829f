"""A cluster of the size that the figures are for: many partitions, many transactional ids, a long transaction log, and
transactions that stay open.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from confluent_kafka.admin import NewTopic

from exporter.model import Deadline, TopicPartition
from testkit import jars
from testkit.cluster import KafkaCluster
from testkit.processes import java
from testkit.settings import Node
from tests.bench.wire import BrokerConnections, ProducerIdentity

OPEN_TIMEOUT_MS = 3_600_000
"""Of the transactions that stay open: longer than the bench runs."""

LEADER_SECONDS = 240.0
_TOPICS_AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything."""

    topics: int
    partitions: int
    ids: int
    applications: int
    open: int
    log_records: int
    heap_mb: int

    @property
    def all_partitions(self) -> int:
        return self.topics * self.partitions


FULL = Scale(100, 100, 20_000, 100, 2_000, 1_000_000, 1536)
THREE_BROKERS = Scale(50, 100, 10_000, 50, 1_000, 90_000, 1536)
"""With a replica of each partition on each of three brokers, that have two cores together."""
QUICK = Scale(10, 20, 1_000, 10, 100, 20_000, 512)


class BenchCluster(KafkaCluster):
    """A broker as operators run it: the JVM's full compiler and G1, not the quick start of the demo and the tests."""

    def _argv(self, node: Node) -> list[str]:
        quick = {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
        argv = java(self._heap_mb, self._library, "kafka.Kafka", str(self._properties_file(node)), log_level="warn")
        return [text for text in argv if text not in quick]


def bench_cluster(scale: Scale, brokers: int = 1) -> BenchCluster:
    """One broker or three, not started yet. Long transactions are allowed."""
    properties = {
        "transaction.max.timeout.ms": str(OPEN_TIMEOUT_MS),
        # Creating ten thousand partitions keeps a busy machine busy for longer than the five seconds of the tests.
        "broker.session.timeout.ms": "60000",
        # Ten thousand partitions of next to nothing.
        "log.index.size.max.bytes": "65536",
    }
    return BenchCluster(brokers=brokers, heap_mb=scale.heap_mb, properties=properties, progress=jars.say)


def create_topics(cluster: KafkaCluster, scale: Scale) -> None:
    """The topics of the scale, ``bench-0`` and so on, with a replica on every broker."""
    admin, copies = cluster.admin(), len(cluster.brokers)
    names = [_topic(number) for number in range(scale.topics)]
    for at in range(0, len(names), _TOPICS_AT_ONCE):
        wanted = [NewTopic(name, scale.partitions, copies) for name in names[at : at + _TOPICS_AT_ONCE]]
        for done in admin.create_topics(wanted, operation_timeout=60.0).values():
            done.result(60)
        jars.say(f"  {min(len(names), at + _TOPICS_AT_ONCE) * scale.partitions} partitions")
    until = Deadline.after(LEADER_SECONDS)
    while True:
        found = admin.list_topics(timeout=30).topics
        if all(
            name in found and all(partition.leader >= 0 for partition in found[name].partitions.values())
            for name in names
        ):
            return
        if until.over:
            raise TimeoutError("the topics have no leaders")
        time.sleep(0.5)


def write_log(wire: BrokerConnections, scale: Scale) -> list[ProducerIdentity]:
    """Run transactions through all ids until the log has its records: three for each, one of twenty aborted."""
    ids = [f"service-{number % scale.applications:02}x-{number // scale.applications}" for number in range(scale.ids)]
    wire.find_coordinator(ids[0])
    producers = wire.init(ids, OPEN_TIMEOUT_MS)
    written = len(producers)
    jars.say(f"  {len(ids)} transactional ids")
    while written < scale.log_records:
        run_transactions(wire, scale, producers)
        written += 3 * len(producers)
        jars.say(f"  about {written} records in the log")
    return producers


def run_transactions(wire: BrokerConnections, scale: Scale, producers: list[ProducerIdentity]) -> None:
    """One transaction of each producer, from begin to its end."""
    wire.add([(producer, _home(scale, number)) for number, producer in enumerate(producers)])
    wire.end([(producer, number % 20 != 0) for number, producer in enumerate(producers)])


def open_transactions(wire: BrokerConnections, scale: Scale, producers: list[ProducerIdentity]) -> None:
    """Leave a transaction open for each of these producers, each with a record in a partition of its own."""
    work = [(producer, _own(scale, number)) for number, producer in enumerate(producers)]
    wire.add(work)
    wire.produce(work)


def spare_partition(scale: Scale, number: int) -> TopicPartition:
    """A partition that nothing else writes to: the last ones of the last topics."""
    topic, partition = divmod(number, scale.partitions)
    return TopicPartition(_topic(scale.topics - 1 - topic), scale.partitions - 1 - partition)


class Traffic:
    """Transactions that begin and end while something is measured, ``per_second`` of them, on a thread."""

    def __init__(
        self, wire: BrokerConnections, scale: Scale, producers: list[ProducerIdentity], per_second: int
    ) -> None:
        self._wire, self._scale, self._producers, self._at_once = wire, scale, producers, max(1, per_second // 4)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        at = 0
        while not self._over.wait(0.25):
            run_transactions(self._wire, self._scale, self._producers[at : at + self._at_once])
            at = (at + self._at_once) % len(self._producers)


def _topic(number: int) -> str:
    return f"bench-{number}"


def _home(scale: Scale, number: int) -> TopicPartition:
    """Where finished transactions write: the last tenth of the partitions, which no open transaction holds."""
    tenth = max(1, scale.topics // 10)
    return TopicPartition(_topic(scale.topics - 1 - number % tenth), number // tenth % (scale.partitions // 2))


def _own(scale: Scale, number: int) -> TopicPartition:
    topic, partition = divmod(number, scale.partitions)
    return TopicPartition(_topic(topic), partition)
