"""Tables beside a topic: by JDBC, of a lake, or a folder of Parquet files, and expressions over their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from exporter.jobs.audit.columns import ExpressionError, columns_of, reason
from exporter.jobs.lakes.connect_commits import doubts
from exporter.jobs.lakes.formats import LAKES
from exporter.jobs.session import POSTGRESQL, SessionError
from exporter.jobs.spark_error import error_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_DRIVERS = {"jdbc:postgresql:": "org.postgresql.Driver"}
_FETCH_ROWS = "50000"
FEW = 5
MOST_SNAPSHOTS = 5_000
"""Snapshots of a table that are looked at, the newest."""


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table by JDBC, of a lake, or a folder of Parquet files (``table`` is "").

    ``format`` is a name of ``LAKES``, or "". ``snapshot`` is what is read of a table of a lake, "" for the newest.
    """

    url: str
    table: str = ""
    user: str = ""
    password: str = ""
    format: str = ""
    snapshot: str = ""

    def __repr__(self) -> str:
        return f"Sink({self.url.partition('?')[0]}, {self.table})"

    @property
    def jdbc(self) -> bool:
        return self.url.startswith("jdbc:")

    @property
    def packages(self) -> tuple[str, ...]:
        """What to resolve, where we know it; another driver comes by ``--conf spark.jars...``. Raises SessionError."""
        if self.format:
            return tuple(LAKES[self.format].packages(self.url))
        return (POSTGRESQL,) if self.url.startswith("jdbc:postgresql:") else ()

    @property
    def conf(self) -> dict[str, str]:
        """Settings of the session that reads it."""
        return LAKES[self.format].conf(self.url) if self.format else {}

    @property
    def name(self) -> str:
        """Its name for reports, without credentials."""
        if self.format:
            return f"{self.format}:{self.url}{f'@{self.snapshot}' if self.snapshot else ''}"
        return f"{self.url.partition('?')[0]} {self.table}".strip()


def rows_of(session: SparkSession, table: SinkTable) -> DataFrame:
    """All rows of one snapshot: by JDBC over one connection, of a lake by its snapshot. Raises SessionError."""
    try:
        if table.format:
            return LAKES[table.format](session, table.url).rows(table.snapshot)
        return _jdbc(session, table) if table.jdbc else session.read.parquet(table.url)
    except PySparkException as error:
        raise SessionError(f"{table.name} cannot be read: {reason(error)}") from None


def pinned(session: SparkSession, table: SinkTable) -> tuple[SinkTable, list[str]]:
    """A table with its snapshot, and what its commits up to there make doubtful. Raises SessionError."""
    if not table.format:
        return table, []
    try:
        snapshots = list(islice(LAKES[table.format](session, table.url).snapshots(), MOST_SNAPSHOTS))
    except (PySparkException, Py4JError) as error:
        raise SessionError(f"{table.name} cannot be read: {error_line(error)}") from None
    ids = [snapshot.id for snapshot in snapshots]
    if table.snapshot and table.snapshot not in ids:
        newest = ", ".join(ids[:FEW]) or "none"
        raise SessionError(f"{table.name}: no such snapshot among the last {MOST_SNAPSHOTS:,}; the newest are {newest}")
    if not ids:
        return table, []
    chosen = table.snapshot or ids[0]
    return replace(table, snapshot=chosen), doubts(snapshots[ids.index(chosen) :])


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
