"""One broker, one Spark driver with its queries, and an agent for each way of seeing them; shared by a file's tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from demo.agent import Agent, Metrics
from demo.cluster import KafkaCluster
from demo.processes import ProcessGroup
from demo.spark import SparkDriver

SECONDS = 90
"""For one thing to be seen, on a machine that is busy with other tests."""


@dataclass(frozen=True)
class SparkStage:
    """``agents`` by the way that they see the queries by: ``listener``, ``event_log``, ``checkpoint``, or ``all``."""

    kafka: KafkaCluster
    driver: SparkDriver
    agents: dict[str, Agent]

    def wait(self, way: str, what: Callable[[Metrics], object]) -> Metrics:
        return self.agents[way].wait_until(what, SECONDS)


@pytest.fixture(scope="module")
def spark_stage(clusters: Callable[..., KafkaCluster]) -> Iterator[SparkStage]:
    """A driver named ``billing``; its checkpoints will be those of the queries ``copy`` and ``stuck``."""
    kafka = clusters("4.3.1")
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-spark-"))
    try:
        with ProcessGroup(folder) as processes:
            agents: dict[str, Agent] = {}

            def start(way: str, **settings: object) -> None:
                file = folder / f"{way}.yml"
                cluster = {"name": "prod", "kafka": {"bootstrap.servers": kafka.bootstrap}}
                file.write_text(yaml.safe_dump({"clusters": [cluster], **settings}))
                agents[way] = Agent(processes, "--config", str(file), name=way)

            events = {"event_log": str(folder / "events"), "interval": "2s"}
            checkpoints = [
                {"checkpoint": str(folder / "checkpoints" / name), "interval": "2s"} for name in ("copy", "stuck")
            ]
            start("listener", ingest={"enabled": True})
            start("event_log", spark=[events])
            start("checkpoint", spark=checkpoints)
            start("all", spark=[events, *checkpoints], ingest={"enabled": True})
            reports = [agents[way].url for way in ("listener", "all")]
            driver = SparkDriver(kafka, "billing", reports, folder)
            for agent in agents.values():
                agent.wait_ready()
            driver.wait_ready()
            yield SparkStage(kafka, driver, agents)
            driver.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
