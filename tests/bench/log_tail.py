"""Reading the whole transaction log: the agent's tail, bare librdkafka, and Kafka's own formatter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, cast

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Position

from demo.cluster import KafkaCluster
from demo.jars import library
from exporter.kafka.log.tail import Polled, Tail, is_end
from exporter.kafka.properties.client import Properties
from exporter.transactions.aggregates import Aggregates, Caps
from exporter.transactions.applications import Grouping
from exporter.transactions.records import TOPIC
from exporter.transactions.state_machine import StateMachine
from exporter.transactions.tail import BATCH
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
    """As the agent reads it: decoded, its state machines run, and every transaction counted."""
    aggregates = Aggregates(Grouping(), Caps())
    numbers = partitions_of_log(cluster)
    machines = {number: StateMachine(number) for number in numbers}
    tail = Tail(Properties.parse(cluster.client_properties()), TOPIC)

    def take(message: Polled) -> None:
        machine = machines[message.partition()]
        stamp = message.timestamp()[1]
        for event in machine.apply(message.offset(), stamp, message.key() or b"", message.value()):
            aggregates.take(event, new=True)

    def read() -> int:
        tail.assign(dict.fromkeys(numbers, 0))
        return _until_ends(lambda: tail.poll(BATCH, 1.0), len(numbers), take)

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
        return _until_ends(lambda: cast("list[Polled]", consumer.consume(BATCH, 1.0)), len(numbers), lambda _: None)

    try:
        return measure(read)
    finally:
        consumer.close()


def _until_ends(poll: Callable[[], list[Polled]], partitions: int, take: Callable[[Polled], None]) -> int:
    records = ends = 0
    while ends < partitions:
        for message in poll():
            error = message.error()
            if error is None:
                take(message)
                records += 1
            elif is_end(error):
                ends += 1
            elif error.code() != KafkaError._TRANSPORT:
                raise ToolError(f"reading {TOPIC}: {error.str()}")
    return records


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
