"""Another cluster answers at the same address while the agent runs: another one, or the same one formatted again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import catalogue
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.workloads.producers import RdkafkaProducer
from tests.e2e.conftest import StartAgent, in_proof

LOG_PARTITIONS = 2


@pytest.fixture
def own_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("4.3.1", 1, transaction_partitions=LOG_PARTITIONS, heap_mb=320) as kafka:
        yield kafka


def commit(kafka: KafkaCluster, topic: str, commits: int) -> None:
    kafka.create_topic(topic)
    with RdkafkaProducer(kafka, "pay-1", timeout=60.0) as producer:
        producer.init()
        producer.run(commits, topic)


def committed(seen: Metrics) -> float | None:
    return seen.value(catalogue.TRANSACTIONS_TOTAL, application="pay", outcome="committed")


def faults(agent: AgentProcess) -> set[str]:
    return {
        fault["reason"]
        for source in agent.status()["clusters"][0]["sources"]
        if source["source"] in {"txnlog", "transactions"}
        for fault in source["faults"]
    }


@pytest.mark.parametrize("same_id", [*in_proof(False), True])
def test_nothing_of_another_cluster_is_counted_until_a_restart(
    own_cluster: KafkaCluster, start_agent: StartAgent, tmp_path: Path, same_id: bool
) -> None:
    arguments = ("--bootstrap-server", own_cluster.bootstrap, "--state.dir", str(tmp_path), "--cluster.name", "prod")
    own_cluster.create_topic("first")
    with RdkafkaProducer(own_cluster, "pay-1", timeout=60.0) as producer:
        producer.init()
        agent = start_agent(*arguments)
        agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 1)
        producer.run(10, "first")
        agent.wait_until(lambda seen: committed(seen) == 10)
    own_cluster.format_again(same_id=same_id)
    commit(own_cluster, "orders", 30)
    agent.wait_until(lambda seen: seen.value(catalogue.SOURCE_UP, source="txnlog") == 0)
    seen: list[float | None] = []

    def is_told(metrics: Metrics) -> bool:
        seen.append(committed(metrics))
        return faults(agent) == {"identity"}

    agent.wait_until(is_told)
    commits = len(seen)
    agent.wait_until(lambda metrics: is_told(metrics) and len(seen) > commits + 10)
    assert set(seen) <= {10.0, None}
    agent.kill()
    again = start_agent(*arguments, name="again")
    again.wait_until(lambda metrics: metrics.value(catalogue.SOURCE_UP, source="txnlog") == 1)
    commit(own_cluster, "payments", 5)
    again.wait_until(lambda metrics: committed(metrics) == 5)
    again.stop()
    kept = sorted(path.name for path in tmp_path.glob("*/txnlog*.json"))
    assert len(kept) == 2, "each has its own state"
