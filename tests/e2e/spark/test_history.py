"""The history of real transactions in each format: equal to the workload's counts and to the agent, whenever its writer
is killed. HISTORY_KILLS=20 kills each writer twenty times.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exporter import catalogue
from exporter.jobs.history.table import CHECKPOINT, HistoryTable
from exporter.jobs.lakes import LAKES
from exporter.jobs.session import spark_session
from exporter.model import Deadline
from testkit.access import READ_ALL
from testkit.agent import COMMAND, AgentProcess
from testkit.cluster import KafkaCluster
from testkit.processes import Child, ProcessGroup, poll
from testkit.s3 import S3Server
from testkit.settings import Security, free_ports
from testkit.spark_cluster import conf_flags
from testkit.workloads.producers import EndedError, JavaProducer, Producer, RdkafkaProducer
from tests.bench.machine import family
from tests.e2e.spark.packages import released
from tests.helpers.schemas import conform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USER = "eos"
SECONDS = 240
"""For one thing to happen, on a machine that is busy with other tests."""
KILLS = int(os.environ.get("HISTORY_KILLS", "3"))
FORMATS = ["parquet", *(name for name, lake in LAKES.items() if lake in released())]
SMALL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


@dataclass
class HistoryStage:
    """A secured broker, an agent beside it, producers, and a folder for tables."""

    kafka: KafkaCluster
    folder: Path
    processes: ProcessGroup
    agent: AgentProcess
    producers: list[Producer] = field(default_factory=list)
    runs: int = 0

    @property
    def settings(self) -> Path:
        return self.folder / "client.properties"

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """Transactions by id and outcome."""
        return Counter(
            {
                (producer.counts.transactional_id, outcome): count
                for producer in self.producers
                for outcome, count in producer.counts.outcomes().items()
                if count
            }
        )

    def work(self, count: int) -> None:
        for producer in self.producers[1:]:
            producer.run_to_every_end(count, "orders")

    def table(self, name: str) -> HistoryTable:
        return HistoryTable(name, str(self.folder / "tables" / name))

    def start(self, table: HistoryTable, *arguments: str) -> Child:
        self.runs += 1
        where = ("--command-config", str(self.settings), "--format", table.format, "--output", table.url)
        conf = conf_flags(
            {**SMALL, "spark.eventLog.enabled": "true", "spark.eventLog.dir": str(self.folder / "events")}
        )
        command = [str(COMMAND), "history", *where, "--master", "local[2]", *conf, *arguments]
        return self.processes.start(f"history-{self.runs}", command)


def wait(what: Callable[[], object], child: Child, every: float = 0.1) -> None:
    until = Deadline.after(SECONDS)
    while not what():
        assert child.running, child.tail()
        assert poll(until, every), child.tail()


def kill(child: Child, *, whole: bool) -> None:
    """SIGKILL the driver; its JVM and workers at the same moment, or else they are left to end what they do."""
    for pid in [*family(child.pid)] if whole else []:  # all of them, before the first is gone
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    child.kill()


@pytest.fixture(scope="module")
def stage() -> Iterator[HistoryStage]:
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-history-"))
    try:
        with KafkaCluster("4.3.1", security=Security.of(USER)) as kafka, ProcessGroup(folder) as processes:
            kafka.access.allow_all_reads(USER)
            kafka.create_topic("orders", 3)
            (folder / "events").mkdir()
            properties = kafka.client_properties(USER)
            (folder / "client.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            agent = AgentProcess(
                processes, "--command-config", str(folder / "client.properties"), name="agent"
            ).wait_ready()
            made = HistoryStage(kafka, folder, processes, agent)
            for name, kind, timeout in (
                ("sleepy", RdkafkaProducer, 3.0),
                ("pay", RdkafkaProducer, 60.0),
                ("ship", JavaProducer, 60.0),
            ):
                made.producers.append(kind(kafka, f"{name}-1", timeout=timeout))
                made.producers[-1].init()
            sleepy = made.producers[0]
            sleepy.begin()
            sleepy.send("orders")
            sleepy.flush()
            made.work(20)
            # The coordinator looks every ten seconds for what is past its timeout.
            agent.wait_until(lambda metrics: metrics.total(catalogue.TRANSACTIONS_TOTAL, outcome="timed_out"), SECONDS)
            with suppress(EndedError):
                sleepy.commit()
            yield made
            for producer in made.producers:
                producer.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def spark(stage: HistoryStage) -> Iterator[SparkSession]:
    """A session that reads all formats."""
    tables = [stage.table(name) for name in FORMATS]
    conf = dict(SMALL)
    for table in tables:
        conf |= table.conf
    conf["spark.sql.extensions"] = ",".join(
        table.conf["spark.sql.extensions"] for table in tables if "spark.sql.extensions" in table.conf
    )
    packages = [package for table in tables for package in table.packages]
    with spark_session("read", master="local[2]", packages=packages, conf=conf) as session:
        yield session


def counted(table: HistoryTable, spark: SparkSession) -> Counter[tuple[str, str]]:
    """The rows by id and outcome, none of them twice."""
    rows = table.rows(spark).select("transactional_id", "outcome", "log_partition", "log_offset").collect()
    assert len({row[2:] for row in rows}) == len(rows)
    return Counter((row.transactional_id, row.outcome) for row in rows)


@pytest.mark.timeout((KILLS + 3) * SECONDS)
@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_the_producers_counts_whenever_the_writer_is_killed(
    stage: HistoryStage, spark: SparkSession, name: str
) -> None:
    table = stage.table(name)
    checkpoint = Path(table.url, CHECKPOINT)
    chance = random.Random(f"{name} {KILLS}")

    def batches(kind: str) -> int:
        return max((int(file.name) for file in (checkpoint / kind).glob("*") if file.name.isdecimal()), default=-1)

    for number in range(KILLS):
        child = stage.start(table, "--interval", "1s")
        before = batches("commits")
        stage.work(10)
        wait(lambda: batches("commits") > before, child)  # noqa: B023 -- of this round
        stage.work(10)
        if number % 3:
            wait(lambda: batches("offsets") > batches("commits"), child, 0.001)
        time.sleep(chance.random() / 2)
        kill(child, whole=number % 2 == 1)
    last = stage.start(table, "--interval", "1s")
    wait(lambda: batches("commits") >= 0, last)
    until = Deadline.after(SECONDS)
    while sum(counted(table, spark).values()) < sum(stage.counts.values()):
        assert last.running, last.tail()
        assert poll(until, 1.0), last.tail()
    last.signal(signal.SIGTERM)
    assert last.wait(Deadline.after(SECONDS)) == 0, last.tail()
    assert counted(table, spark) == stage.counts
    assert {outcome for _, outcome in stage.counts} == {"committed", "aborted", "fenced", "timed_out"}
    # A run to the end adds nothing when all is there.
    once = stage.start(table, "--once")
    assert once.wait(Deadline.after(SECONDS)) == 0, once.tail()
    assert counted(table, spark) == stage.counts


def test_the_agent_counts_the_same(stage: HistoryStage) -> None:
    metrics = stage.agent.wait_until(
        lambda metrics: metrics.total(catalogue.TRANSACTIONS_TOTAL) >= sum(stage.counts.values()), SECONDS
    )
    agents = {
        (f"{sample.labels['application']}-1", sample.labels["outcome"]): sample.value
        for sample in metrics.samples(catalogue.TRANSACTIONS_TOTAL)
        if sample.value
    }
    assert agents == stage.counts


@pytest.mark.parametrize("name", FORMATS)
def test_the_report_counts_the_same(stage: HistoryStage, name: str) -> None:
    once = stage.start(stage.table(name), "--once")
    assert once.wait(Deadline.after(SECONDS)) == 0, once.tail()
    where = ("--input", stage.table(name).url, "--format", name, *conf_flags(SMALL))
    done = command("history", "report", *where, "--output", "json")
    assert done.returncode == 1, done.stderr  # there were fences
    said = conform("history-report", json.loads(done.stdout))
    totals = Counter[str]()
    for (_, outcome), count in stage.counts.items():
        totals[outcome] += count
    assert said["outcomes"] == totals
    assert {fence["transactional_id"]: fence["count"] for fence in said["fences"]} == {
        name: count for (name, outcome), count in stage.counts.items() if outcome == "fenced"
    }
    # It is open all the while; on a busy machine another one may be open for long enough to be listed below it.
    assert said["holds"][0]["transactional_id"] == "sleepy-1"


def test_a_table_on_an_object_store_has_the_same_rows(stage: HistoryStage) -> None:
    store = S3Server(stage.processes, stage.folder)
    table = HistoryTable("delta", f"s3a://{store.bucket}/eos")
    # S3Proxy has no empty folders, and Spark looks for that of the checkpoint when it has made it.
    position = ("--checkpoint", str(stage.folder / "checkpoint"))
    once = stage.start(table, "--once", *position, *conf_flags(store.conf))
    assert once.wait(Deadline.after(SECONDS)) == 0, once.tail()
    where = ("--input", table.url, "--format", "delta", *conf_flags({**SMALL, **store.conf}))
    done = command("history", "report", *where, "--output", "json")
    assert sum(json.loads(done.stdout)["outcomes"].values()) == sum(stage.counts.values()), done.stderr


def test_a_password_is_in_no_log(stage: HistoryStage) -> None:
    password = stage.kafka.client_properties(USER)["sasl.password"].encode()
    files = [*stage.folder.glob("history-*.log"), *(stage.folder / "events").rglob("*")]
    assert files
    assert not [file for file in files if file.is_file() and password in file.read_bytes()]


# --- What cannot go well is one line, and the table stays as it is ---


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={**os.environ, **environment},
    )


def refused(stage: HistoryStage, changed: Mapping[str, str]) -> str:
    """Return what it says with these flags in place of the usual ones."""
    table = stage.table("parquet")
    rows = sorted(Path(table.url).glob("day=*/*"))
    flags = {"--command-config": str(stage.settings), "--output": table.url, "--master": "local[2]", **changed}
    done = command("history", "--once", *(word for flag in flags.items() for word in flag))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(Path(table.url).glob("day=*/*")) == rows
    return done.stderr


def test_a_cluster_that_is_down_is_named(stage: HistoryStage) -> None:
    down = stage.folder / "down.properties"
    down.write_text(f"bootstrap.servers=127.0.0.1:{free_ports(1)[0]}\n")
    assert "no broker answers" in refused(stage, {"--command-config": str(down)})


def test_a_missing_grant_on_the_log_is_named(stage: HistoryStage) -> None:
    stage.work(1)
    stage.kafka.access.deny(USER, "READ", "Topic", "__transaction_state")
    try:
        assert "READ on Topic:__transaction_state" in refused(stage, {})
    finally:
        stage.kafka.access.revoke(USER, "READ", "Topic", "__transaction_state", "DENY")
    assert READ_ALL


def test_the_table_of_another_cluster_is_left_alone(stage: HistoryStage) -> None:
    with KafkaCluster("4.3.1") as other:
        producer = RdkafkaProducer(other, "pay-1")
        producer.init()
        producer.close()
        properties = stage.folder / "other.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in other.client_properties().items()))
        assert "give each cluster a checkpoint" in refused(stage, {"--command-config": str(properties)})
