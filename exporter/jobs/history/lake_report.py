"""Counts for a report from a table of a lake, by Spark.

All rows are counted by few columns, in SQL. Whole rows are read of the notable ones only, and leave Spark as one tally.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from exporter.jobs.history.files import ReportRange
from exporter.jobs.history.index import HistoryError, gaps
from exporter.jobs.history.lake_table import LakeTable
from exporter.jobs.history.table import SCHEMA
from exporter.jobs.history.tally import LEAST_HOLD_MS, UNCLEAN, HistoryTally
from exporter.jobs.spark_error import error_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNTS = """
SELECT application, outcome, step, open_ms, count(*) AS transactions,
       unix_millis(min(complete)) AS first, unix_millis(max(complete)) AS last
FROM (SELECT application, outcome, complete, unix_millis(complete) div {width_ms} AS step, open_ms FROM {rows})
GROUP BY GROUPING SETS ((application, outcome, step), (application, open_ms))
"""


class LakeHistory:
    """A history in a table. Raises HistoryError where there is none."""

    def __init__(self, table: LakeTable) -> None:
        self._lake = table.lake
        try:
            commit = table.read_commit()
            self._snapshot = next((snapshot.id for snapshot in self._lake.snapshots()), "")
            """All that is read is of it, while a writer goes on."""
        except (PySparkException, Py4JError) as error:
            raise HistoryError(f"--input {table.lake.url}: cannot be read: {error_line(error)}") from None
        if commit is None:
            raise HistoryError(f"--input {table.lake.url}: is not a history; give the --output of `history run`")
        self._index = commit.index
        self.cluster = commit.cluster_name or commit.cluster_id

    def bounds(self, span: ReportRange) -> tuple[int, int]:
        [row] = self._chosen(span).selectExpr("unix_millis(min(complete))", "unix_millis(max(complete))").collect()
        first, last = (row[0] or 0, row[1] or 0)
        return first if span.begin_ms is None else span.begin_ms, last + 1 if span.end_ms is None else span.end_ms

    def counted(self, span: ReportRange, width_ms: int) -> HistoryTally:
        rows = self._chosen(span).withColumn("open_ms", f.expr("cast(rint(open_seconds * 1000) AS bigint)"))
        whole = HistoryTally(width_ms)
        counts = self._lake.spark.sql(_COUNTS, rows=rows, width_ms=width_ms)
        _merge(whole, counts, HistoryTally.add_counts)
        lasted = f.unix_millis("complete") - f.unix_millis("begin") >= LEAST_HOLD_MS
        notable = lasted | f.col("outcome").isin(*UNCLEAN) | (f.col("open_ms") >= whole.longest_ms())
        _merge(whole, rows.where(notable).select(*SCHEMA.names), HistoryTally.note)
        return whole

    def coverage(self) -> tuple[int | None, tuple[str, ...]]:
        index = self._index
        return index.written_ms, gaps(index.total_missing, index.total_undecodable, index.total_truncated)

    def _chosen(self, span: ReportRange) -> DataFrame:
        rows = self._lake.rows(self._snapshot)
        if span.begin_ms is not None:
            rows = rows.where(f.col("complete") >= f.timestamp_millis(f.lit(span.begin_ms)))
        if span.end_ms is not None:
            rows = rows.where(f.col("complete") < f.timestamp_millis(f.lit(span.end_ms)))
        if span.application is not None:
            rows = rows.where(f.col("application") == span.application)
        return rows


def _merge(whole: HistoryTally, rows: DataFrame, add: Callable[[HistoryTally, pa.Table], None]) -> None:
    """Add these rows, by one task at the end, so that the tasks before it run at once and the driver has little."""
    task = partial(_tallied, whole.width_ms, add)
    for row in rows.repartition(1).mapInArrow(task, "tally binary").collect():
        whole.merge(pickle.loads(row["tally"]))  # noqa: S301 -- written by our own task


def _tallied(
    width_ms: int, add: Callable[[HistoryTally, pa.Table], None], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    tally = HistoryTally(width_ms)
    for batch in batches:
        add(tally, pa.Table.from_batches([batch]))
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(tally)], pa.binary())], ["tally"])
