"""``python -m tests.bench.audit``: records a second audited, beside Spark's raw read and a plain check with a set.

Ten million JSON records with ids and keys in four partitions, five of them twice. For one core and for two: Spark's raw
read of the topic with the audit's own fetch settings, then the audit, which must find exactly the planted duplicates.
Both are run twice and the second one counts, as it would on a long topic: the first compiles in the JVM.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from demo.cluster import KafkaCluster
from demo.jars import say
from exporter.jobs.audit.definition import Audit
from exporter.jobs.audit.fold import OffsetSpan
from exporter.jobs.audit.outcome import AuditSettings, audit_once
from exporter.jobs.audit.read import Reader, TopicAccess
from exporter.jobs.session import kafka_connector, spark_session
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from tests.bench.machine import load
from tests.bench.report import FigureRow, as_json, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 10_000_000
QUICK_RECORDS = 500_000
PARTITIONS = 4
TWICE = 5
TOPIC = "audited"
# One by a regular expression, as quick as Spark can look into a text; one by its JSON functions, as people write it.
EXPRESSIONS = {
    "an id by key": "key",
    "an id by regexp_extract": 'regexp_extract(value, \'"id":"([^"]*)"\', 1)',
    "an id by get_json_object": "get_json_object(value, '$.id')",
}
WRITERS = 2
SHARE = 0.5
"""Of the raw read's speed, which an audit should have."""


@dataclass(frozen=True, slots=True)
class JobTiming:
    """``cpu`` are CPU seconds of this process and all below it, Spark's JVM and Python workers included."""

    wall: float
    cpu: float


def timed(work: Callable[[], object], pids: Callable[[], Iterator[int]]) -> JobTiming:
    """Runs it once."""
    before, began = sum(map(cpu_of, pids())), time.monotonic()
    work()
    return JobTiming(time.monotonic() - began, sum(map(cpu_of, pids())) - before)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of its children that have ended; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def family(root: int) -> Iterator[int]:
    """A process and all below it."""
    yield root
    # A JVM starts processes from any of its threads.
    for file in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = [int(pid) for pid in file.read_text(encoding="utf-8").split()]
        except OSError:
            continue
        for child in children:
            yield from family(child)


def fill(bootstrap: str, first: int, end: int) -> None:
    """Writes the records of these numbers; the last few of each writer repeat its first ids."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "enable.idempotence": True,
        }
    )
    for number in range(first, end):
        same = first + end - 1 - number if end - number <= TWICE and first == 0 else number
        value = f'{{"id":"order-{same:010}","customer":"c{same % 100_003:06}","amount":{same % 977},"note":"a line"}}'
        while True:
            try:
                producer.produce(TOPIC, value, f"order-{same:010}", number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def with_a_set(bootstrap: str, records: int) -> int:
    """One process, librdkafka, and a Python set of the keys: what one writes first. Gives the duplicates."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    seen: set[bytes | None] = set()
    count = found = 0
    while count < records:
        for message in consumer.consume(10_000, 1.0):
            key = message.key()
            found += key in seen
            seen.add(key)
            count += 1
    consumer.close()
    return found


def measure(cluster: KafkaCluster, records: int) -> list[FigureRow]:
    """All rows, on a topic that is written first."""
    cluster.create_topic(TOPIC, PARTITIONS)
    say(f"writing {records:,} records")
    with ProcessPoolExecutor(WRITERS) as pool:
        share = records // WRITERS
        for done in [pool.submit(fill, cluster.bootstrap, at * share, (at + 1) * share) for at in range(WRITERS)]:
            done.result()
    say("a Python set in one process")
    found = []
    plain = timed(lambda: found.append(with_a_set(cluster.bootstrap, records)), lambda: family(os.getpid()))
    rows = [_row("one process with a Python set", records, plain)]
    properties = Properties.parse(cluster.client_properties())
    client = ClusterClient(properties)
    try:
        for cores in (1, 2):
            conf = {"spark.sql.ansi.enabled": "false", "spark.driver.memory": "3g"}
            packages = [kafka_connector()]
            with spark_session("bench", master=f"local[{cores}]", packages=packages, conf=conf) as session:
                rows += _audits(session, TopicAccess(client, properties), records, cores)
    finally:
        client.close()
    return rows


def _audits(session: SparkSession, access: TopicAccess, records: int, cores: int) -> Iterator[FigureRow]:
    spans = {number: OffsetSpan(number, 0, records // PARTITIONS) for number in range(PARTITIONS)}
    reader = Reader(session, access, TOPIC)

    def raw() -> None:
        reader.records(spans).write.format("noop").mode("overwrite").save()

    def pids() -> Iterator[int]:
        return family(os.getpid())

    say(f"{cores} core(s): Spark's raw read, twice, the first to warm up")
    timed(raw, pids)
    limit = timed(raw, pids)
    yield _row(f"Spark's raw read, {cores} core(s)", records, limit)
    for name, expression in EXPRESSIONS.items():
        say(f"{cores} core(s): {name}")

        def audit(expression: str = expression) -> None:
            question = Audit(TOPIC, id=expression)
            report = audit_once(session, access, question, AuditSettings(TOPIC), lambda _: None)
            counts = {each.kind: each.count for each in report.result.findings}
            if counts != {"duplicate": TWICE} or report.result.records != records:
                raise ValueError(f"found {counts} in {report.result.records} records")

        cold, timing = timed(audit, pids), timed(audit, pids)
        yield _row(f"audit by {name}, {cores} core(s)", records, timing, limit, cold)


def _row(
    what: str, records: int, timing: JobTiming, limit: JobTiming | None = None, cold: JobTiming | None = None
) -> FigureRow:
    note = f"{timing.wall:.1f} s, {timing.cpu:.1f} CPU s"
    if limit is None or cold is None:
        return FigureRow(what, records / timing.wall, "records/s", load(), more=True, note=note)
    note += f", {limit.cpu / timing.cpu:.2f} of raw by CPU; the first time {cold.wall:.1f} s"
    raw = records / limit.wall
    return FigureRow(
        what, records / timing.wall, "records/s", load(), SHARE * raw, raw, "raw read", more=True, note=note
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.audit", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="half a million records: to see that the bench works")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args(argv)
    records = QUICK_RECORDS if options.quick else RECORDS
    with KafkaCluster(heap_mb=1024, progress=say) as cluster:
        rows = measure(cluster, records)
    print(as_json(rows, {"records": records}) if options.output == "json" else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
