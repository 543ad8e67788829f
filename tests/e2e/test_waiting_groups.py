"""A producer that died with offsets of a group in its transaction: the command names the group, as the page does."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition

from testkit.cluster import KafkaCluster
from testkit.workloads.producers import RdkafkaProducer
from tests.helpers.offsets import commit_offsets
from tests.helpers.schemas import conform


def _stalled(kafka: KafkaCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "exporter", "transactions", "stalled", "--bootstrap-server", kafka.bootstrap]
    argv += ["--stall-after", "5s", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.timeout(300)
def test_the_group_whose_offsets_wait_is_named() -> None:
    with KafkaCluster("4.3.1", 1, heap_mb=320) as kafka:
        kafka.create_topic("in", 1)
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "billing"})
        commit_offsets(consumer, [TopicPartition("in", 0, 0)])
        consumer.close()
        with RdkafkaProducer(kafka, "billing-worker-a", timeout=600.0) as producer:
            producer.init()
            producer.begin()
            producer.send_offsets("billing", "in", 0, 6)
            producer.flush()
            producer.kill()
        done = _stalled(kafka, "--output", "json")
        [stall] = conform("transactions-stalled", json.loads(done.stdout))["stalled_partitions"]
        assert (done.returncode, stall["topic"], stall["waiting_groups"]) == (1, "__consumer_offsets", ["billing"])
        assert stall["blocker"]["transactional_id"] == "billing-worker-a"
        text = _stalled(kafka).stdout
        assert f"__consumer_offsets-{stall['partition']}: groups whose offsets wait: billing." in text
