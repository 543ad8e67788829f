"""Reading the whole transaction log: the agent's tail, bare librdkafka, and Kafka's own formatter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import OffsetSpec

from exporter.applications.applications import Grouping
from exporter.kafka.log.tail import Tail, is_end
from exporter.kafka.properties.client import Properties
from exporter.model import Clock, Deadline
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.machine.progress import LogPosition, PartitionProgress
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.tail import BATCH, LogTail
from testkit.cluster import KafkaCluster
from testkit.jars import library
from tests.bench.machine import CommandCost, ToolError, run

FORMATTER_RECORDS = 300_000
TOOL_SECONDS = 180.0


class Rate(NamedTuple):
    """How many records were read, with how much CPU and in what time."""

    records: int
    cpu: float
    wall: float

    @property
    def per_cpu_second(self) -> float:
        return self.records / self.cpu


def partitions_of_log(cluster: KafkaCluster) -> list[int]:
    return list(cluster.admin().list_topics(TOPIC, timeout=30).topics[TOPIC].partitions)


def measure(read: Callable[[], int]) -> Rate:
    """CPU of this whole process, librdkafka's threads included, while ``read`` runs."""
    cpu, wall = time.process_time(), time.monotonic()
    records = read()
    return Rate(records, time.process_time() - cpu, time.monotonic() - wall)


def with_state_machines(cluster: KafkaCluster) -> Rate:
    """As the agent reads it, by its own code: decoded, its state machines run, and every transaction counted."""
    numbers = partitions_of_log(cluster)
    properties = Properties.parse(cluster.client_properties())
    tail = LogTail(Aggregates(Grouping(), TransactionsConfig()), lambda: Tail(properties, TOPIC), Clock())
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka's
    asked = {Position(TOPIC, number): newest for number in numbers}
    admin = cluster.admin()
    ends = {offset.partition: done.result(30).offset for offset, done in admin.list_offsets(asked).items()}

    def read() -> int:
        tail.begin({number: (PartitionProgress(0, LogPosition(0)), None) for number in numbers})
        tail.asked(ends, time.monotonic())
        while tail.known.lag:
            if faults := tail.follow(Deadline.after(1.0)):
                raise ToolError(f"reading {TOPIC}: {faults[0].detail}")
        return sum(progress.next - progress.lost for progress in tail.known.progress.values())

    try:
        return measure(read)
    finally:
        tail.close()


def bare(cluster: KafkaCluster) -> Rate:
    """librdkafka's consumer with its defaults, nothing decoded: what cannot be beaten in Python."""
    numbers = partitions_of_log(cluster)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
        }
    )

    def read() -> int:
        consumer.assign([Position(TOPIC, number, 0) for number in numbers])
        records = ends = 0
        while ends < len(numbers):
            for message in consumer.consume(BATCH, 1.0):
                error = message.error()
                if error is None:
                    records += 1
                elif is_end(error):
                    ends += 1
                elif error.code() != KafkaError._TRANSPORT:
                    raise ToolError(f"reading {TOPIC}: {error.str()}")
        return records

    try:
        return measure(read)
    finally:
        consumer.close()


def kafka_tool(cluster: KafkaCluster, main: str, *arguments: str, seconds: float = TOOL_SECONDS) -> CommandCost:
    """One of Kafka's own tools as its scripts start it: 512 MB of heap (256 MB for the rest), the JVM's defaults."""
    argv = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{library()}/*", main]
    return run([*argv, "--bootstrap-server", cluster.bootstrap, *arguments], seconds)


def formatter(cluster: KafkaCluster, records: int) -> Rate:
    """``kafka-console-consumer`` with TransactionLogMessageFormatter, over the first so many records."""
    cost = kafka_tool(
        cluster,
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--topic=__transaction_state",
        "--from-beginning",
        "--formatter=org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
        f"--max-messages={min(records, FORMATTER_RECORDS)}",
    )
    printed = cost.output.count('"transactionalId"')
    if not printed:
        raise ToolError(f"Kafka's formatter printed no records: {cost.output[:500]}")
    return Rate(printed, cost.cpu, cost.wall)
