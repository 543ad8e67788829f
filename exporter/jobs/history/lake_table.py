"""A table of a lake: rows by Spark's own writer, wherever Spark can write, and the end of a batch in the commit itself.

::

    TABLE                          the rows, with the columns of ``table.py``, ``day`` and ``batch``
    LOCATION/_kafka_eos/N-*/       the ids that batch N left, for N+1

Rows and the end of a batch become visible by one commit of the format. The ids are written before it, and the commit
names them: a writer that was killed leaves ids that no commit names.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, LongType, StructField

from exporter.jobs.history.index import HistoryError, Index, next_batch
from exporter.jobs.history.table import BATCH, DAY
from exporter.jobs.history.task import ROW_SCHEMA, BatchPlan, TaskFrames, results_of, spark_type
from exporter.jobs.spark_error import error_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from exporter.jobs.lakes.lake import Lake

_LOG = logging.getLogger(__name__)

STATE = "_kafka_eos"
"""Formats leave folders with an underscore alone."""
KEEP_BATCHES = 3
BATCHES_EACH = 60
KEY = "kafka-eos-exporter"
"""Of the note on a batch in its commit."""
_PLACE = (StructField(DAY, DateType()), StructField(BATCH, LongType()))


@dataclass(frozen=True, slots=True)
class Commit:
    """The batch of a commit, by its properties. ``state`` is the folder of its ids."""

    cluster_id: str
    cluster_name: str
    state: str
    index: Index

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Commit:
        """Raise HistoryError for another form."""
        try:
            found = json.loads(text)
            index = Index.from_json(json.dumps(found["index"]))
            return cls(str(found["cluster_id"]), str(found["cluster_name"]), str(found["state"]), index)
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryError(f"the table's last commit of a history cannot be used: {error}") from None


class LakeTable:
    """A history in a table, for one writer."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.spark = lake, lake.spark
        self._cluster = ("", "")
        self._commit: Commit | None = None
        self._ids = ""
        """The folder of the ids."""

    def open(self, cluster_id: str, cluster_name: str) -> None:
        """Create the table, or find its last batch. Raises HistoryError when it is not a history of this cluster."""
        self._cluster = (cluster_id, cluster_name)
        columns = [*spark_type(ROW_SCHEMA), *_PLACE]
        try:
            self.lake.create(_ddl(columns), DAY)
            self._ids = f"{self.lake.location()}/{STATE}"
            self._commit = self.read_commit()
            there = self.lake.rows()
            if self._commit is None and there.limit(1).count():
                raise HistoryError(f"--output {self.lake.url}: has rows, and no commit of a history among its last")
            missing = [column for column in columns if column.name not in there.columns]
            if missing:
                self.spark.sql(f"ALTER TABLE {self.lake.name} ADD COLUMNS ({_ddl(missing)})")
        except (PySparkException, Py4JError) as error:
            raise HistoryError(f"--output {self.lake.url}: {error_line(error)}") from None
        if self._commit is not None and self._commit.cluster_id != cluster_id:
            raise HistoryError(
                f"--output {self.lake.url}: is the history of cluster {self._commit.cluster_id}, and the brokers are"
                f" those of {cluster_id}: give each cluster its own table"
            )

    def read_commit(self) -> Commit | None:
        """The last commit of a history. Raises HistoryError for one that cannot be used."""
        found = self.lake.note(KEY)
        return None if found is None else Commit.from_json(found)

    @property
    def last(self) -> Index | None:
        return self._commit.index if self._commit is not None else None

    def write(self, plan: BatchPlan) -> Index:
        """Run the plan, and commit rows and end of its batch. Raises HistoryError where another writer is at work."""
        number = next_batch(self.last)
        state = f"{self._ids}/{number}-{uuid.uuid4().hex}"
        before = self.spark.read.parquet(self._commit.state) if self._commit is not None else None
        # Rows, ids and end are of one reading of the log: a part that is lost fails the batch, and is not read again.
        frame = plan.frame(self.spark, TaskFrames(), before).localCheckpoint()
        index = Index.after(self.last, results_of(frame), int(time.time() * 1000))
        commit = Commit(*self._cluster, state, index)
        frame.where("state IS NOT NULL").select("state.*").coalesce(1).write.parquet(state)
        if self.read_commit() != self._commit:
            raise HistoryError(f"--output {self.lake.url}: another history run writes here; stop it first")
        rows = frame.where("row IS NOT NULL").select("row.*")
        rows = rows.withColumns({DAY: f.to_date("complete"), BATCH: f.lit(number).cast("bigint")})
        self.lake.append(self._as_stored(rows), BATCH, number, (KEY, commit.to_json()))
        self._commit = commit
        return index

    def maintain(self) -> None:
        """Remove the ids of past batches, and now and then merge files."""
        if self._commit is None:
            return
        number = self._commit.index.batch
        try:
            delete_folders(self.spark, self._ids, number - KEEP_BATCHES)
            if number % BATCHES_EACH == BATCHES_EACH - 1:
                self.lake.compact()
        except (PySparkException, Py4JError) as error:
            _LOG.warning("the table was not tidied (ids of past batches, small files): %s", error_line(error))

    def _as_stored(self, rows: DataFrame) -> DataFrame:
        """The rows with the columns of the table, which may have more of its own, in its order."""
        stored = self.lake.rows().schema
        return rows.select(
            *(
                f.col(field.name).cast(field.dataType)
                if field.name in rows.columns
                else f.lit(None).cast(field.dataType).alias(field.name)
                for field in stored
            )
        )


def delete_folders(spark: SparkSession, parent: str, last: int) -> None:
    """Delete the folders of a folder whose names begin with a number up to ``last``, on any file system of Hadoop."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- Spark has no way to list or delete files from Python
    path = jvm.org.apache.hadoop.fs.Path(parent)
    system = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001 -- as above
    for status in system.listStatus(path):
        number = status.getPath().getName().partition("-")[0]
        if number.isdecimal() and int(number) <= last:
            system.delete(status.getPath(), True)


def _ddl(columns: Iterable[StructField]) -> str:
    return ", ".join(f"`{column.name}` {column.dataType.simpleString()}" for column in columns)
