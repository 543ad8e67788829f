"""``python -m tests.bench.audit``: records a second audited, beside Spark's raw read and a plain check with a set.

Ten million JSON records with ids and keys in four partitions, five of them twice, and the same as Avro. For one core
and for two: Spark's raw read of the topic with the audit's own fetch settings, then the audit, which must find exactly
the planted duplicates. Both are run twice and the second one counts, as it would on a long topic: the first compiles in
the JVM. There are two raw reads: with Spark's default settings, and by the second version of its source interface,
which the audit sets for itself.

``python -m tests.bench.audit --grow 1000000 10000000 100000000`` writes that many small records with Spark, and audits
the first of them, more each time: time, and the largest memory of Spark's JVM and of its Python workers. With
``--workers 1 2`` each audit is on a standalone cluster of so many workers of one core, and the memory is that of the
driver, master, workers and executors together.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from exporter.jobs.audit.columns import Shape
from exporter.jobs.audit.definition import Audit
from exporter.jobs.audit.offset_range import OffsetSpan, parse_bound
from exporter.jobs.audit.outcome import AuditSettings, audit_once
from exporter.jobs.audit.read import DIRECT_READ, JAVA_OPTIONS, PLAIN_SHUFFLE, Reader, TopicAccess, with_settings
from exporter.jobs.session import is_local, kafka_connector, spark_module, spark_session
from exporter.kafka.client import ClusterClient
from exporter.kafka.properties.client import Properties
from testkit.cluster import KafkaCluster
from testkit.jars import say
from testkit.processes import ProcessGroup
from testkit.spark_cluster import HERE, StandaloneSpark
from tests.bench.machine import family, load
from tests.bench.report import FigureRow, as_json, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 10_000_000
QUICK_RECORDS = 500_000
PARTITIONS = 4
TWICE = 5
TOPIC, AVRO_TOPIC, GROWING = "audited", "audited-avro", "growing"
AVRO_SCHEMA = (
    '{"type":"record","name":"order","fields":[{"name":"id","type":"string"},{"name":"customer","type":"string"},'
    '{"name":"amount","type":"long"},{"name":"note","type":"string"}]}'
)
# One by a regular expression, as quick as Spark can look into a text; one by its JSON functions, as people write it.
EXPRESSIONS = {
    "an id by key": ("key", 0.6),
    "an id by regexp_extract": ('regexp_extract(value, \'"id":"([^"]*)"\', 1)', 0.55),
    "an id by get_json_object": ("get_json_object(value, '$.id')", 0.4),
}
"""With the share of the raw read's speed that an audit should have."""
WRITERS = 2
LOCAL = "local[2]"
EXECUTOR_MEMORY, WORKER_MEMORY = "1500m", "2g"
LOOK_SECONDS = 0.2
FAST_WRITE = {"kafka.compression.type": "lz4", "kafka.linger.ms": "50", "kafka.batch.size": "1000000"}


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


