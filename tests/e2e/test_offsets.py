"""Real groups that commit in transactions, outside of them, and both ways: the counters, and the posture."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from demo.cluster import KafkaCluster
from demo.workloads.producers import JavaProducer, RdkafkaProducer
from exporter import catalogue
from tests.e2e.conftest import StartAgent

INSIDE, BOTH, OUTSIDE = "inside", "both", "copier"
SPAN = 65.0
"""Seconds over which commits outside of transactions become a habit."""


def test_commits_are_told_apart_and_a_habit_outside_of_transactions_fails(
    tmp_path: Path, start_agent: StartAgent
) -> None:
    with KafkaCluster("4.3.1") as kafka:
        for topic in ("orders", "totals"):
            kafka.create_topic(topic)
        config = tmp_path / "eos.yml"
        cluster = {"name": "demo", "kafka": {"bootstrap.servers": kafka.bootstrap}}
        groups = {"offset_commits": True, "interval": "1s"}
        config.write_text(json.dumps({"clusters": [{**cluster, "groups": groups}]}))
        agent = start_agent("--config", str(config))
        until = time.monotonic() + SPAN
        with JavaProducer(kafka, "totals-1") as inside, RdkafkaProducer(kafka, f"{OUTSIDE}-1") as outside:
            inside.init()
            outside.init()
            number = 0
            while number < 12 or time.monotonic() < until:
                number += 1
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
                seen.value(catalogue.GROUP_OFFSET_COMMITS_TOTAL, group=INSIDE, transactional="true") == number
                and seen.value(catalogue.GROUP_OFFSET_COMMITS_TOTAL, group=OUTSIDE, transactional="false") == number
            )
        )
        counted = {
            (each.labels["group"], each.labels["topic"], each.labels["transactional"]): each.value
            for each in metrics.samples(catalogue.GROUP_OFFSET_COMMITS_TOTAL)
        }
        assert counted == {
            (INSIDE, "orders", "true"): number,
            (BOTH, "orders", "true"): number,
            (BOTH, "orders", "false"): number,
            (OUTSIDE, "orders", "false"): number,
        }
        argv = [sys.executable, "-m", "exporter", "check", "posture", "--config", str(config), "--output", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        checks = {
            each["subject"]: each
            for each in json.loads(done.stdout)["clusters"][0]["checks"]
            if each["name"] == "offsets_in_transaction"
        }
        assert {subject: each["verdict"] for subject, each in checks.items()} == {
            INSIDE: "passed",
            BOTH: "failed",
            OUTSIDE: "failed",
        }
        assert "proven by the batches" in checks[BOTH]["found"]
        assert "taken from their name" in checks[OUTSIDE]["found"]


def _commit_outside(kafka: KafkaCluster, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    finally:
        consumer.close()
