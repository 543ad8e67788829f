"""``audit markers`` on a real broker: nothing torn in healthy traffic, and what is torn on purpose found exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from testkit.cluster import KafkaCluster
from testkit.torn import abort_by_hand
from testkit.workloads.producers import JavaProducer, RdkafkaProducer
from tests.e2e.conftest import EACH_VERSION, cluster_of
from tests.helpers.schemas import conform

COMMAND = [sys.executable, "-m", "exporter"]


class MarkersResult(NamedTuple):
    """The command's answer."""

    code: int
    cluster: dict[str, Any]


def audit(kafka: KafkaCluster) -> MarkersResult:
    argv = [*COMMAND, "audit", "markers", "--bootstrap-server", kafka.bootstrap]
    done = subprocess.run([*argv, "--output", "json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return MarkersResult(done.returncode, conform("audit-markers", json.loads(done.stdout))["clusters"][0])


@pytest.mark.parametrize("version", EACH_VERSION)
def test_only_what_was_torn_on_purpose_is_found(version: str, tmp_path: Path) -> None:
    with cluster_of(version) as kafka:
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
                abort_by_hand(kafka, "payments", 1)
                producer.commit()
                producer.run(2, "payments")
        torn = audit(kafka)
        assert torn.code == 1
        found = {
            (torn_marker["transactional_id"], torn_marker["topic"], torn_marker["partition"], torn_marker["marker"])
            for torn_marker in torn.cluster["torn"]
        }
        assert found == {(f"{name}-torn", "payments", 1, "abort") for name in ("java", "rdkafka")}
        assert len(torn.cluster["torn"]) == 2
        assert all(torn_marker["decided"] == "commit" for torn_marker in torn.cluster["torn"])
        assert torn.cluster["not_compared"] == []
