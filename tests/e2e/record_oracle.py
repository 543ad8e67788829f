"""Transactions of several clients, one step after the other, and for every offset what it has: known without the
product, by counting records and markers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as Plain

from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import Producer

PARTITIONS = 3
MOST_OPEN = 3


@dataclass(eq=False)
class KnownTransaction:
    """A transaction by its steps: ``state`` is committed, aborted or open, ``markers`` its offsets by partition."""

    transactional_id: str
    state: str = "open"
    partitions: set[int] = field(default_factory=set)
    markers: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownOffset:
    """The content of one offset: a record in a transaction or in none, or the marker of a transaction."""

    kind: str
    transaction: KnownTransaction | None = None


class RecordOracle:
    """Runs steps by a seed and keeps what they leave. ``producers`` are initialised."""

    def __init__(self, kafka: KafkaCluster, topic: str, producers: Iterable[Producer], seed: int) -> None:
        self.kafka = kafka
        self.topic = topic
        self.offsets: list[dict[int, KnownOffset]] = [{} for _ in range(PARTITIONS)]
        self.transactions: list[KnownTransaction] = []
        self._producers = list(producers)
        self._open: dict[Producer, KnownTransaction] = {}
        self._plain = Plain({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0})
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "oracle", "log_level": 0}
        self._consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
        self._random = random.Random(seed)

    def run(self, records: int) -> None:
        """Take steps until so many offsets are written; then some transactions stay open."""
        while sum(map(len, self.offsets)) < records:
            self._step()
        for producer in self._producers[:1]:
            if producer not in self._open:
                self._begin(producer)
        self._consumer.close()

    def _step(self) -> None:
        producer = self._random.choice(self._producers)
        if self._random.random() < 0.1:
            self._send_plain(self._random.randrange(PARTITIONS))
        elif producer not in self._open:
            if len(self._open) < MOST_OPEN:
                self._begin(producer)
        else:
            step: Callable[[Producer], None] = self._random.choice(
                (self._send, self._send, self._commit, self._commit, self._abort, self._fence)
            )
            step(producer)

    def _begin(self, producer: Producer) -> None:
        producer.begin()
        transaction = self._open[producer] = KnownTransaction(producer.transactional_id)
        self.transactions.append(transaction)
        self._send(producer)

    def _send(self, producer: Producer) -> None:
        transaction = self._open[producer]
        number = self._random.randrange(PARTITIONS)
        count = self._random.randint(1, 3)
        producer.send(self.topic, count, number)
        producer.flush()
        transaction.partitions.add(number)
        self._written(number, [KnownOffset("record", transaction)] * count)

    def _send_plain(self, number: int) -> None:
        self._plain.produce(self.topic, b"plain", partition=number)
        assert self._plain.flush(60) == 0
        self._written(number, [KnownOffset("record")])

    def _commit(self, producer: Producer) -> None:
        producer.commit()
        self._ended(producer, "committed")

    def _abort(self, producer: Producer) -> None:
        producer.abort()
        self._ended(producer, "aborted")

    def _fence(self, producer: Producer) -> None:
        producer.init()
        self._ended(producer, "aborted")

    def _ended(self, producer: Producer, state: str) -> None:
        transaction = self._open.pop(producer)
        transaction.state = state
        for number in transaction.partitions:
            transaction.markers[number] = len(self.offsets[number])
            self._written(number, [KnownOffset("marker", transaction)])

    def _written(self, number: int, what: list[KnownOffset]) -> None:
        """Note what came to the end of a partition, once it is there: markers follow the end of a transaction."""
        known = self.offsets[number]
        for offset in what:
            known[len(known)] = offset
        until = Deadline.after(60)
        place = TopicPartition(self.topic, number)
        while (end := self._consumer.get_watermark_offsets(place, timeout=30)[1]) < len(known):
            assert poll(until, 0.005), f"{place} ends at {end}, {len(known)} are written"
        assert end == len(known), "somebody else writes to the topic"
