"""``audit markers`` on a real broker: nothing torn in healthy traffic, and what is torn on purpose found exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from demo.cluster import KafkaCluster
from demo.workloads.producers import JavaProducer, RdkafkaProducer
from tests.schemas import conform


class MarkersResult(NamedTuple):
    """What the command answered."""

    code: int
    cluster: dict[str, Any]


def audit(kafka: KafkaCluster) -> MarkersResult:
    argv = [sys.executable, "-m", "exporter", "audit", "markers", "--bootstrap-server", kafka.bootstrap]
    done = subprocess.run([*argv, "--output", "json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return MarkersResult(done.returncode, conform("audit-markers", json.loads(done.stdout))["clusters"][0])


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_only_what_was_torn_on_purpose_is_found(version: str) -> None:
    with KafkaCluster(version) as kafka:
        for topic in ("orders", "payments"):
            kafka.create_topic(topic, 2)
        for make, name in ((JavaProducer, "java"), (RdkafkaProducer, "rdkafka")):
            with make(kafka, f"{name}-1") as producer:
                producer.init()
                producer.run(30, "orders", 4)
                producer.run(5, "payments", 4, commit=False)
                producer.begin()
                producer.send("orders", 1, 0)
                producer.send_offsets("readers", "payments", 0, 3)
                producer.commit()
                producer.init()
                producer.run(5, "orders")
        healthy = audit(kafka)
        assert healthy.cluster["torn"] == []
        assert healthy.cluster["not_compared"] == []
        assert healthy.cluster["transactions"] == 2 * (30 + 5 + 1 + 5)
        assert healthy.code == 0
        for make, name in ((JavaProducer, "java"), (RdkafkaProducer, "rdkafka")):
            with make(kafka, f"{name}-torn") as producer:
                producer.init()
                producer.run(2, "payments")
                producer.begin()
                producer.send("payments", 3, 0)
                producer.send("payments", 2, 1)
                producer.flush()
                _abort_by_hand(kafka, "payments", 1)
                producer.commit()
                producer.run(2, "payments")
        torn = audit(kafka)
        assert torn.code == 1
        found = {
            (each["transactional_id"], each["topic"], each["partition"], each["marker"])
            for each in torn.cluster["torn"]
        }
        assert found == {(f"{name}-torn", "payments", 1, "abort") for name in ("java", "rdkafka")}
        assert len(torn.cluster["torn"]) == 2
        assert all(each["decided"] == "commit" for each in torn.cluster["torn"])
        assert torn.cluster["not_compared"] == []


def _abort_by_hand(kafka: KafkaCluster, topic: str, partition: int) -> None:
    """What must never be done: a marker by hand into a transaction that its coordinator knows."""
    place = ("--topic", topic, "--partition", str(partition))
    described = kafka.transactions_tool("describe-producers", *place)
    rows = [line.split() for line in described.stdout.splitlines()]
    start = next(row[-1] for row in rows[1:] if row and row[-1].isdigit())
    done = kafka.transactions_tool("abort", *place, "--start-offset", start)
    assert done.returncode == 0, done.stdout + done.stderr
