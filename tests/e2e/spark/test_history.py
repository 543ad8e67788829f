"""The history of real transactions: equal to the workload's counts and to the agent, whenever its writer is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from exporter import catalogue
from exporter.model import Deadline
from testkit.access import READ_ALL
from testkit.agent import COMMAND, AgentProcess
from testkit.cluster import KafkaCluster
from testkit.processes import Child, ProcessGroup, poll
from testkit.settings import Security, free_ports
from testkit.workloads.producers import EndedError, JavaProducer, Producer, RdkafkaProducer
from tests.helpers.schemas import conform

USER = "eos"
SECONDS = 240
"""For one thing to happen, on a machine that is busy with other tests."""
SHORT = 0.001
"""Between looks for a moment that is short."""


@dataclass
class HistoryRun:
    """A secured broker, an agent beside it, and a workload that runs until it is stopped."""

    kafka: KafkaCluster
    folder: Path
    processes: ProcessGroup
    agent: AgentProcess
    producers: list[Producer] = field(default_factory=list)
    runs: int = 0

    @property
    def output(self) -> Path:
        return self.folder / "history"

    @property
    def settings(self) -> Path:
        return self.folder / "client.properties"

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """Transactions by id and outcome."""
        return {
            (producer.counts.transactional_id, outcome): count
            for producer in self.producers
            for outcome, count in producer.counts.outcomes().items()
            if count
        }

    def run(self, *arguments: str) -> Child:
        self.runs += 1
        command = [str(COMMAND), "history", "run", *self.arguments, *arguments]
        return self.processes.start(f"history-{self.runs}", command)

    @property
    def arguments(self) -> list[str]:
        output = ["--output", str(self.output)]
        return ["--command-config", str(self.settings), *output, "--conf", "spark.driver.memory=1g"]

    def batches(self) -> set[str]:
        """Those of the history."""
        folder = self.output / "_batches"
        return {path.name for path in folder.iterdir() if path.name.isdecimal()} if folder.is_dir() else set()

    def rows(self) -> list[tuple[str, str, int, int]]:
        """Return what a plain reader of the folder finds: id, outcome, log partition and offset."""
        table = ds.dataset(self.output / "transactions", partitioning="hive").to_table(
            columns=["transactional_id", "outcome", "log_partition", "log_offset"]
        )
        return [tuple(row.values()) for row in table.to_pylist()]

    def counted(self) -> dict[tuple[str, str], int]:
        """The rows by id and outcome, none of them twice."""
        rows = self.rows()
        assert len({row[2:] for row in rows}) == len(rows)
        return Counter(row[:2] for row in rows)


def wait(what: Callable[[], object], child: Child, every: float = 0.25) -> None:
    """Look again after so many seconds."""
    until = Deadline.after(SECONDS)
    while not what():
        assert child.running, child.tail()
        assert poll(until, every), child.tail()


@pytest.fixture(scope="module")
def stage() -> Iterator[HistoryRun]:
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-history-"))
    try:
        with KafkaCluster("4.3.1", security=Security.of(USER)) as kafka, ProcessGroup(folder) as processes:
            kafka.access.allow_all_reads(USER)
            kafka.create_topic("orders", 3)
            properties = kafka.client_properties(USER)
            (folder / "client.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            agent = AgentProcess(
                processes, "--command-config", str(folder / "client.properties"), name="agent"
            ).wait_ready()
            yield HistoryRun(kafka, folder, processes, agent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def workload(stage: HistoryRun, over: threading.Event) -> None:
    """Both generations of clients: commits, aborts and fences until it is over, and one timeout."""
    sleepy, *busy = stage.producers
    sleepy.init()
    sleepy.begin()
    sleepy.send("orders")
    sleepy.flush()
    for producer in busy:
        producer.init()
    while not over.wait(1.0):
        for producer in busy:
            producer.run_to_every_end(20, "orders")
    # The coordinator looks every ten seconds for what is past its timeout.
    stage.agent.wait_until(lambda metrics: metrics.total(catalogue.TRANSACTIONS_TOTAL, outcome="timed_out"), SECONDS)
    with suppress(EndedError):
        sleepy.commit()


def test_rows_are_the_books_and_the_agents_counts_though_the_writer_is_killed_at_its_worst_moments(
    stage: HistoryRun,
) -> None:
    for name, kind, timeout in (
        ("sleepy", RdkafkaProducer, 3.0),
        ("pay", RdkafkaProducer, 60.0),
        ("ship", JavaProducer, 60.0),
    ):
        stage.producers.append(kind(stage.kafka, f"{name}-1", timeout=timeout))
    over = threading.Event()
    work = threading.Thread(target=workload, args=(stage, over))
    work.start()
    try:
        often = ("--interval", "1s", "--max-records-per-batch", "300")
        # Killed when a late batch was just committed.
        first = stage.run(*often)
        wait(lambda: len(stage.batches()) >= 3, first)
        seen = stage.batches()
        wait(lambda: stage.batches() - seen, first)
        first.kill()
        late = max(stage.batches(), key=int)
        assert stage.counted()
        # Killed in the middle of a batch: what it wrote of it is nothing.
        second = stage.run(*often)
        wait(lambda: max(map(int, stage.batches())) > int(late), second)
        wait(lambda: any((stage.output / "_tmp").glob("*/rows")), second, SHORT)
        second.kill()
        stage.counted()
    finally:
        over.set()
        work.join()
        for producer in stage.producers:
            producer.close()
    # Followed to the end by a third, which ends in good order.
    third = stage.run("--interval", "1s")
    wait(lambda: len(stage.rows()) >= sum(stage.counts.values()), third)
    third.signal(signal.SIGTERM)
    assert third.wait(Deadline.after(SECONDS)) == 0, third.tail()
    assert stage.counted() == stage.counts
    assert {outcome for _, outcome in stage.counts} == {"committed", "aborted", "fenced", "timed_out"}
    metrics = stage.agent.wait_until(
        lambda metrics: metrics.total(catalogue.TRANSACTIONS_TOTAL) >= sum(stage.counts.values()), SECONDS
    )
    agents = {
        (f"{sample.labels['application']}-1", sample.labels["outcome"]): sample.value
        for sample in metrics.samples(catalogue.TRANSACTIONS_TOTAL)
        if sample.value
    }
    assert agents == stage.counts
    for log in stage.folder.glob("history-*.log"):
        assert stage.kafka.client_properties(USER)["sasl.password"] not in log.read_text()


def test_a_run_to_the_end_adds_nothing_when_all_is_there(stage: HistoryRun) -> None:
    before = stage.rows()
    once = stage.run("--once")
    assert once.wait(Deadline.after(SECONDS)) == 0, once.tail()
    assert sorted(stage.rows()) == sorted(before)


def test_the_report_tells_the_same(stage: HistoryRun) -> None:
    done = command("history", "report", "--input", str(stage.output), "--output", "json")
    assert done.returncode == 1  # there were fences
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


# --- What cannot go well is said before Spark starts, and nothing is written ---


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={**os.environ, **environment},
    )


def refused(stage: HistoryRun, changed: Mapping[str, str]) -> str:
    """Return what it says with these flags in place of the usual ones."""
    files = sorted(stage.output.rglob("*"))
    flags = {"--command-config": str(stage.settings), "--output": str(stage.output), **changed}
    done = command("history", "run", "--once", *(word for flag in flags.items() for word in flag))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(stage.output.rglob("*")) == files
    return done.stderr


def test_a_cluster_that_is_down_is_named(stage: HistoryRun) -> None:
    down = stage.folder / "down.properties"
    down.write_text(f"bootstrap.servers=127.0.0.1:{free_ports(1)[0]}\n")
    assert "no broker answers" in refused(stage, {"--command-config": str(down)})


def test_a_missing_grant_on_the_log_is_named(stage: HistoryRun) -> None:
    stage.kafka.access.deny(USER, "READ", "Topic", "__transaction_state")
    try:
        assert "READ on Topic:__transaction_state" in refused(stage, {})
    finally:
        stage.kafka.access.revoke(USER, "READ", "Topic", "__transaction_state", "DENY")
    assert READ_ALL


def test_the_history_of_another_cluster_is_left_alone(stage: HistoryRun) -> None:
    file = stage.output / "_history.json"
    mine = file.read_text()
    file.write_text(mine.replace(json.loads(mine)["cluster_id"], "another-cluster"))
    try:
        assert "is the history of cluster another-cluster" in refused(stage, {})
    finally:
        file.write_text(mine)