def fill(bootstrap: str, topic: str, first: int, end: int) -> None:
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
        value = as_avro(same) if topic == AVRO_TOPIC else as_text(same)
        while True:
            try:
                producer.produce(topic, value, f"order-{same:010}", number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def as_text(number: int) -> bytes:
    """A record as JSON."""
    return (
        f'{{"id":"order-{number:010}","customer":"c{number % 100_003:06}","amount":{number % 977},"note":"a line"}}'
    ).encode()


def as_avro(number: int) -> bytes:
    """The same in Avro, framed as Confluent's serializers do. A length and a long are zigzag varints."""
    amount = 2 * (number % 977)
    long = bytes([amount]) if amount < 128 else bytes([amount & 127 | 128, amount >> 7])
    return b"".join(
        (
            struct.pack(">bI", 0, 1),
            b"\x20order-%010d" % number,
            b"\x0ec%06d" % (number % 100_003),
            long,
            b"\x0ca line",
        )
    )


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
    for topic in (TOPIC, AVRO_TOPIC):
        cluster.create_topic(topic, PARTITIONS)
        say(f"writing {records:,} records to {topic}")
        with ProcessPoolExecutor(WRITERS) as pool:
            share = records // WRITERS
            parts = [(at * share, (at + 1) * share) for at in range(WRITERS)]
            for done in [pool.submit(fill, cluster.bootstrap, topic, *part) for part in parts]:
                done.result()
    say("a Python set in one process")
    found = []
    plain = timed(lambda: found.append(with_a_set(cluster.bootstrap, records)), lambda: family(os.getpid()))
    rows = [_row("one process with a Python set", records, plain)]
    for cores in (1, 2):
        with spark(cluster, f"local[{cores}]") as (session, access):
            rows += _audits(session, access, records, cores)
    return rows


@contextlib.contextmanager
def spark(cluster: KafkaCluster, master: str) -> Iterator[tuple[SparkSession, TopicAccess]]:
    """A session on this master."""
    properties = Properties.parse(cluster.client_properties())
    client = ClusterClient(properties)
    conf = {"spark.sql.ansi.enabled": "false", "spark.driver.memory": "3g", **PLAIN_SHUFFLE}
    if not is_local(master):
        conf |= {"spark.driver.host": HERE, "spark.driver.memory": "1g", "spark.executor.memory": EXECUTOR_MEMORY}
    packages = [kafka_connector(), spark_module("spark-avro")]
    try:
        with spark_session("bench", master=master, packages=packages, conf=conf, java_options=JAVA_OPTIONS) as session:
            yield session, TopicAccess(client, properties)
    finally:
        client.close()


def _pids() -> Iterator[int]:
    return family(os.getpid())


def _audits(session: SparkSession, access: TopicAccess, records: int, cores: int) -> Iterator[FigureRow]:
    limit, direct = _raw(session, access, TOPIC, records)
    yield _row(f"Spark's raw read, {cores} core(s)", records, limit)
    yield _row(f"the same by the second version of its interface, {cores} core(s)", records, direct)
    for name, (expression, share) in EXPRESSIONS.items():
        say(f"{cores} core(s): {name}")
        cold, timing = _twice(session, access, Audit(TOPIC, id=expression), records)
        yield _row(f"audit by {name}, {cores} core(s)", records, timing, (limit, direct), cold, share)
    say(f"{cores} core(s): from_avro")
    limit, direct = _raw(session, access, AVRO_TOPIC, records)
    yield _row(f"Spark's raw read of Avro, {cores} core(s)", records, limit)
    cold, timing = _twice(session, access, Audit(AVRO_TOPIC, id="value.id", shape=Shape(AVRO_SCHEMA)), records)
    yield _row(f"audit by an id by from_avro, {cores} core(s)", records, timing, (limit, direct), cold)


def _raw(session: SparkSession, access: TopicAccess, topic: str, records: int) -> tuple[JobTiming, JobTiming]:
    """With Spark's default settings, and as the audit reads; the second run of each counts."""
    spans = {number: OffsetSpan(number, 0, records // PARTITIONS) for number in range(PARTITIONS)}
    reader = Reader(session, access, topic)

    def raw() -> None:
        reader.records(spans).write.format("noop").mode("overwrite").save()

    _, limit = timed(raw, _pids), timed(raw, _pids)
    with with_settings(session, DIRECT_READ):
        _, direct = timed(raw, _pids), timed(raw, _pids)
    return limit, direct


def _twice(session: SparkSession, access: TopicAccess, question: Audit, records: int) -> tuple[JobTiming, JobTiming]:
    return tuple(timed(lambda: audited(session, access, question, records, TWICE), _pids) for _ in range(2))  # type: ignore[return-value]  # two of them


def audited(session: SparkSession, access: TopicAccess, question: Audit, records: int, twice: int) -> None:
    """One audit, which must find just so many duplicates in so many records."""
    report = audit_once(session, access, question, AuditSettings(question.topic), lambda _: None)
    counts = {finding.kind: finding.count for finding in report.result.findings}
    if counts != ({"duplicate": twice} if twice else {}) or report.result.records != records:
        raise ValueError(f"found {counts} in {report.result.records} records")


# --- Memory, as records grow ---


class PeakMemory:
    """The largest resident memory of Spark's JVMs, and of their Python workers, each together, in megabytes."""

    def __init__(self) -> None:
        self.jvm = self.workers = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            jvm = workers = 0.0
            for pid in [pid for pid in _pids() if pid != os.getpid()]:
                with contextlib.suppress(OSError):
                    name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
                    megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
                    if name != "java":
                        workers += megabytes
                    elif b"org.apache.spark" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        jvm += megabytes  # and not the broker's
            self.jvm, self.workers = max(self.jvm, jvm), max(self.workers, workers)


class GrowthCost(NamedTuple):
    """One audit; ``jvm`` and ``python`` are the largest memory of Spark's JVMs and of its Python workers, in MB."""

    records: int
    workers: int
    timing: JobTiming
    jvm: float
    python: float
    load: str

    def row(self) -> FigureRow:
        where = f"{self.workers} workers of one core" if self.workers else "2 core(s)"
        row = _row(f"audit of {self.records:,} records, {where}, in a new Spark", self.records, self.timing)
        memory = f"at most {self.jvm:,.0f} MB of Spark's JVMs, {self.python:,.0f} MB of its Python workers"
        return row._replace(note=f"{row.note}; {memory}", load=self.load)


def grow(cluster: KafkaCluster, counts: Sequence[int], workers: Sequence[int]) -> Iterator[GrowthCost]:
    """Audits of the first records of a topic by key, for each of these numbers of records and of workers.

    Without workers on two cores of one Spark.
    """
    most = max(counts)
    cluster.create_topic(GROWING, PARTITIONS)
    with spark(cluster, LOCAL) as (session, access):
        say(f"writing {most:,} records")
        place = f"CAST(id % {PARTITIONS} AS INT) AS partition"
        numbers = session.range(0, most, 1, PARTITIONS)
        frame = numbers.selectExpr("CAST(id AS STRING) AS key", "CAST(id % 1000 AS STRING) AS value", place)
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": GROWING, **FAST_WRITE}
        frame.write.format("kafka").options(**options).save()
    for count, number in product(sorted(counts), workers or [0]):
        say(f"{count:,} records, {number} workers")
        ends = ",".join(f"{partition}:{count // PARTITIONS}" for partition in range(PARTITIONS))
        with _master(number) as master, PeakMemory() as peak, spark(cluster, master) as (session, access):
            question = Audit(GROWING, id="key", end=parse_bound(ends))
            timing = timed(lambda question=question, count=count: audited(session, access, question, count, 0), _pids)  # type: ignore[misc]  # a lambda of its own
        yield GrowthCost(count, number, timing, peak.jvm, peak.workers, load())


@contextlib.contextmanager
def _master(workers: int) -> Iterator[str]:
    """The URL of a new cluster of so many workers; for none, of a Spark in one process."""
    if not workers:
        yield LOCAL
        return
    with tempfile.TemporaryDirectory(prefix="kafka-eos-spark-") as folder, ProcessGroup(Path(folder)) as processes:
        cluster = StandaloneSpark(processes, Path(folder), workers, WORKER_MEMORY)
        os.environ |= cluster.environment
        yield cluster.master


def _row(
    what: str,
    records: int,
    timing: JobTiming,
    limits: tuple[JobTiming, JobTiming] | None = None,
    cold: JobTiming | None = None,
    share: float | None = None,
) -> FigureRow:
    note = f"{timing.wall:.1f} s, {timing.cpu:.1f} CPU s"
    if limits is None or cold is None:
        return FigureRow(what, records / timing.wall, "records/s", load(), more=True, note=note)
    limit, direct = limits
    note += f", {limit.cpu / timing.cpu:.2f} of raw by CPU, {direct.wall / timing.wall:.2f} of the second version's"
    note += f"; the first time {cold.wall:.1f} s"
    raw = records / limit.wall
    target = None if share is None else share * raw
    return FigureRow(what, records / timing.wall, "records/s", load(), target, raw, "raw read", more=True, note=note)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.audit", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="half a million records: to see that the bench works")
    parser.add_argument("--grow", type=int, nargs="+", metavar="RECORDS", help="only memory, as records grow")
    parser.add_argument("--workers", type=int, nargs="+", default=[], help="with --grow: on clusters of so many")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args(argv)
    records = QUICK_RECORDS if options.quick else RECORDS
    with KafkaCluster(heap_mb=1024, progress=say) as cluster:
        if options.grow:
            rows = []
            for cost in grow(cluster, options.grow, options.workers):
                rows.append(cost.row())
                say(str(rows[-1]))
        else:
            rows = measure(cluster, records)
    print(as_json(rows, {"records": records}) if options.output == "json" else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
