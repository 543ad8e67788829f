"""Real groups that commit in transactions, outside of them, and both ways: each commit is counted by its kind."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from demo.cluster import KafkaCluster
from demo.workloads.producers import JavaProducer, RdkafkaProducer
from exporter import catalogue
from exporter.model import Deadline
from tests.e2e.conftest import StartAgent
from tests.helpers.offsets import commit_offsets

INSIDE, BOTH, OUTSIDE, MEMBERS = "inside", "both", "copier", "members"
ROUNDS = 12


def test_commits_in_transactions_and_outside_of_them_are_counted_apart(tmp_path: Path, start_agent: StartAgent) -> None:
    with KafkaCluster("4.3.1") as kafka:
        for topic in ("orders", "totals"):
            kafka.create_topic(topic)
        config = tmp_path / "eos.yml"
        cluster = {"name": "demo", "kafka": {"bootstrap.servers": kafka.bootstrap}}
        groups = {"offset_commits": True, "interval": "1s"}
        config.write_text(json.dumps({"clusters": [{**cluster, "groups": groups}]}))
        agent = start_agent("--config", str(config))
        with JavaProducer(kafka, "totals-1") as inside, RdkafkaProducer(kafka, f"{OUTSIDE}-1") as outside:
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
        metrics = agent.wait_until(
            lambda seen: (
                seen.value(catalogue.GROUP_OFFSET_COMMITS_TOTAL, group=INSIDE, transactional="true") == ROUNDS
                and seen.value(catalogue.GROUP_OFFSET_COMMITS_TOTAL, group=OUTSIDE, transactional="false") == ROUNDS
            )
        )
        counted = {
            (sample.labels["group"], sample.labels["topic"], sample.labels["transactional"]): sample.value
            for sample in metrics.samples(catalogue.GROUP_OFFSET_COMMITS_TOTAL)
        }
        assert counted == {
            (INSIDE, "orders", "true"): ROUNDS,
            (BOTH, "orders", "true"): ROUNDS,
            (BOTH, "orders", "false"): ROUNDS,
            (OUTSIDE, "orders", "false"): ROUNDS,
        }
        _join_and_leave(kafka)  # a first generation, and a further one at each change
        agent.wait_until(lambda seen: (seen.value(catalogue.GROUP_REBALANCES_TOTAL, group=MEMBERS) or 0) >= 3)


def _join_and_leave(kafka: KafkaCluster) -> None:
    """Two members join a group one after the other, and leave it one after the other."""
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": MEMBERS,
        "partition.assignment.strategy": "roundrobin",  # one topic of one partition for each member
    }
    members = [Consumer(settings) for _ in range(2)]
    until = Deadline.after(60)
    try:
        for count, member in enumerate(members, 1):
            member.subscribe(["orders", "totals"])
            while not all(joined.assignment() for joined in members[:count]):
                assert not until.over
                for joined in members[:count]:
                    joined.poll(0.1)
        members[0].close()
        while len(members[1].assignment()) < 2:
            assert not until.over
            members[1].poll(0.1)
    finally:
        members[1].close()


def _commit_outside(kafka: KafkaCluster, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        commit_offsets(consumer, [TopicPartition("orders", 0, offset)])
    finally:
        consumer.close()
