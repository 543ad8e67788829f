"""A real Debezium on a real PostgreSQL: its snapshot, its connection, its changes, by Jolokia and by a jmx_exporter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exporter import catalogue
from testkit import jars
from testkit.cluster import KafkaCluster
from testkit.connect import ConnectCluster
from testkit.jvm_agents import JvmAgents
from testkit.postgres import Postgres
from tests.e2e.conftest import StartAgent, in_proof

CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
SERVER = "shop"


class Capture(NamedTuple):
    """A connector that streams one table, and what it stands on."""

    kafka: KafkaCluster
    postgres: Postgres
    connect: ConnectCluster
    agents: JvmAgents

    def config(self, way: str) -> str:
        workers = [{way: getattr(self.agents, way)(worker.name)} for worker in self.connect.workers]
        connect: dict[str, Any] = {"name": "main", "interval": "500ms", "workers": workers}
        kafka = {"bootstrap.servers": self.kafka.bootstrap}
        return json.dumps({"clusters": [{"name": "demo", "kafka": kafka}], "connect": [connect]})


@pytest.fixture(scope="module")
def capture(clusters: Callable[..., KafkaCluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capture]:
    kafka = clusters("4.3.1")
    agents = JvmAgents(tmp_path_factory.mktemp("agents"))
    properties = {"plugin.path": str(jars.debezium())}
    with (
        Postgres({"wal_level": "logical"}) as postgres,
        ConnectCluster(kafka, "cdc", 1, properties=properties, jvm_options=agents.options) as connect,
    ):
        postgres.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 500)")
        kafka.create_topic(f"{SERVER}.public.orders")
        connect.create(
            SERVER,
            {
                **postgres.debezium(SERVER, "orders"),
                "retriable.restart.connector.wait.ms": 500,
                "key.converter": CONVERTER,
                "value.converter": CONVERTER,
            },
        )
        connect.wait_tasks(SERVER)
        yield Capture(kafka, postgres, connect, agents)


@pytest.mark.parametrize("way", ["jolokia", *in_proof("jmx_exporter")])
def test_a_snapshot_and_the_changes_after_it_are_shown(
    capture: Capture, way: str, start_agent: StartAgent, tmp_path: Path
) -> None:
    file = tmp_path / "agent.yml"
    file.write_text(capture.config(way))
    agent = start_agent("--config", str(file))
    agent.wait_until(
        lambda seen: (
            seen.value(catalogue.DEBEZIUM_SNAPSHOT_STATE, server=SERVER, database="postgres", state="completed") == 1
            and seen.value(catalogue.DEBEZIUM_CONNECTED, server=SERVER) == 1
        )
    )
    number = {"jolokia": 1000, "jmx_exporter": 2000}[way]
    capture.postgres.execute(f"INSERT INTO orders SELECT {number}")
    metrics = agent.wait_until(
        lambda seen: (
            (lag := seen.value(catalogue.DEBEZIUM_LAG_SECONDS, server=SERVER)) is not None
            and 0 <= lag < 60
            and seen.value(catalogue.DEBEZIUM_QUEUE_RECORDS, server=SERVER) == 0
        )
    )
    assert metrics.value(catalogue.DEBEZIUM_SNAPSHOT_REMAINING_TABLES, server=SERVER) == 0
    assert metrics.value(catalogue.DEBEZIUM_QUEUE_CAPACITY_RECORDS, server=SERVER) == 8192
    assert metrics.value(catalogue.SOURCE_UP, source="connect") == 1
