"""Rows of a sink for a topic: positions from a table with ``kafka_topic, kafka_partition, kafka_offset``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from exporter.jobs.audit.fold import OFFSET_BITS
from exporter.jobs.audit.tables import SinkTable, rows_of
from exporter.jobs.session import SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("kafka_topic", "kafka_partition", "kafka_offset")


def stored(session: SparkSession, sink: SinkTable, topic: str) -> DataFrame:
    """The position of each of the sink's rows of this topic, null where a row has none.

    Raises SessionError when it cannot be read.
    """
    rows = rows_of(session, sink)
    if missing := [name for name in COLUMNS if name not in {column.lower() for column in rows.columns}]:
        raise SessionError(
            f"{sink.name} has no column {', '.join(missing)}; it has {', '.join(rows.columns)}. The audit needs"
            f" {', '.join(COLUMNS)} of the record that each row was made of; for a sink that keeps the latest row of"
            " each key, give --sink-key"
        )
    partition, offset = f.col("kafka_partition").cast("bigint"), f.col("kafka_offset").cast("bigint")
    position = f.when((partition >= 0) & (offset >= 0), f.shiftleft(partition, OFFSET_BITS).bitwiseOR(offset))
    return rows.where(f.col("kafka_topic") == topic).select(position.alias("position"))
