"""``__transaction_state`` as a PySpark data source, batch and streaming: Arrow batches of raw records.

Spark's own Kafka source omits internal topics without an error. Credentials are in the pickled source, never in an
option or a setting: plans, the web UI and event logs show both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from exporter.jobs.history.log_offsets import BatchRange, Look, PartitionOffset, advanced, from_json, planned, to_json
from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.log.tail import Polled
from exporter.kafka.properties.client import Properties
from exporter.kafka.requests.offsets import Isolation, end_offsets, log_end_offsets
from exporter.model import Clock, Deadline, Reason
from exporter.transactions.machine.records import TOPIC
from exporter.transactions.source.log_range import RangeConsumer, read_ranges

NAME = "kafka_eos_transaction_log"
RECORD, BEGIN, END = 0, 1, 2
"""Kinds of rows. Marker rows surround the records of each partition: BEGIN has the planned start as its offset; END has
the planned end, and as its timestamp the milliseconds for which nothing had come behind it, -1 when more was waiting.
"""
SCHEMA = "kind tinyint, log_partition int, offset bigint, timestamp bigint, key binary, value binary"
ARROW = pa.schema([
    ("kind", pa.int8()), ("log_partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.int64()),
    ("key", pa.binary()), ("value", pa.binary()),
])  # fmt: skip
ASK_SECONDS = 15.0


class TransactionLogError(Exception):
    """The log cannot be read. One line: Spark passes on only the text."""


@dataclass(frozen=True)
class LogAccess:
    """How to read the log. ``patience`` is the longest interruption of a connection, in seconds.

    ``cluster_id`` is the cluster that must answer; ``most`` bounds the offsets of one batch; ``tasks`` is the number of
    readers.
    """

    properties: Properties = field(repr=False)
    cluster_id: str
    tasks: int = 2
    most: int = 1_000_000
    patience: float = 60.0


def transaction_log(access: LogAccess) -> type[DataSource]:
    """A data source to be registered with a session, by its ``NAME``. This package is needed on the workers, too."""

    class TransactionLog(DataSource):
        """The transaction log of one cluster."""

        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return SCHEMA

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 -- it has one
            return LogReader(access)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 -- pyspark's name
            return LogStream(access)

    return TransactionLog


class TaskPlan(InputPartition):
    """The partitions that one task reads."""

    def __init__(self, pieces: tuple[BatchRange, ...]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


class LogReader(DataSourceReader):
    """All that the log holds now."""

    def __init__(self, access: LogAccess) -> None:
        self._access = access

    def partitions(self) -> Sequence[InputPartition]:
        with closing(LogEnds(self._access)) as log:
            look = log.ask(Deadline.after(self._access.patience))
        marks = {number: PartitionOffset(end, look.asked_ms, look.answered_ms) for number, end in look.ends.items()}
        return [TaskPlan(pieces) for pieces in planned({}, marks, self._access.tasks)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return read_pieces(self._access, partition)


class LogStream(DataSourceStreamReader):
    """The log as a stream. A failed read of its end leaves the stream where it is, for ``patience`` seconds."""

    def __init__(self, access: LogAccess) -> None:
        self._access = access
        self._ends: LogEnds | None = None
        self._marks: dict[int, PartitionOffset] = {}
        self._answered_at = time.monotonic()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- pyspark's name
        return to_json({})

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 -- pyspark's name
        # Spark calls this before initialOffset: without offsets it is a first start, from the beginning.
        if self._ends is None:
            self._ends = LogEnds(self._access)
        try:
            look = self._ends.ask(Deadline.after(ASK_SECONDS))
        except TransactionLogError:
            if time.monotonic() - self._answered_at > self._access.patience:
                raise
            return to_json(self._marks)
        self._answered_at = time.monotonic()
        return to_json(advanced(self._marks, look, self._access.most))

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        self._marks = from_json(end)
        return [TaskPlan(pieces) for pieces in planned(from_json(start), self._marks, self._access.tasks)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return read_pieces(self._access, partition)

    def stop(self) -> None:
        if self._ends is not None:
            self._ends.close()


class LogEnds:
    """Asks for the ends of the log, over connections that are kept."""

    def __init__(self, access: LogAccess) -> None:
        self._access = access
        self._client = ClusterClient(access.properties)

    def ask(self, deadline: Deadline) -> Look:
        """The high watermarks, and whether they are the log ends. Empty without a log.

        Raises TransactionLogError without an answer, or when another cluster answers.
        """
        asked_ms = int(time.time() * 1000)
        try:
            metadata = self._client.metadata(deadline, [TOPIC])
            if metadata.cluster_id != self._access.cluster_id:
                text = f"the brokers are those of cluster {metadata.cluster_id} now, not of {self._access.cluster_id}"
                raise TransactionLogError(text)
            fault = metadata.errors.get(TOPIC)
            if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
                raise TransactionLogError(fault.detail)
            wanted = metadata.partitions(TOPIC)
            # The log ends first: a high watermark that is there later has all that was written before.
            log_ends = log_end_offsets(self._client, metadata, wanted, deadline)
            answers = end_offsets(self._client, metadata, wanted, Isolation.READ_UNCOMMITTED, deadline)
        except AskError as error:
            raise TransactionLogError(error.fault.detail) from None
        if wanted and not answers.values:
            raise TransactionLogError("; ".join(fault.detail for fault in answers.faults[:3]))
        ends = {partition.partition: end for partition, end in answers.values.items()}
        logs = {partition.partition: end for partition, end in log_ends.values.items()}
        whole = frozenset(number for number, end in ends.items() if number in logs and end >= logs[number])
        return Look(ends, whole, asked_ms, int(time.time() * 1000))

    def close(self) -> None:
        self._client.close()


def read_pieces(access: LogAccess, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """The rows of one task: all BEGIN marks, the records, all END marks. Nothing for no plan.

    Raises TransactionLogError when reading is refused or nothing comes.
    """
    pieces: tuple[BatchRange, ...] = partition.pieces if isinstance(partition, TaskPlan) else ()
    if not pieces:
        return
    yield _marks(BEGIN, [(piece.range.partition, piece.range.start, -1) for piece in pieces])
    ranges = {piece.range.partition: piece.range for piece in pieces if piece.range.start < piece.range.end}
    if ranges:
        try:
            with closing(RangeConsumer(access.properties)) as consumer:
                for messages in read_ranges(consumer, ranges, access.patience, Clock()):
                    yield _records(messages)
        except AskError as error:
            raise TransactionLogError(error.fault.detail) from None
    yield _marks(END, [(piece.range.partition, piece.range.end, piece.quiet_ms) for piece in pieces])


def _marks(kind: int, marks: Sequence[tuple[int, int, int]]) -> pa.RecordBatch:
    count = len(marks)
    numbers, offsets, instants = zip(*marks, strict=True)
    columns = [[kind] * count, numbers, offsets, instants, [None] * count, [None] * count]
    return _batch(columns)


def _records(messages: Sequence[Polled]) -> pa.RecordBatch:
    return _batch(
        [
            [RECORD] * len(messages),
            [message.partition() for message in messages],
            [message.offset() for message in messages],
            [message.timestamp()[1] for message in messages],
            [message.key() or b"" for message in messages],
            [message.value() for message in messages],
        ]
    )


def _batch(columns: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW)
