"""Ordinary mistakes of real clients beside the same done right: the posture finds each, and accuses nobody else.

Transactions take 300 ms, consumers commit every 5 s as they do by default, and the agent reads at its default
intervals but for the posture, which is read every 20 s and not every 5 minutes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import Producer as ConfluentProducer

from exporter import catalogue
from exporter.model import Deadline
from testkit.agent import Metrics
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import JavaProducer, Producer, ProducerClass, RdkafkaProducer
from tests.e2e.conftest import StartAgent

OPEN_SECONDS = 0.25
"""For which the transactions of a feed stay open after their records are written."""
CHECKS = ("group_isolation", "offsets_in_transaction", "producer_reuse", "plain_writers")
TEN_MINUTES = 600.0


class WrongAndRight:
    """Clients in threads, until the end of the context."""

    def __init__(self, kafka: KafkaCluster, stack: ExitStack) -> None:
        self.kafka = kafka
        self.over = threading.Event()
        self._stack = stack

    def run(self, step: Callable[[], None]) -> None:
        def loop() -> None:
            while not self.over.is_set():
                step()

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        self._stack.callback(thread.join, 30)

    def producer(self, make: ProducerClass, transactional_id: str) -> Producer:
        producer = self._stack.enter_context(make(self.kafka, transactional_id))
        producer.init()
        return producer

    def consumer(self, group: str, topic: str, **settings: Any) -> Consumer:
        consumer = Consumer(
            {"bootstrap.servers": self.kafka.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
            | {key.replace("_", "."): value for key, value in settings.items()}
        )
        consumer.subscribe([topic])
        self._stack.callback(consumer.close)
        return consumer

    def feed(self, make: ProducerClass, transactional_id: str, topic: str, pause: float) -> None:
        producer = self.producer(make, transactional_id)

        def transaction() -> None:
            producer.begin()
            producer.send(topic, 3)
            producer.flush()
            self.over.wait(pause)
            producer.commit()

        self.run(transaction)

    def reader(self, group: str, topic: str, isolation: str) -> None:
        consumer = self.consumer(group, topic, isolation_level=isolation)

        def read() -> None:
            consumer.consume(100, 0.05)

        self.run(read)

    def copier(self, transactional_id: str, group: str, source: str, target: str, *, inside: bool) -> None:
        """Consume, write in a transaction, commit: with the offsets in the transaction, or by auto-commit."""
        consumer = self.consumer(group, source, enable_auto_commit=not inside)
        producer = self.producer(JavaProducer, transactional_id)

        def copy() -> None:
            if not (records := consumer.consume(50, 0.1)):
                return
            producer.begin()
            producer.send(target, len(records))
            if inside:
                producer.send_offsets(group, source, 0, (records[-1].offset() or 0) + 1)
            producer.commit()

        self.run(copy)

    def plain_writer(self, topic: str) -> None:
        """An idempotent producer of a program that knows of no transactions."""
        producer = ConfluentProducer({"bootstrap.servers": self.kafka.bootstrap, "enable.idempotence": True})

        def write() -> None:
            producer.produce(topic, b"outside of a transaction")
            producer.flush(10)
            self.over.wait(0.5)

        self.run(write)

    def forgetful(self, transactional_id: str, topic: str) -> None:
        producer = self.producer(RdkafkaProducer, transactional_id)

        def transaction() -> None:
            producer.init()
            producer.run(1, topic)
            self.over.wait(1.0)

        self.run(transaction)


@contextmanager
def workload(kafka: KafkaCluster) -> Iterator[WrongAndRight]:
    with ExitStack() as stack:
        clients = WrongAndRight(kafka, stack)
        try:
            yield clients
        finally:
            clients.over.set()


def findings(metrics: Metrics) -> set[tuple[str, str]]:
    """The checks of mistakes that failed or are information, with their subjects."""
    failed = [sample for sample in metrics.samples(catalogue.POSTURE_CHECK) if sample.value == 0]
    told = [sample.labels for sample in (*failed, *metrics.samples(catalogue.POSTURE_INFORMATION))]
    return {(labels["check"], labels["subject"]) for labels in told if labels["check"] in CHECKS}


def test_each_mistake_is_found_and_whoever_does_it_right_is_not_accused(
    tmp_path: Path, start_agent: StartAgent
) -> None:
    with KafkaCluster("4.3.1") as kafka, workload(kafka) as clients:
        for topic in ("payments", "ledger", "settled", "misc"):
            kafka.create_topic(topic, 1)
        config = tmp_path / "eos.yml"
        cluster = {"name": "prod", "kafka": {"bootstrap.servers": kafka.bootstrap}, "posture": {"interval": "20s"}}
        config.write_text(json.dumps({"clusters": [cluster]}))
        clients.feed(RdkafkaProducer, "feed-1", "payments", OPEN_SECONDS)
        clients.reader("impatient", "payments", "read_uncommitted")
        clients.reader("patient", "payments", "read_committed")
        clients.copier("ledger-copy-1", "ledger-copy-consumer", "payments", "ledger", inside=False)
        clients.copier("settle-1", "settle-consumer", "payments", "settled", inside=True)
        clients.forgetful("forgetful-1", "misc")
        clients.plain_writer("misc")
        clients.reader("sweeper", "misc", "read_committed")
        agent = start_agent("--config", str(config))
        wanted = {
            ("group_isolation", "impatient"),
            ("offsets_in_transaction", "ledger-copy-consumer"),
            ("producer_reuse", "forgetful"),
            ("plain_writers", "misc"),
        }
        began, seen = time.monotonic(), dict[tuple[str, str], float]()

        def all_found(metrics: Metrics) -> bool:
            for finding in findings(metrics):
                seen.setdefault(finding, time.monotonic() - began)
            return wanted <= seen.keys()

        agent.wait_until(all_found, TEN_MINUTES)
        print({finding: f"{seconds:.0f} s" for finding, seconds in seen.items()})
        until = Deadline.after(60)
        while poll(until, 1.0):
            assert findings(agent.metrics()) == wanted
        assert (
            agent.metrics().value(catalogue.POSTURE_CHECK, check="offsets_in_transaction", subject="settle-consumer")
            == 1
        )
