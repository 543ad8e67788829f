"""The table of a history: a stream of finished transactions, written by Spark's own writers, a partition for each day.

Its position is in the checkpoint of the stream. Each format has the rows of a batch once, however often it is written:
Spark's readers of Parquet by the log of the file sink (``_spark_metadata``), Delta and Iceberg by the batch's number in
their commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from exporter.jobs.kafka_transactions import NAME, KafkaTransactions
from exporter.jobs.lakes import LAKES, Lake, folder_url, is_folder, store_packages
from exporter.jobs.spark_error import error_line
from exporter.model import CommandError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

DAY = "day"
PARQUET = "parquet"
CHECKPOINT = "_checkpoint"
"""Below a table that is a folder. Formats leave folders with an underscore alone."""
QUERY = "kafka-eos-history"


class HistoryError(CommandError):
    """The history cannot be written or read. One line."""


@dataclass(frozen=True)
class HistoryTable:
    """A table of a history. ``url`` is a folder, or for Iceberg and Delta also the name of a table in a catalog."""

    format: str
    url: str

    @property
    def folder(self) -> str:
        """The URL of its folder, where it has one."""
        return folder_url(self.url)

    @property
    def packages(self) -> list[str]:
        """Maven coordinates. Raises SessionError where the format has no release for this Spark."""
        return store_packages(self.url) if self.format == PARQUET else LAKES[self.format].packages(self.url)

    @property
    def conf(self) -> dict[str, str]:
        """Settings of the session."""
        return {} if self.format == PARQUET else LAKES[self.format].conf(self.url)

    def rows(self, spark: SparkSession) -> DataFrame:
        """All rows, of one snapshot of the table. Raises HistoryError."""
        try:
            if self.format == PARQUET:
                return spark.read.parquet(self.folder)
            lake = LAKES[self.format](spark, self.url)
            return lake.rows(next(lake.snapshots(), ""))
        except PySparkException as error:
            raise HistoryError(f"{self.url}: cannot be read: {error_line(error)}") from None

    def start(
        self, spark: SparkSession, options: Mapping[str, str], checkpoint: str, trigger: Mapping[str, Any]
    ) -> StreamingQuery:
        """Start writing. ``options`` are those of the data source, ``trigger`` is Spark's. Raises pyspark's errors."""
        spark.dataSource.register(KafkaTransactions)
        rows = spark.readStream.format(NAME).options(**options).load().withColumn(DAY, f.to_date("complete"))
        if self.format == PARQUET:
            return _writer(rows, self.format, checkpoint, trigger).partitionBy(DAY).start(self.folder)
        lake = LAKES[self.format](spark, self.url)
        writer = _writer(_as_stored(rows, lake), self.format, checkpoint, trigger)
        if self.format == "delta" and is_folder(self.url):
            return writer.start(self.folder)
        # Iceberg else sorts each batch by day first.
        return writer.option("fanout-enabled", "true").toTable(lake.name)


def _writer(rows: DataFrame, name: str, checkpoint: str, trigger: Mapping[str, Any]) -> DataStreamWriter:
    writer = rows.writeStream.format(name).option("checkpointLocation", checkpoint).queryName(QUERY)
    return writer.trigger(**trigger)


def _as_stored(rows: DataFrame, lake: Lake) -> DataFrame:
    """The rows with the columns of the table, which gets those that it lacks. It may have more of its own."""
    columns = {column.name: column.dataType.simpleString() for column in rows.schema}
    lake.create(", ".join(f"`{name}` {kind}" for name, kind in columns.items()), DAY)
    there = lake.rows().columns
    if missing := [name for name in columns if name not in there]:
        added = ", ".join(f"`{name}` {columns[name]}" for name in missing)
        lake.spark.sql(f"ALTER TABLE {lake.name} ADD COLUMNS ({added})")
    return rows.select(
        *(
            f.col(column.name) if column.name in columns else f.lit(None).cast(column.dataType).alias(column.name)
            for column in lake.rows().schema
        )
    )
