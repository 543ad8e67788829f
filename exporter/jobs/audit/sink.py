"""Rows of a sink for a topic: positions from a table with ``kafka_topic, kafka_partition, kafka_offset``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from exporter.jobs.audit.columns import reason
from exporter.jobs.audit.fold import OFFSET_BITS
from exporter.jobs.session import POSTGRESQL, SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("kafka_topic", "kafka_partition", "kafka_offset")
_DRIVERS = {"jdbc:postgresql:": "org.postgresql.Driver"}
_FETCH_ROWS = "50000"


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table by JDBC, or a folder of Parquet files (``table`` is "")."""

    url: str
    table: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Sink({self.url.partition('?')[0]}, {self.table})"

    @property
    def jdbc(self) -> bool:
        return self.url.startswith("jdbc:")

    @property
    def packages(self) -> tuple[str, ...]:
        """The driver to resolve, where we know it; any other comes by ``--conf spark.jars...``."""
        return (POSTGRESQL,) if self.url.startswith("jdbc:postgresql:") else ()

    @property
    def name(self) -> str:
        """Its name for reports, without credentials."""
        return f"{self.url.partition('?')[0]} {self.table}".strip()


def stored(session: SparkSession, sink: SinkTable, topic: str) -> DataFrame:
    """The position of each of the sink's rows of this topic, null where a row has none.

    Read over one connection, so that it is one snapshot. Raises SessionError when it cannot be read.
    """
    try:
        rows = _jdbc(session, sink) if sink.jdbc else session.read.parquet(sink.url)
        if missing := [name for name in COLUMNS if name not in {column.lower() for column in rows.columns}]:
            raise SessionError(
                f"{sink.name} has no column {', '.join(missing)}; it has {', '.join(rows.columns)}. The audit needs"
                f" {', '.join(COLUMNS)} of the record that each row was made of"
            )
        partition, offset = f.col("kafka_partition").cast("bigint"), f.col("kafka_offset").cast("bigint")
        position = f.when((partition >= 0) & (offset >= 0), f.shiftleft(partition, OFFSET_BITS).bitwiseOR(offset))
        return rows.where(f.col("kafka_topic") == topic).select(position.alias("position"))
    except PySparkException as error:
        raise SessionError(f"{sink.name} cannot be read: {reason(error)}") from None


def _jdbc(session: SparkSession, sink: SinkTable) -> DataFrame:
    options = {"url": sink.url, "dbtable": sink.table, "fetchsize": _FETCH_ROWS}
    # The driver's class is named each time: DriverManager does not find one that came with spark.jars.packages.
    for prefix, name in _DRIVERS.items():
        if sink.url.startswith(prefix):
            options["driver"] = name
    if sink.user:
        options |= {"user": sink.user, "password": sink.password}
    return session.read.format("jdbc").options(**options).load()
