"""The grants of a Connect worker's principal on a real broker with ACLs, one by one, and that asking does no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from demo.cluster import KafkaCluster
from demo.settings import Security
from demo.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import EnterContext, in_proof
from tests.helpers.offsets import commit_offsets
from tests.helpers.schemas import conform

USER = "worker"
TOPICS = ("etl-configs", "etl-offsets", "etl-status", "orders")
NEEDED = (
    ("READ", "Group", "etl"),
    *((operation, "Topic", topic) for topic in TOPICS[:3] for operation in ("READ", "WRITE")),
    *(
        (operation, "TransactionalId", name)
        for name in ("connect-cluster-etl", "etl-lines-0", "etl-lines-1")
        for operation in ("WRITE", "DESCRIBE")
    ),
    ("WRITE", "Topic", "orders"),
)
IDEMPOTENT = ("IDEMPOTENT_WRITE", "Cluster", "kafka-cluster")

Rows = dict[tuple[str, str, str], dict[str, Any]]


@pytest.fixture(scope="module", params=["4.3.1", *in_proof("3.9.2")])
def secured(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    with KafkaCluster(request.param, security=Security.of(USER)) as kafka:
        for topic in TOPICS:
            kafka.create_topic(topic)
        with RdkafkaProducer(kafka, "before-1") as producer:  # makes __transaction_state
            producer.init()
            producer.run(1, "orders")
        yield kafka


def use_a_group(kafka: KafkaCluster) -> None:
    """Makes __consumer_offsets."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "before", "enable.auto.commit": False})
    try:
        commit_offsets(consumer, [TopicPartition("orders", 0, 1)])
    finally:
        consumer.close()


class GrantsAsked(NamedTuple):
    """The command's answer."""

    code: int
    out: str

    @property
    def rows(self) -> Rows:
        (cluster,) = conform("check-connection", json.loads(self.out))["clusters"]
        assert cluster["capabilities"] == []
        return {(row["operation"], row["resource_type"], row["resource"]): row for row in cluster["connect"]}


class WorkerPrincipal:
    """The command, as the principal of a worker."""

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        self._client = folder / "client.properties"
        lines = (f"{key}={value}\n" for key, value in kafka.client_properties(USER).items())
        self._client.write_text("".join(lines))
        self._file = folder / "worker.properties"
        names = (("config", TOPICS[0]), ("offset", TOPICS[1]), ("status", TOPICS[2]))
        self._file.write_text("group.id=etl\n" + "".join(f"{key}.storage.topic={name}\n" for key, name in names))
        self._bootstrap = kafka.sasl_bootstrap

    def ask(self, *topics: str, output: str = "json") -> GrantsAsked:
        argv = ["--bootstrap-server", self._bootstrap, "--command-config", str(self._client), "--output", output]
        argv += ["--connect", str(self._file), "--connector", "lines=2"]
        argv += [part for topic in topics for part in ("--topic", topic)]
        command = [sys.executable, "-m", "exporter", "check", "connection", *argv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return GrantsAsked(done.returncode, done.stdout)


@pytest.fixture
def worker(secured: KafkaCluster, tmp_path: Path) -> WorkerPrincipal:
    return WorkerPrincipal(secured, tmp_path)


def test_each_grant_is_refused_before_and_granted_after_it_is_made(
    secured: KafkaCluster, worker: WorkerPrincipal
) -> None:
    before = worker.ask("orders")
    assert {row["verdict"] for row in before.rows.values()} == {"refused"}
    assert before.code == 1
    for grant in NEEDED:
        secured.access.allow(USER, *grant)
    unused = worker.ask("orders").rows["READ", "Group", "etl"]
    assert unused["verdict"] == "not known"
    assert "no group was ever used" in unused["note"]
    use_a_group(secured)
    after = worker.ask("orders")
    assert {need: row["verdict"] for need, row in after.rows.items()} == dict.fromkeys((*NEEDED, IDEMPOTENT), "granted")
    assert "KIP-679" in after.rows[IDEMPOTENT]["note"]
    assert after.code == 0
    assert "granted" in worker.ask("orders", output="text").out
    for grant in NEEDED[-3:]:
        secured.access.revoke(USER, *grant)
        assert worker.ask("orders").rows[grant]["verdict"] == (
            "refused" if grant[0] == "WRITE" else "granted"  # WRITE on an id implies DESCRIBE
        )
        secured.access.allow(USER, *grant)
    secured.access.deny(USER, "WRITE", "TransactionalId", "etl-lines-0")
    denied = worker.ask("orders")
    assert denied.rows["WRITE", "TransactionalId", "etl-lines-0"]["verdict"] == "refused"
    assert denied.rows["WRITE", "TransactionalId", "etl-lines-1"]["verdict"] == "granted"
    secured.access.revoke(USER, "WRITE", "TransactionalId", "etl-lines-0", "DENY")
    not_there = ("WRITE", "Topic", "not-there")
    assert worker.ask("not-there").rows[not_there]["verdict"] == "refused"
    secured.access.allow(USER, *not_there)
    row = worker.ask("not-there").rows[not_there]
    assert row["verdict"] == "not known"
    assert "does not exist" in row["note"]


def test_asking_neither_fences_nor_ends_a_transaction_of_an_id_that_is_in_use(
    secured: KafkaCluster, worker: WorkerPrincipal, keep: EnterContext
) -> None:
    producer = keep(RdkafkaProducer(secured, "etl-lines-0"))
    producer.init()
    producer.begin()
    producer.send("orders")
    producer.flush()
    worker.ask("orders")
    producer.commit()
    producer.run(1, "orders")
    assert producer.counts.fenced == 0
