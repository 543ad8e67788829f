"""The posture of a real cluster with a real Connect beside it: no check is left unknown, and what is wrong is named."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from exporter import catalogue
from exporter.posture.stable_ids import STABLE, START_GAP
from testkit.cluster import KafkaCluster
from testkit.connect import ConnectCluster
from testkit.settings import Security
from testkit.workloads.producers import JavaProducer, RdkafkaProducer
from tests.e2e.conftest import StartAgent
from tests.helpers.offsets import commit_offsets
from tests.helpers.schemas import conform

GOOD, POOR = "well-kept", "poorly-kept"
READER = "billing"
APPLICATIONS = ("modern", "elderly")


class PostureTarget(NamedTuple):
    """A cluster, its Connect, and the settings that watch both."""

    kafka: KafkaCluster
    config: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostureTarget]:
    folder = tmp_path_factory.mktemp("posture")
    lines = folder / "lines.txt"
    lines.write_text("one\ntwo\n")
    with KafkaCluster("4.3.1", 3, heap_mb=384) as kafka, ConnectCluster(kafka, "etl", workers=1) as connect:
        kafka.create_topic(GOOD, 1, min_insync_replicas="2")
        kafka.create_topic(POOR, 1, unclean_leader_election_enable="true")
        kafka.create_topic("lines", 1, min_insync_replicas="2")
        connect.create_file_source("lines", lines, "lines", exactly_once_support="required")
        for make, name in ((JavaProducer, APPLICATIONS[0]), (RdkafkaProducer, APPLICATIONS[1])):
            with make(kafka, f"{name}-1") as producer:
                producer.init()
                producer.run(2, GOOD)
                producer.run(1, POOR)
        plain = Producer({"bootstrap.servers": kafka.bootstrap})
        plain.produce(GOOD, b"outside of a transaction")
        plain.flush(60)
        reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": READER})
        commit_offsets(reader, [TopicPartition(topic, 0, 0) for topic in (GOOD, POOR)])
        reader.close()
        config = folder / "config.yml"
        config.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": kafka.bootstrap}}],
                    "connect": [{"name": "main", "group_id": "etl", "rest": list(connect.urls)}],
                }
            )
        )
        yield PostureTarget(kafka, config)


class PostureResult(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str

    def checks(self) -> dict[tuple[str, str], dict[str, Any]]:
        found = conform("check-posture", json.loads(self.out))["clusters"][0]["checks"]
        return {(check["name"], check["subject"]): check for check in found}


def _check(*arguments: str) -> PostureResult:
    argv = [sys.executable, "-m", "exporter", "check", "posture", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return PostureResult(done.returncode, done.stdout, done.stderr)


def test_no_check_is_unknown_where_everything_may_be_asked_and_faults_are_named(place: PostureTarget) -> None:
    done = _check("--config", str(place.config), "--output", "json")
    checks = done.checks()
    assert {check["verdict"] for check in checks.values()} == {"passed", "failed", "information"}
    # The workers' own config topic is written to in transactions by their leader.
    failed = {
        (name, subject)
        for (name, subject), check in checks.items()
        if check["verdict"] == "failed" and not subject.startswith("etl-connect-")
    }
    assert failed == {
        ("unclean_leader_election", POOR),
        ("topic_min_isr", POOR),
        ("connect_offsets_topic", "main/lines"),
    }
    assert checks["connect_worker_exactly_once", "main/lines"]["verdict"] == "passed"
    assert checks["transaction_clients", APPLICATIONS[0]]["verdict"] == "passed"
    assert checks["transaction_clients", APPLICATIONS[1]]["verdict"] == "information"
    assert checks["internal_topic_replication", "__transaction_state"]["found"] == "replication factor 3"
    assert checks["plain_writers", POOR]["verdict"] == "passed"
    assert checks["plain_writers", GOOD]["verdict"] == "information"
    assert f"in 1 of 1 partitions; read by {READER}" in checks["plain_writers", GOOD]["found"]
    assert all(check["why"] and check["fix"] for check in checks.values())
    assert done.code == 1


def test_the_table_says_what_to_set_and_ignored_checks_are_left_out(place: PostureTarget) -> None:
    done = _check("--config", str(place.config), "--ignore", "transaction_clients", "--ignore", f"topic_min_isr:{POOR}")
    assert done.code == 1
    assert "unclean.leader.election.enable=false on the brokers and on the topic" in done.out
    assert "transaction_clients" not in done.out
    assert f"topic_min_isr  {POOR}" not in " ".join(done.out.split())


def test_the_agent_exposes_the_same_checks(place: PostureTarget, start_agent: StartAgent) -> None:
    agent = start_agent("--config", str(place.config))
    metrics = agent.wait_until(
        lambda seen: seen.value(catalogue.POSTURE_CHECK, check="topic_min_isr", subject=POOR) == 0
    )
    assert metrics.value(catalogue.POSTURE_CHECK, check="topic_min_isr", subject=GOOD) == 1
    assert metrics.value(catalogue.POSTURE_CHECK, check="transaction_version", subject="prod") == 1
    assert metrics.value(catalogue.SOURCE_UP, source="posture") == 1
    sizes = metrics.samples(catalogue.INTERNAL_TOPIC_SIZE_BYTES, topic="__transaction_state")
    assert {sample.labels["broker"] for sample in sizes} == {str(broker.id) for broker in place.kafka.brokers}
    assert all(sample.value > 0 for sample in sizes)  # three replicas of each partition
    for size in metrics.samples(catalogue.BROKER_LOG_DIR_SIZE_BYTES):
        (usable,) = metrics.samples(catalogue.BROKER_LOG_DIR_USABLE_BYTES, **size.labels)
        assert 0 < usable.value < size.value


@pytest.mark.proof
def test_a_refused_grant_leaves_its_checks_unknown_with_the_grant(tmp_path: Path) -> None:
    with KafkaCluster("4.3.1", security=Security.of("eos")) as kafka:
        kafka.access.allow_all_reads("eos")
        kafka.access.revoke("eos", "DESCRIBE_CONFIGS", "Cluster", "kafka-cluster")
        properties = tmp_path / "client.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in kafka.client_properties("eos").items()))
        arguments = ("--bootstrap-server", kafka.sasl_bootstrap, "--command-config", str(properties))
        done = _check(*arguments, "--output", "json")
        unknown = [check for check in done.checks().values() if check["verdict"] == "unknown"]
        assert {check["name"] for check in unknown} >= {"transaction_max_timeout", "transactional_id_expiration"}
        assert all("DESCRIBE_CONFIGS on Cluster" in check["error"] for check in unknown)
        assert done.code in (1, 2)


@pytest.mark.proof
def test_ids_that_are_new_at_every_start_are_found_and_stable_ones_are_not(
    place: PostureTarget, start_agent: StartAgent, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    restless, steady = fresh("restless"), fresh("steady")
    config = tmp_path / "config.yml"
    watched = {"name": "prod", "kafka": {"bootstrap.servers": place.kafka.bootstrap}, "posture": {"interval": "5s"}}
    config.write_text(json.dumps({"clusters": [watched]}))
    agent = start_agent("--config", str(config))
    agent.wait_until(lambda seen: seen.value(catalogue.RECENT_APPLICATIONS) is not None)
    for _ in range(4):
        with (
            RdkafkaProducer(place.kafka, f"{restless}-{uuid4()}") as changing,
            RdkafkaProducer(place.kafka, f"{steady}-1") as keeping,
        ):
            changing.init()
            keeping.init()
            end = time.monotonic() + 1.1 * START_GAP
            while time.monotonic() < end:
                changing.run(1, GOOD)
                keeping.run(1, GOOD)
    found = agent.wait_until(
        lambda seen: seen.value(catalogue.POSTURE_CHECK, check=STABLE.name, subject=restless) == 0, timeout=230
    )
    assert found.value(catalogue.POSTURE_CHECK, check=STABLE.name, subject=steady) is None
