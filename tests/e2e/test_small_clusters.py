"""Clusters of one broker with the settings of three: what is there not enough of, and what works in spite of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from demo.cluster import KafkaCluster
from demo.workloads.producers import RdkafkaProducer
from exporter import catalogue
from tests.e2e.conftest import StartAgent
from tests.helpers.schemas import conform

LOG_PARTITIONS = 4


class SmallClusterAnswer(NamedTuple):
    """A command that ended; ``cluster`` is its document of the only cluster."""

    code: int
    cluster: dict[str, Any]


def _ask(kafka: KafkaCluster, *command: str) -> SmallClusterAnswer:
    argv = [sys.executable, "-m", "exporter", *command, "--bootstrap-server", kafka.bootstrap, "--output", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return SmallClusterAnswer(done.returncode, conform("-".join(command), json.loads(done.stdout))["clusters"][0])


def _checks(kafka: KafkaCluster) -> dict[str, dict[str, Any]]:
    """The posture checks of the transaction log and of the cluster, by name."""
    checks = _ask(kafka, "check", "posture").cluster["checks"]
    return {check["name"]: check for check in checks if check["subject"] in {"__transaction_state", "cluster"}}


@pytest.mark.timeout(300)
def test_one_replica_below_a_minimum_of_two_commits_and_is_not_under_its_minimum(start_agent: StartAgent) -> None:
    properties = {"transaction.state.log.min.isr": "2", "min.insync.replicas": "2"}
    with KafkaCluster("4.3.1", 1, properties=properties, transaction_partitions=LOG_PARTITIONS, heap_mb=320) as kafka:
        kafka.create_topic("orders", 1)
        agent = start_agent("--bootstrap-server", kafka.bootstrap)
        with RdkafkaProducer(kafka, "pay-1", timeout=60.0) as producer:
            producer.init()
            producer.run(3, "orders")
        seen = agent.wait_until(
            lambda seen: (
                seen.value(catalogue.TRANSACTIONS_TOTAL, application="pay", outcome="committed") == 3
                and seen.value(catalogue.TRANSACTIONAL_IDS_UNAVAILABLE, application="pay") is not None
                and seen.value(
                    catalogue.INTERNAL_TOPIC_PARTITIONS, topic="__transaction_state", condition="under_min_isr"
                )
                is not None
            )
        )
        shown = seen.samples(catalogue.INTERNAL_TOPIC_PARTITIONS, topic="__transaction_state")
        assert {sample.labels["condition"]: sample.value for sample in shown} == {
            "total": LOG_PARTITIONS,
            "offline": 0,
            "under_replicated": 0,
            "under_min_isr": 0,
        }
        assert seen.value(catalogue.TRANSACTIONAL_IDS_UNAVAILABLE, application="pay") == 0
        assert not seen.samples(catalogue.INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS)
        checks = _checks(kafka)
        assert checks["transaction_log_isr"]["verdict"] == "passed"
        assert checks["transaction_log_min_isr"]["verdict"] == "failed"
        assert "higher than the number of replicas, Kafka takes 1" in checks["transaction_log_min_isr"]["found"]
