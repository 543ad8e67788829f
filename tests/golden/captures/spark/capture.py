"""Record the event log of a Spark application: ``make captures ARGS=spark``.

A query that makes two batches, is idle after each and is stopped, a query that fails in its first batch, and one
without a name that reads what is there and ends. Of the log only the lines about queries and the application are kept;
the stack of the exception is cut, and the user's name is replaced.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from exporter.model import Deadline
from exporter.spark.event_log import EventLogFolder
from exporter.spark.queries import StreamingQuery
from exporter.words import QueryState
from testkit import jars
from testkit.cluster import KafkaCluster
from testkit.spark import SparkDriver
from testkit.workloads.producers import RdkafkaProducer
from tests.golden.captures.recording import Recording, wait_for

QUERIES = "org.apache.spark.sql.streaming.StreamingQueryListener$"
APPLICATION = ("SparkListenerLogStart", "SparkListenerApplicationStart", "SparkListenerApplicationEnd")
FRAMES = 3
"""Of the exception's stack."""


def main() -> None:
    recording = Recording(Path(__file__).parent)
    with KafkaCluster(transaction_partitions=4, progress=jars.say) as cluster:
        cluster.create_topic("orders", 2)
        driver = SparkDriver(cluster, "billing", folder=Path(tempfile.mkdtemp(prefix="kafka-eos-capture-")))
        with RdkafkaProducer(cluster, "orders-1") as writer:
            driver.wait_ready()
            writer.init()
            send(writer, 47, 53)
            driver.start("orders-copy", "orders")
            wait_for(lambda: is_idle_after(driver, batches=1), "the first batch is done")
            send(writer, 0, 50)
            wait_for(lambda: is_idle_after(driver, batches=2), "the second batch is done")
            driver.start("bad", "orders", "fail")
            wait_for(lambda: has_failed(driver, "bad"), "the bad query failed")
            driver.stop("orders-copy")
            driver.start("-", "orders", "once")
            driver.finish("-")
            driver.close()
        recording.save("events.jsonl", "".join(kept(driver.event_log)))
        version = json.loads((recording.folder / "events.jsonl").read_text().splitlines()[0])["Spark Version"]
        recording.origin("the event log of a Spark application", spark=version, kafka=cluster.version)


def send(writer: RdkafkaProducer, *counts: int) -> None:
    """So many records to each partition, in one transaction."""
    writer.begin()
    for partition, count in enumerate(counts):
        if count:
            writer.send("orders", count, partition)
    writer.commit()


def query(driver: SparkDriver, name: str) -> StreamingQuery | None:
    """The query of this name, as the agent reads it from the log."""
    found = EventLogFolder(driver.event_log).read(Deadline.after(10), time.time())
    return next((fact for fact in found if isinstance(fact, StreamingQuery) and fact.name == name), None)


def is_idle_after(driver: SparkDriver, batches: int) -> bool:
    found = query(driver, "orders-copy")
    return found is not None and found.state is QueryState.IDLE and found.batches == batches


def has_failed(driver: SparkDriver, name: str) -> bool:
    found = query(driver, name)
    return found is not None and found.state is QueryState.FAILED


def kept(folder: Path) -> Iterator[str]:
    """The lines of the one rolled log of a folder that are kept."""
    for path in sorted(folder.glob("eventlog_v2_*/events_*")):
        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as log:
            for line in log.read().decode().splitlines():
                event: dict[str, Any] = json.loads(line)
                if event["Event"] in APPLICATION or event["Event"].startswith(QUERIES):
                    yield json.dumps(without_machine(event), separators=(",", ":")) + "\n"


def without_machine(event: dict[str, Any]) -> dict[str, Any]:
    """The event without the user's name and most of a stack, whose Python frames have folders of the machine."""
    if "User" in event:
        event["User"] = "spark"
    if event.get("exception"):
        found = [line for line in event["exception"].splitlines() if not line.startswith("  ")]
        stack = [line for line in found if line.startswith("\t")]
        event["exception"] = "\n".join([line for line in found if not line.startswith("\t")] + stack[:FRAMES])
    return event
