"""One task of a batch: reads partitions of the transaction log, folds them, and hands on rows and state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from exporter.applications.applications import Grouping
from exporter.jobs.history.fold import FoldState, PartitionFold, Row
from exporter.jobs.history.index import HistoryError, TaskResult
from exporter.jobs.history.log_offsets import BatchRange
from exporter.jobs.history.table import SCHEMA, RowFiles, kept_file, read_kept, table_of, write_kept
from exporter.jobs.history.transaction_source import LogAccess
from exporter.transactions.machine.entries import Entry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_STATE = pa.struct([("log_partition", pa.int32()), ("ids", pa.binary())])
_INSTANT = pa.timestamp("us", tz="UTC")
"""The only instants that Spark takes from Python."""
ROW_SCHEMA = pa.schema([entry.with_type(_INSTANT) if pa.types.is_timestamp(entry.type) else entry for entry in SCHEMA])
_OUTPUT = pa.schema([("row", pa.struct(list(ROW_SCHEMA))), ("state", _STATE), ("result", pa.string())])
_GIVEN = pa.schema([("task", pa.int32()), ("ids", pa.binary())])

Group = Callable[[str], str]


class TaskOutput(Protocol):
    """Where a task finds the ids that the last batch left, and where its rows and ids go. Each task has its own: it is
    pickled, and sent there.
    """

    def kept(self, given: Sequence[bytes], numbers: Sequence[int], group: Group) -> list[Entry]:
        """The ids of these partitions. ``given`` is the state that Spark handed to this task."""

    def rows(self, rows: Sequence[Row]) -> Iterator[pa.RecordBatch]:
        """Take rows, or yield them for Spark."""

    def state(self, kept: Mapping[int, list[Entry]]) -> Iterator[pa.RecordBatch]:
        """Take the ids by partition, or yield them for Spark."""

    def end(self) -> tuple[tuple[str, ...], str]:
        """The files of rows and of ids, where there are any."""


@dataclass(frozen=True)
class BatchPlan:
    """One batch: the ranges of its tasks, and the state from which they go on. Pickled and sent to the tasks."""

    access: LogAccess
    tasks: Sequence[Sequence[BatchRange]]
    standings: Mapping[int, FoldState]
    patterns: Sequence[str] = field(default=())

    def frame(self, spark: SparkSession, output: TaskOutput, state: DataFrame | None = None) -> DataFrame:
        """The tasks as a frame of rows, state and results: nothing runs before it is read.

        ``state`` has the ids of the last batch, and the partition of the log that they are of; each goes to the task of
        its partition.
        """
        count = len(self.tasks)
        if state is None:
            given = spark.range(0, count, 1, count).selectExpr("cast(id AS int) AS task", "cast(null AS binary) AS ids")
        else:
            home = {piece.range.partition: task for task, pieces in enumerate(self.tasks) for piece in pieces}
            kept = state.rdd.map(lambda row: (home[row["log_partition"]], row["ids"]))
            every = spark.sparkContext.parallelize([(task, None) for task in range(count)], 1)
            placed = every.union(kept).partitionBy(count, int)
            given = spark.createDataFrame(placed, "task int, ids binary", verifySchema=False)
        return given.mapInArrow(partial(self.run, output), spark_type(_OUTPUT))

    def run(self, output: TaskOutput, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the task whose number is in these batches."""
        given = pa.concat_tables(
            [_GIVEN.empty_table(), *(pa.Table.from_batches([batch]).cast(_GIVEN) for batch in batches)]
        )
        for task in given["task"].unique().to_pylist():
            yield from self.fold(self.tasks[task], output, given["ids"].drop_null().to_pylist())

    def fold(
        self, pieces: Sequence[BatchRange], output: TaskOutput, given: Sequence[bytes] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read and fold these ranges."""
        folds = self._begun([piece.range.partition for piece in pieces], output, given)
        count = 0
        ranges = {piece.range.partition: piece.range for piece in pieces}
        for messages in self.access.records(ranges):
            for message in messages:
                record_ms = message.timestamp()[1]
                folds[message.partition()].record(message.offset(), record_ms, message.key() or b"", message.value())
            for fold in folds.values():
                count += len(fold.rows)
                yield from output.rows(fold.rows)
                fold.rows = []
        truncated = []
        for piece in pieces:
            fold = folds[piece.range.partition]
            if piece.range.end < fold.standing.next:
                truncated.append(piece.range.partition)
            fold.end(piece.range.end, piece.quiet_ms)
            count += len(fold.rows)
            yield from output.rows(fold.rows)
        yield from output.state({number: fold.kept() for number, fold in folds.items()})
        files, ids = output.end()
        result = TaskResult(
            {number: fold.standing for number, fold in folds.items()},
            files,
            ids,
            count,
            sum(fold.missing for fold in folds.values()),
            sum(fold.undecodable for fold in folds.values()),
            tuple(truncated),
            {number: offset for number, fold in folds.items() if (offset := fold.oldest_pending()) is not None},
            tuple(detail for fold in folds.values() for detail in fold.details),
        )
        yield from handed_on(result=pa.array([result.to_json()]))

    def _begun(self, numbers: Sequence[int], output: TaskOutput, given: Sequence[bytes]) -> dict[int, PartitionFold]:
        group = _grouping(self.patterns)
        kept = output.kept(given, numbers, group)
        return {
            number: PartitionFold(
                number,
                self.standings.get(number, FoldState()),
                (entry for entry in kept if entry.log_partition == number),
                group,
            )
            for number in numbers
        }


def results_of(frame: DataFrame) -> list[TaskResult]:
    """The results of the tasks of a frame. They run now, unless the frame is kept and was read before."""
    return [TaskResult.from_json(row["result"]) for row in frame.where("result IS NOT NULL").select("result").collect()]


def _grouping(patterns: Sequence[str]) -> Group:
    """As in the agent: the leader's id of a Connect cluster identifies the ids of its tasks."""
    grouping = Grouping(patterns)

    def group(transactional_id: str) -> str:
        grouping.learn(transactional_id)
        return grouping.of(transactional_id).name

    return group


def handed_on(**columns: pa.Array) -> Iterator[pa.RecordBatch]:
    """A batch for Spark with these of the columns ``row``, ``state`` and ``result``; nothing for no rows."""
    (count,) = {len(column) for column in columns.values()}
    if count:
        arrays = [columns.get(entry.name, pa.nulls(count, entry.type)) for entry in _OUTPUT]
        yield pa.RecordBatch.from_arrays(arrays, schema=_OUTPUT)


def spark_type(schema: pa.Schema) -> StructType:
    """Columns of Arrow as Spark's own type."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 -- pyspark is an extra

    found: StructType = from_arrow_schema(schema)
    return found


@dataclass
class TaskFiles:
    """Rows and ids in files below folders that driver and workers mount; ``before`` are the ids of the last batch."""

    folder: Path
    made: Path
    before: tuple[Path, ...] = ()
    ids: str = ""
    files: RowFiles = field(init=False)

    def kept(self, _: Sequence[bytes], numbers: Sequence[int], group: Group) -> list[Entry]:
        """Raise HistoryError for a file that is damaged."""
        self.files = RowFiles(self.folder)  # here, in the task: its files have names of their own
        return _read(self.before, numbers, group, ", ".join(map(str, self.before)))

    def rows(self, rows: Sequence[Row]) -> Iterator[pa.RecordBatch]:
        self.files.add(rows)
        return iter(())

    def state(self, kept: Mapping[int, list[Entry]]) -> Iterator[pa.RecordBatch]:
        self.ids = write_kept(chain.from_iterable(kept.values()), self.made)
        return iter(())

    def end(self) -> tuple[tuple[str, ...], str]:
        return tuple(self.files.close()), self.ids


class TaskFrames:
    """Rows and ids that Spark writes."""

    def kept(self, given: Sequence[bytes], numbers: Sequence[int], group: Group) -> list[Entry]:
        """Raise HistoryError for state that is damaged."""
        return _read(map(BytesIO, given), numbers, group, "the state of the last batch")

    def rows(self, rows: Sequence[Row]) -> Iterator[pa.RecordBatch]:
        if rows:
            yield from handed_on(row=table_of(rows).cast(ROW_SCHEMA).to_struct_array().combine_chunks())

    def state(self, kept: Mapping[int, list[Entry]]) -> Iterator[pa.RecordBatch]:
        ids = [{"log_partition": number, "ids": kept_file(states)} for number, states in kept.items()]
        yield from handed_on(state=pa.array(ids, _STATE))

    def end(self) -> tuple[tuple[str, ...], str]:
        return (), ""


def _read(files: Any, numbers: Sequence[int], group: Group, where: str) -> list[Entry]:  # noqa: ANN401 -- pyarrow has no types
    try:
        return read_kept(files, numbers, group)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise HistoryError(
            f"{where}: cannot be read ({str(error).partition(chr(10))[0]}); restore it from a copy, or start again with"
            " another --output"
        ) from None
