"""One broker, one Spark driver with its queries, and an agent that sees them by each way; shared by a file's tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from exporter.jobs.lakes import LAKES, Lake
from testkit.agent import AgentProcess, Metrics
from testkit.cluster import KafkaCluster
from testkit.postgres import Postgres
from testkit.processes import QUICK_START, ProcessGroup
from testkit.spark import SparkDriver
from tests.e2e.spark.auditing import Auditor, auditor
from tests.e2e.spark.packages import released

SECONDS = 150
"""For one thing to be seen, on a machine that is busy with other tests."""

WAYS = ("listener", "event_log", "checkpoint", "all")
"""The agent's name of the cluster where it sees the queries by this way alone, or by all of them."""


@pytest.fixture(scope="session", autouse=True)
def quick_start() -> None:
    """Have the JVMs of Spark compile as all others here do; without it they compile for half of their CPU time."""
    os.environ["JDK_JAVA_OPTIONS"] = " ".join(QUICK_START)


@dataclass(frozen=True)
class SparkStage:
    """A cluster, a Spark driver on it, and an agent that has the cluster under the names of WAYS."""

    kafka: KafkaCluster
    driver: SparkDriver
    agent: AgentProcess

    def wait(self, what: Callable[[Metrics], object]) -> Metrics:
        return self.agent.wait_until(what, SECONDS)


@pytest.fixture(scope="module")
def spark_stage(clusters: Callable[..., KafkaCluster]) -> Iterator[SparkStage]:
    """A driver named ``billing``; its checkpoints will be those of the queries ``copy`` and ``stuck``."""
    kafka = clusters("4.3.1")
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-spark-"))
    events = {"event_log": str(folder / "events"), "interval": "2s"}
    checkpoints = [{"checkpoint": str(folder / "checkpoints" / name), "interval": "2s"} for name in ("copy", "stuck")]
    settings = {
        "clusters": [{"name": way, "watch": False, "kafka": {"bootstrap.servers": kafka.bootstrap}} for way in WAYS],
        "spark": [
            {**events, "cluster": "event_log"},
            *({**checkpoint, "cluster": "checkpoint"} for checkpoint in checkpoints),
            *({**target, "cluster": "all"} for target in (events, *checkpoints)),
        ],
        "ingest": {"enabled": True},
    }
    (folder / "config.yml").write_text(yaml.safe_dump(settings))
    try:
        with ProcessGroup(folder) as processes:
            agent = AgentProcess(processes, "--config", str(folder / "config.yml"))
            driver = SparkDriver(kafka, "billing", [(agent.url, way) for way in ("listener", "all")], folder)
            agent.wait_ready(SECONDS)
            driver.wait_ready()
            yield SparkStage(kafka, driver, agent)
            driver.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def audits(clusters: Callable[..., KafkaCluster], request: pytest.FixtureRequest) -> Iterator[Auditor]:
    """A process has one Spark at a time, so that of a file ends with it. It has the table formats where a test of this
    run needs them.
    """
    needed = any("lake_audits" in getattr(item, "fixturenames", ()) for item in request.session.items)
    with auditor(clusters("4.3.1"), released() if needed else ()) as one:
        yield one


@pytest.fixture(scope="module")
def lake_audits(audits: Auditor) -> Auditor:
    """An auditor of tables, in the formats that have a release for this Spark."""
    return audits


@pytest.fixture(params=list(LAKES))
def lake(
    lake_audits: Auditor,
    fresh: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Lake:
    """A table of each format that does not exist yet. All are in one folder: a session keeps its first catalog."""
    chosen, url = LAKES[request.param], str(tmp_path_factory.getbasetemp() / "lakes" / fresh("table"))
    if chosen not in released():
        pytest.skip("this Spark has no release of the format")
    for key, value in chosen.conf(url).items():
        if ".catalog." in key:
            lake_audits.session.conf.set(key, value)
    return chosen(lake_audits.session, url)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres({"max_prepared_transactions": "4"}) as server:
        yield server
