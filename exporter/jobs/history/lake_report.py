"""Counts for a report from a table of a lake: tasks of Spark count, and the driver adds up."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
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
from exporter.jobs.history.tally import HistoryTally, notable
from exporter.jobs.spark_error import error_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LakeHistory:
    """A history in a table. Raises HistoryError where there is none."""

    def __init__(self, table: LakeTable) -> None:
        self._lake = table.lake
        try:
            commit = table.read_commit()
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
        whole = HistoryTally(width_ms)
        counted = self._chosen(span).mapInArrow(partial(_counted, width_ms), "tally binary")
        for row in counted.toLocalIterator():
            whole.merge(pickle.loads(row["tally"]))  # noqa: S301 -- written by our own task
        return whole

    def coverage(self) -> tuple[int | None, tuple[str, ...]]:
        index = self._index
        return index.written_ms, gaps(index.total_missing, index.total_undecodable, index.total_truncated)

    def markers(self) -> None:
        """Nothing is compared beside a table."""

    def _chosen(self, span: ReportRange) -> DataFrame:
        rows = self._lake.rows()
        if span.begin_ms is not None:
            rows = rows.where(f.col("complete") >= f.timestamp_millis(f.lit(span.begin_ms)))
        if span.end_ms is not None:
            rows = rows.where(f.col("complete") < f.timestamp_millis(f.lit(span.end_ms)))
        if span.application is not None:
            rows = rows.where(f.col("application") == span.application)
        return rows.select(*SCHEMA.names)


def _counted(width_ms: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task: the tally of its rows."""
    tally = HistoryTally(width_ms)
    for batch in batches:
        rows = pa.Table.from_batches([batch]).cast(SCHEMA)
        tally.add(rows)
        tally.note(notable(rows))
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(tally)], pa.binary())], ["tally"])
