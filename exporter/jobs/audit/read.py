"""Reading topics with Spark's own Kafka source, between offsets that were decided on before."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

import pandas as pd  # type: ignore[import-untyped]  # ships no types
from pyspark.sql import functions as f

from exporter.jobs.audit.columns import RAW_SCHEMA
from exporter.jobs.audit.offset_range import OffsetSpan, offset_of, partition_of, place, position_column
from exporter.kafka.client import ClusterClient
from exporter.kafka.log.record_places import FoundRecord, records_at
from exporter.kafka.properties.client import Properties
from exporter.kafka.properties.java import for_java
from exporter.model import Deadline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_OFFSETS = 2_000_000
"""Offsets for one task of the first stage, about."""
FEW = 300
"""Records that are looked up one by one; for more, Spark reads the range that contains them."""
SMALL = 100_000
"""Offsets for one task: another task would cost more than it saves."""

# Measured: twice the speed of the defaults, for some 70 MB of buffers in each task.
FAST_FETCH = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    # A task fails without an answer for this time: twice a broker's session timeout.
    "kafkaConsumer.pollTimeoutMs": "40000",
    "failOnDataLoss": "true",
}


# As Spark's default, without kafka. By the first version of its interface Spark makes a Row of Java objects of each
# record, and a row of its own of that: a quarter of the CPU of a read.
DIRECT_READ = {"spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text"}
# A few rows of the driver become a frame without a Python process on a worker.
LOCAL_ROWS = {"spark.sql.execution.arrow.pyspark.enabled": "true"}

# Hashes do not get smaller: a tenth of the time of an audit by key. For a Spark that is one process.
PLAIN_SHUFFLE = {"spark.shuffle.compress": "false"}
# With two cores an audit takes a tenth less time than with G1, whose threads run beside it.
JAVA_OPTIONS = ("-XX:+UseParallelGC",)


@contextlib.contextmanager
def with_settings(session: SparkSession, *wanted: dict[str, str]) -> Iterator[None]:
    """Set these for frames that are read in the block."""
    before = {name: session.conf.get(name, None) for settings in wanted for name in settings}
    try:
        for settings in wanted:
            for name, value in settings.items():
                session.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            if known is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, known)


_COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
"""Those of ``RAW_SCHEMA``."""


@dataclass(frozen=True)
class TopicAccess:
    """A cluster: the client for requests, and the properties for Spark's source. ``timeout`` is for each request."""

    client: ClusterClient
    properties: Properties
    timeout: float = 30.0

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Self:
        """A cluster by properties of Kafka's clients. Raises PropertiesError."""
        checked = Properties.parse(properties)
        return cls(ClusterClient(checked), checked)

    def deadline(self) -> Deadline:
        """A new deadline, for one request."""
        return Deadline.after(self.timeout)


@dataclass(frozen=True)
class Reader:
    """The records of one topic as Spark reads them."""

    session: SparkSession
    access: TopicAccess
    topic: str
    headers: bool = False

    @property
    def cores(self) -> int:
        """Number of tasks that run at once."""
        return max(1, self.session.sparkContext.defaultParallelism)

    def tasks(self, offsets: int, most: int) -> int:
        """Number of tasks for so many offsets, with at most ``most`` in each: one for a few, otherwise as many on each
        core.
        """
        return 1 if offsets <= SMALL else -(-offsets // (most * self.cores)) * self.cores

    def records(self, spans: Mapping[int, OffsetSpan], *, committed: bool = True) -> DataFrame:
        """The records between these offsets, as a read_committed (or read_uncommitted) reader gets them."""
        full = [span for span in spans.values() if span.end > span.start]
        if not full:
            return self.nothing()
        total = sum(span.end - span.start for span in full)
        options = {
            **self.options(committed),
            "assign": json.dumps({self.topic: [span.partition for span in full]}),
            "startingOffsets": json.dumps({self.topic: {str(span.partition): span.start for span in full}}),
            "endingOffsets": json.dumps({self.topic: {str(span.partition): span.end for span in full}}),
            "minPartitions": str(max(len(full), self.tasks(total, TASK_OFFSETS))),
        }
        return self.session.read.format("kafka").options(**options).load()

    def options(self, committed: bool = True) -> dict[str, str]:
        """The options of Spark's Kafka source. Hold secrets: never log them."""
        mine = {f"kafka.{name}": value for name, value in for_java(self.access.properties).items()}
        level = "read_committed" if committed else "read_uncommitted"
        return {
            **mine,
            **FAST_FETCH,
            "kafka.isolation.level": level,
            "includeHeaders": str(self.headers).lower(),
        }

    def nothing(self) -> DataFrame:
        """No record, with the columns of all."""
        return self._local([])

    def at(self, positions: DataFrame, count: int) -> DataFrame:
        """The records at these positions, one row each (column ``position``), committed or not."""
        if not count:
            return self.nothing()
        if count <= FEW:
            return self.few(int(row[0]) for row in positions.collect())
        spans = {}
        offset = offset_of("position")
        between = positions.groupBy(partition_of("position").alias("p")).agg(f.min(offset), f.max(offset))
        for row in between.collect():
            spans[int(row[0])] = OffsetSpan(int(row[0]), int(row[1]), int(row[2]) + 1)
        wanted = positions.distinct()
        raw = self.records(spans, committed=False)
        return raw.withColumn("position", position_column()).join(wanted, "position", "left_semi").drop("position")

    def few(self, positions: Iterable[int]) -> DataFrame:
        """The records at a few positions, as ``at``, in one partition: what sorts or groups them needs no shuffle."""
        places = [place(position) for position in positions]
        found = records_at(self.access.properties, self.topic, places, self.access.timeout)
        return self._local([_row(self.topic, record) for record in found]).coalesce(1)

    def _local(self, rows: Sequence[tuple[object, ...]]) -> DataFrame:
        # As Arrow (``LOCAL_ROWS``): from a list of Python, Spark would start Python on its workers.
        return self.session.createDataFrame(pd.DataFrame(rows, columns=_COLUMNS, dtype=object), RAW_SCHEMA)


def _row(topic: str, record: FoundRecord) -> tuple[object, ...]:
    instant = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    return record.key, record.value, topic, record.partition, record.offset, instant, list(record.headers) or None


def tasks_of(session: SparkSession) -> tuple[int, int]:
    """Number of finished tasks of the running stages, and of all their tasks."""
    tracker = session.sparkContext.statusTracker()
    stages = [info for stage_id in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage_id)) is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
