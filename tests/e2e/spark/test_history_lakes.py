"""Histories of each format: the rows of one whole run, whenever the writer is killed.

HISTORY_KILLS=100 kills a writer a hundred times.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from exporter.jobs.history.lake_table import STATE
from exporter.jobs.history.store import BATCHES
from exporter.jobs.lakes.formats import LAKES
from exporter.jobs.lakes.lake import Lake
from exporter.jobs.session import spark_session
from exporter.model import Deadline
from testkit.agent import COMMAND
from testkit.cluster import KafkaCluster
from testkit.processes import Child, ProcessGroup, poll, run_to_end
from testkit.s3 import S3Server
from testkit.spark_cluster import conf_flags
from testkit.workloads.producers import RdkafkaProducer
from tests.bench.machine import family
from tests.e2e.spark.packages import released

FORMATS = ("parquet", *LAKES)
KILLS = int(os.environ.get("HISTORY_KILLS", "20"))
SECONDS = 240
TRANSACTIONS = 300
COLUMNS = ["transactional_id", "outcome", "producer_id", "producer_epoch", "log_partition", "log_offset"]
SMALL = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}


@dataclass
class LakeStage:
    """A broker, and a folder for histories of it."""

    kafka: KafkaCluster
    folder: Path
    processes: ProcessGroup
    producers: list[RdkafkaProducer]
    runs: int = 0

    def work(self, count: int = TRANSACTIONS) -> None:
        """Run committed, aborted and fenced transactions."""
        for producer in self.producers:
            producer.run_to_every_end(count, "orders")

    def run(self, *arguments: str) -> Child:
        self.runs += 1
        where = ["--bootstrap-server", self.kafka.bootstrap, "--master", "local[2]", *conf_flags(SMALL)]
        return self.processes.start(f"run-{self.runs}", [str(COMMAND), "history", "run", *where, *arguments])

    def run_once(self, *arguments: str) -> None:
        once = self.run("--once", *arguments)
        assert once.wait(Deadline.after(SECONDS)) == 0, once.tail()

    def parquet(self) -> list[tuple[Any, ...]]:
        """The rows of the history in Parquet, written to the end of the log."""
        output = self.folder / "parquet"
        self.run_once("--output", str(output))
        return rows_in(output)

    @property
    def ended(self) -> Counter[str]:
        """Transactions by outcome, as the producers counted them."""
        return sum((Counter(producer.counts.outcomes()) for producer in self.producers), Counter[str]())

    def report(self, name: str, output: str, *flags: str) -> Counter[str]:
        """Transactions by outcome, as a report counts them."""
        command = [str(COMMAND), "history", "report", "--format", name, "--input", output, "--output", "json"]
        conf = conf_flags(SMALL) if name in LAKES else []
        done = run_to_end([*command, *conf, *flags], Deadline.after(SECONDS))
        assert done.returncode in {0, 1}, done.stderr
        return Counter({outcome: count for outcome, count in json.loads(done.stdout)["outcomes"].items() if count})


def wait(child: Child, what: Callable[[], object]) -> None:
    """Look often: the moments that are waited for are short."""
    until = Deadline.after(SECONDS)
    while not what():
        assert child.running, child.tail()
        assert poll(until, 0.01), child.tail()


def kill(child: Child, *, whole: bool) -> None:
    """SIGKILL the driver; its JVM and workers at the same moment, or else they are left to end what they do."""
    for pid in [*family(child.pid)] if whole else []:  # all of them, before the first is gone
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    child.kill()


@pytest.fixture(scope="module")
def stage() -> Iterator[LakeStage]:
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-lakes-"))
    try:
        with KafkaCluster("4.3.1") as kafka, ProcessGroup(folder) as processes:
            kafka.create_topic("orders", 3)
            producers = [RdkafkaProducer(kafka, f"{name}-1") for name in ("pay", "ship")]
            for producer in producers:
                producer.init()
            yield LakeStage(kafka, folder, processes, producers)
            for producer in producers:
                producer.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rows_in(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of a history in Parquet, none of them twice."""
    table = ds.dataset(folder / "transactions", partitioning="hive").to_table(columns=COLUMNS)
    return once(tuple(row.values()) for row in table.to_pylist())


def rows_of(table: Lake) -> list[tuple[Any, ...]]:
    """The rows of a table, none of them twice."""
    return once(tuple(row) for row in table.rows().select(*COLUMNS).collect())


def once(found: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sort rows; a partition and offset of the log must be in one of them only."""
    rows = list(found)
    assert not [key for key, count in Counter(row[-2:] for row in rows).items() if count > 1]
    return sorted(rows)


@pytest.mark.proof
@pytest.mark.timeout((KILLS + 4) * SECONDS)
@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_those_of_one_run_whenever_the_writer_is_killed(stage: LakeStage, name: str) -> None:
    if name in LAKES and LAKES[name] not in released():
        pytest.skip("this Spark has no release of the format")
    output = stage.folder / f"killed-{name}"
    state = output / (STATE if name in LAKES else BATCHES)
    chance = random.Random(f"{name} {KILLS}")
    often = ("--format", name, "--output", str(output), "--interval", "100ms", "--max-records-per-batch", "60")
    for number in range(KILLS):
        stage.work(40)
        child = stage.run(*often)
        before = set(state.glob("*"))
        batches, late = chance.randrange(1, 4), chance.random()
        wait(child, lambda: len(set(state.glob("*")) - before) >= batches)  # noqa: B023 -- of this round
        time.sleep(late)
        kill(child, whole=number % 2 == 1)
    stage.run_once("--format", name, "--output", str(output))
    expected = stage.parquet()
    assert Counter(row[1] for row in expected) == +stage.ended
    if name in LAKES:
        conf = LAKES[name].conf(str(output)) | SMALL
        with spark_session("check", master="local[2]", packages=LAKES[name].packages(str(output)), conf=conf) as spark:
            table = LAKES[name](spark, str(output))
            assert rows_of(table) == expected
            table.compact()
            assert rows_of(table) == expected
    else:
        assert rows_in(output) == expected
    # The table goes on, the compacted one as well, and a report counts the same.
    stage.work(10)
    stage.run_once("--format", name, "--output", str(output))
    assert stage.report(name, str(output)) == Counter(row[1] for row in stage.parquet())


@pytest.fixture(scope="module")
def store(stage: LakeStage) -> S3Server:
    return S3Server(stage.processes, stage.folder)


@pytest.mark.proof
@pytest.mark.timeout(5 * SECONDS)
@pytest.mark.parametrize("name", list(LAKES))
def test_a_table_on_an_object_store_has_the_rows_of_parquet(stage: LakeStage, store: S3Server, name: str) -> None:
    if LAKES[name] not in released():
        pytest.skip("this Spark has no release of the format")
    output = f"s3a://{store.bucket}/{name}"
    given = ("--format", name, "--output", output, *conf_flags(store.conf))
    stage.work(20)
    stage.run_once(*given)
    # Killed in the middle of what follows, and run again.
    stage.work(200)
    child = stage.run("--interval", "100ms", "--max-records-per-batch", "60", *given)
    wait(child, lambda: "batch" in child.tail())
    child.kill()
    stage.run_once(*given)
    expected = Counter(row[1] for row in stage.parquet())
    assert stage.report(name, output, *conf_flags(store.conf)) == expected
