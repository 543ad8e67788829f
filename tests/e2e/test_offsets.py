"""Real groups that commit in transactions, outside of them, and both ways: the posture tells them apart."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from exporter import catalogue
from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.processes import poll
from testkit.workloads.producers import JavaProducer, RdkafkaProducer
from tests.e2e.conftest import StartAgent
from tests.helpers.offsets import commit_offsets

INSIDE, BOTH, OUTSIDE = "inside", "both", "copier-consumer"
ROUNDS = 12
HABIT_SECONDS = 62.0
"""Over so long a group commits outside of transactions: a single reset is no habit."""


def test_commits_in_transactions_and_outside_of_them_are_told_apart(tmp_path: Path, start_agent: StartAgent) -> None:
    with KafkaCluster("4.3.1") as kafka:
        for topic in ("orders", "totals"):
            kafka.create_topic(topic)
        config = tmp_path / "eos.yml"
        cluster = {"name": "demo", "kafka": {"bootstrap.servers": kafka.bootstrap}, "posture": {"interval": "5s"}}
        config.write_text(json.dumps({"clusters": [cluster]}))
        agent = start_agent("--config", str(config))
        with JavaProducer(kafka, "totals-1") as inside, RdkafkaProducer(kafka, "copier-1") as outside:
            inside.init()
            outside.init()
            for number in range(1, ROUNDS + 1):
                for group in (INSIDE, BOTH):
                    inside.begin()
                    inside.send("totals")
                    inside.send_offsets(group, "orders", 0, number)
                    inside.commit()
                outside.run(1, "totals")
                for group in (BOTH, OUTSIDE):
                    _commit_outside(kafka, group, number)
                until = Deadline.after(HABIT_SECONDS / (ROUNDS - 1))
                while poll(until, 0.2):
                    pass

        def verdict(group: str) -> float | None:
            return agent.metrics().value(catalogue.POSTURE_CHECK, check="offsets_in_transaction", subject=group)

        agent.wait_until(lambda _: (verdict(INSIDE), verdict(BOTH), verdict(OUTSIDE)) == (1, 0, 0), timeout=120)


def _commit_outside(kafka: KafkaCluster, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        commit_offsets(consumer, [TopicPartition("orders", 0, offset)])
    finally:
        consumer.close()
