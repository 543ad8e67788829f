"""``transactions recent`` on a real broker: the last timeout of a dead client, and ids that expired."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exporter import catalogue
from testkit.cluster import KafkaCluster
from testkit.jvm_agents import JvmAgents
from testkit.workloads.producers import JavaProducer, ProducerClass, ProducerError, RdkafkaProducer
from tests.e2e.conftest import StartAgent, in_proof
from tests.helpers.schemas import conform


def recent(kafka: KafkaCluster) -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-m", "exporter", "transactions", "recent", "--output", "json"]
    argv += ["--bootstrap-server", kafka.bootstrap]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, conform("transactions-recent", json.loads(done.stdout))


@pytest.mark.parametrize("make", [RdkafkaProducer, *in_proof(JavaProducer)])
@pytest.mark.timeout(300)
def test_the_last_timeout_is_found_where_nothing_more_is_written(make: ProducerClass, start_agent: StartAgent) -> None:
    with KafkaCluster("4.3.1", 1, transaction_partitions=1, heap_mb=320) as kafka:
        kafka.create_topic("orders", 1)
        agent = start_agent("--bootstrap-server", kafka.bootstrap)
        agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 1)
        with make(kafka, "late-0", timeout=8.0) as producer:
            producer.init()
            producer.run(2, "orders")
            producer.begin()
            producer.send("orders")
            producer.flush()
            producer.kill()
        agent.wait_until(
            lambda seen: seen.value(catalogue.TRANSACTIONS_TOTAL, application="late", outcome="timed_out") == 1
        )
        code, found = recent(kafka)
        ends = agent.status()["clusters"][0]["unclean_ends"]
        assert (code, found["undecided"], found["not_asked"]) == (1, [], [])
        assert [_identity(end) for end in found["unclean_ends"]] == [_identity(end) for end in ends]
        assert [(end["transactional_id"], end["outcome"]) for end in ends] == [("late-0", "timed_out")]


@pytest.mark.parametrize("make", [RdkafkaProducer, *in_proof(JavaProducer)])
@pytest.mark.timeout(300)
def test_an_idle_producer_whose_id_expired_is_named_until_it_initialises_anew(
    make: ProducerClass, start_agent: StartAgent, tmp_path: Path
) -> None:
    properties = {
        "transactional.id.expiration.ms": "6000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    }
    agents = JvmAgents(tmp_path)
    with KafkaCluster(
        "4.3.1", 1, properties=properties, jvm_options=agents.options, transaction_partitions=1, heap_mb=320
    ) as kafka:
        kafka.create_topic("orders", 1)
        config = tmp_path / "eos.yml"
        cluster = {"name": "prod", "kafka": {"bootstrap.servers": kafka.bootstrap}}
        config.write_text(json.dumps({"clusters": [{**cluster, "brokers": [{"jolokia": agents.jolokia("broker-1")}]}]}))
        agent = start_agent("--config", str(config))
        agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 1)
        with make(kafka, "idle-0", timeout=5.0) as producer:
            producer.init()
            producer.run(2, "orders")
            agent.wait_until(lambda seen: seen.value(catalogue.EXPIRED_TRANSACTIONAL_IDS, application="idle") == 1)
            assert "idle-0" in _said(kafka)
            assert "Expired in the last hour" in agent.get("/").text
            with pytest.raises(ProducerError):
                producer.run(1, "orders")
            agent.wait_until(
                lambda seen: any(
                    sample.value > 0
                    for sample in seen.samples(
                        catalogue.BROKER_REQUEST_ERRORS_TOTAL, error="INVALID_PRODUCER_ID_MAPPING"
                    )
                )
            )
        with make(kafka, "idle-0", timeout=60.0) as restarted:
            restarted.init()
            agent.wait_until(lambda seen: seen.value(catalogue.EXPIRED_TRANSACTIONAL_IDS, application="idle") is None)


def _said(kafka: KafkaCluster) -> str:
    argv = [sys.executable, "-m", "exporter", "transactions", "recent", "--bootstrap-server", kafka.bootstrap]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False).stderr


def _identity(end: dict[str, Any]) -> tuple[Any, ...]:
    return end["transactional_id"], end["producer_id"], end["producer_epoch"], end["outcome"], end["ended_timestamp"]
