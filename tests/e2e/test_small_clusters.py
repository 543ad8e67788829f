"""Clusters of one broker with the settings of three: what is there not enough of, and what works in spite of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from exporter import catalogue
from exporter.model import Deadline
from testkit.cluster import KafkaCluster
from testkit.jvm_agents import JvmAgents
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import StartAgent
from tests.helpers.schemas import conform

LOG_PARTITIONS = 4
LOG = {"subject": "__transaction_state"}
REFUSED = {"request": "FindCoordinator", "error": "COORDINATOR_NOT_AVAILABLE"}


class SmallClusterAnswer(NamedTuple):
    """A command that ended; ``cluster`` is its document of the only cluster."""

    code: int
    cluster: dict[str, Any]


def _ask(kafka: KafkaCluster, *command: str) -> SmallClusterAnswer:
    argv = [sys.executable, "-m", "exporter", *command, "--bootstrap-server", kafka.bootstrap, "--output", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    schema = "-".join(word for word in command if not word.startswith("-"))
    return SmallClusterAnswer(done.returncode, conform(schema, json.loads(done.stdout))["clusters"][0])


def _checks(kafka: KafkaCluster) -> dict[str, dict[str, Any]]:
    """The posture checks of the transaction log, by name."""
    checks = _ask(kafka, "check", "posture").cluster["checks"]
    return {check["name"]: check for check in checks if check["subject"] == "__transaction_state"}


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


UNMADE = "__transaction_state cannot be made, no transactional producer can start"


@pytest.mark.timeout(300)
def test_a_log_that_no_broker_can_make_is_said_before_and_after_a_client_tries(
    start_agent: StartAgent, tmp_path: Path
) -> None:
    agents = JvmAgents(tmp_path)
    properties = {"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}
    with KafkaCluster("4.3.1", 1, properties=properties, jvm_options=agents.options, heap_mb=320) as kafka:
        config = tmp_path / "eos.yml"
        brokers = [{"jolokia": agents.jolokia("broker-1")}]
        cluster = {"name": "prod", "kafka": {"bootstrap.servers": kafka.bootstrap}, "brokers": brokers}
        config.write_text(json.dumps({"clusters": [cluster]}))
        for command, code in (("posture", 1), ("connection", 1)):
            assert _ask(kafka, "check", command).code == code
        creation = _checks(kafka)["internal_topic_creation"]
        assert (creation["verdict"], creation["subject"]) == ("failed", "__transaction_state")
        assert creation["found"] == f"{UNMADE}: transaction.state.log.replication.factor=3, and there is 1 broker"
        capabilities = _ask(kafka, "check", "connection").cluster["capabilities"]
        assert [row["faults"] for row in capabilities if row["name"] == "internal topics"] == [[creation["found"]]]
        roll = _ask(kafka, "check", "roll", "--all").cluster["brokers"][0]
        assert (roll["answer"], roll["rows"][0]["reason"]) == ("no", "not_made")
        topics = kafka.admin().list_topics(timeout=60).topics
        assert "__transaction_state" not in topics  # nothing that was asked has made it, or could have
        agent = start_agent("--config", str(config))
        agent.wait_until(lambda seen: seen.value(catalogue.POSTURE_CHECK, check="internal_topic_creation", **LOG) == 0)
        page = agent.get("/").text
        assert UNMADE in page
        assert "All fine" not in page
        before = agent.wait_until(lambda seen: seen.value(catalogue.BROKER_REQUEST_ERRORS_TOTAL, **REFUSED) is not None)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "pay-1", "log_level": 0})
        with pytest.raises(KafkaException):
            producer.init_transactions(5)
        counted = before.value(catalogue.BROKER_REQUEST_ERRORS_TOTAL, **REFUSED) or 0.0
        agent.wait_until(lambda seen: (seen.value(catalogue.BROKER_REQUEST_ERRORS_TOTAL, **REFUSED) or 0.0) > counted)


@pytest.mark.timeout(300)
def test_a_log_of_which_a_replica_s_broker_is_down_can_be_made() -> None:
    """A broker that is registered takes a replica, also while it is down (KIP-1073 lists it)."""
    properties = {"transaction.state.log.replication.factor": "2", "transaction.state.log.min.isr": "1"}
    with KafkaCluster("4.3.1", 2, properties=properties, transaction_partitions=LOG_PARTITIONS, heap_mb=320) as kafka:
        kafka.create_topic("orders", 1, min_insync_replicas="1")
        kafka.broker(2).stop()
        wait_for_brokers(kafka, 1)
        assert _checks(kafka)["internal_topic_creation"]["verdict"] == "passed"
        with RdkafkaProducer(kafka, "pay-1", timeout=60.0) as producer:
            producer.init()
        partitions = (
            kafka.admin().list_topics("__transaction_state", timeout=60).topics["__transaction_state"].partitions
        )
        assert {len(partition.replicas) for partition in partitions.values()} == {2}


def wait_for_brokers(kafka: KafkaCluster, number: int) -> None:
    deadline = Deadline.after(60)
    while len(kafka.admin().list_topics(timeout=60).brokers) != number:
        assert not deadline.over
        time.sleep(0.2)
