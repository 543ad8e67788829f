"""Tables beside a topic: a JDBC table, or a folder of Parquet files, and expressions over its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from exporter.jobs.audit.columns import ExpressionError, columns_of, reason
from exporter.jobs.session import POSTGRESQL, SessionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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


def rows_of(session: SparkSession, table: SinkTable) -> DataFrame:
    """All rows, read over one connection, so that they are one snapshot. Raises SessionError."""
    try:
        return _jdbc(session, table) if table.jdbc else session.read.parquet(table.url)
    except PySparkException as error:
        raise SessionError(f"{table.name} cannot be read: {reason(error)}") from None


def column(rows: DataFrame, flag: str, text: str) -> Column:
    """The column of one expression over a table's rows. Raises ExpressionError."""
    from pyspark.sql import functions as f  # noqa: PLC0415 -- as the type

    try:
        rows.select(f.expr(text))
    except PySparkException as error:
        raise ExpressionError(f"{flag} {text!r}: {reason(error)}. Columns: {columns_of(rows)}") from None
    return f.expr(text)


def _jdbc(session: SparkSession, sink: SinkTable) -> DataFrame:
    options = {"url": sink.url, "dbtable": sink.table, "fetchsize": _FETCH_ROWS}
    # The driver's class is named each time: DriverManager does not find one that came with spark.jars.packages.
    for prefix, name in _DRIVERS.items():
        if sink.url.startswith(prefix):
            options["driver"] = name
    if sink.user:
        options |= {"user": sink.user, "password": sink.password}
    return session.read.format("jdbc").options(**options).load()
