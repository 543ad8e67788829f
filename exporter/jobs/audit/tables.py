"""Tables beside a topic: by JDBC, of a lake, of any format that Spark reads, and expressions over their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from exporter.jobs.audit.columns import ExpressionError, columns_of, reason
from exporter.jobs.audit.offset_range import OFFSET_BITS
from exporter.jobs.lakes import LAKES, Lake
from exporter.jobs.session import POSTGRESQL, SessionError
from exporter.jobs.spark_error import error_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SINK_COLUMNS = ("kafka_topic", "kafka_partition", "kafka_offset")
_POSTGRESQL = "jdbc:postgresql:"
_DRIVERS = {_POSTGRESQL: "org.postgresql.Driver"}
_FETCH_ROWS = "50000"
FEW = 5
_PREPARED = (
    "(SELECT gid, owner::text, (prepared AT TIME ZONE 'UTC')::timestamp(0)::text AS prepared, count(*) OVER () AS total"  # noqa: S608 -- numbers of our own
    f" FROM pg_prepared_xacts WHERE database = current_database() ORDER BY pg_prepared_xacts.prepared LIMIT {FEW}) held"
)
MOST_SNAPSHOTS = 5_000
"""Snapshots of a table that are looked at, the newest."""


@dataclass(frozen=True, slots=True)
class SinkTable:
    """A table by JDBC (``table``), of a lake (``format`` is of ``LAKES``), or of another ``format`` that Spark reads.

    ``snapshot`` is what is read of a table of a lake, "" for the newest. ``options`` are those of another format.
    """

    url: str
    table: str = ""
    user: str = ""
    password: str = ""
    format: str = "parquet"
    snapshot: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Sink({self.name})"

    @property
    def lake(self) -> type[Lake] | None:
        return LAKES.get(self.format)

    @property
    def jdbc(self) -> bool:
        return self.url.startswith("jdbc:")

    @property
    def packages(self) -> tuple[str, ...]:
        """Maven coordinates of the reader. Another driver comes by ``--conf spark.jars...``. Raises SessionError."""
        if self.lake:
            return tuple(self.lake.packages(self.url))
        return (POSTGRESQL,) if self.url.startswith(_POSTGRESQL) else ()

    @property
    def conf(self) -> dict[str, str]:
        """Settings of the session that reads it."""
        return self.lake.conf(self.url) if self.lake else {}

    @property
    def name(self) -> str:
        """Its name for reports, without credentials."""
        if self.format != "parquet":
            return f"{self.format}:{self.url}{f'@{self.snapshot}' if self.snapshot else ''}"
        url = self.url.partition("?")[0]
        if self.jdbc:
            url = url.partition(";")[0]  # SQL Server: ...;user=USER;password=PASSWORD
        if self.jdbc and "@" in url:  # Oracle: thin:USER/PASSWORD@HOST; MySQL: //USER:PASSWORD@HOST
            url = f"{':'.join(url.split(':')[:2])}:***@{url.rpartition('@')[2]}"
        return f"{url} {self.table}".strip()


def rows_of(session: SparkSession, table: SinkTable) -> DataFrame:
    """All rows of one snapshot: by JDBC over one connection, of a lake by its snapshot. Raises SessionError."""
    try:
        if table.lake:
            return table.lake(session, table.url).rows(table.snapshot)
        if table.jdbc:
            return _jdbc(session, table, table.table)
        return session.read.format(table.format).options(**dict(table.options)).load(table.url)
    except PySparkException as error:
        raise SessionError(f"{table.name} cannot be read: {reason(error)}") from None


def positions_of(session: SparkSession, sink: SinkTable, topic: str) -> DataFrame:
    """The position of each of the sink's rows of this topic, null where a row has none.

    Raises SessionError when it cannot be read.
    """
    rows = rows_of(session, sink)
    if missing := [name for name in SINK_COLUMNS if name not in {column.lower() for column in rows.columns}]:
        raise SessionError(
            f"{sink.name} has no column {', '.join(missing)}; it has {', '.join(rows.columns)}. The audit needs"
            f" {', '.join(SINK_COLUMNS)} of the record that each row was made of; for a sink that keeps the latest row"
            " of each key, give sink.key"
        )
    partition, offset = f.col("kafka_partition").cast("bigint"), f.col("kafka_offset").cast("bigint")
    position = f.when((partition >= 0) & (offset >= 0), f.shiftleft(partition, OFFSET_BITS).bitwiseOR(offset))
    return rows.where(f.col("kafka_topic") == topic).select(position.alias("position"))


def pinned(session: SparkSession, table: SinkTable) -> SinkTable:
    """A table with the snapshot that is read. Raises SessionError."""
    if not table.lake:
        return table
    try:
        ids = list(islice(table.lake(session, table.url).snapshots(), MOST_SNAPSHOTS))
    except (PySparkException, Py4JError) as error:
        raise SessionError(f"{table.name} cannot be read: {error_line(error)}") from None
    if table.snapshot and table.snapshot not in ids:
        newest = ", ".join(ids[:FEW]) or "none"
        raise SessionError(f"{table.name}: no such snapshot among the last {MOST_SNAPSHOTS:,}; the newest are {newest}")
    if not ids:
        return table
    return replace(table, snapshot=table.snapshot or ids[0])


def column(rows: DataFrame, flag: str, text: str) -> Column:
    """The column of one expression over a table's rows. Raises ExpressionError."""
    try:
        rows.select(f.expr(text))
    except PySparkException as error:
        raise ExpressionError(f"{flag} {text!r}: {reason(error)}. Columns: {columns_of(rows)}") from None
    return f.expr(text)


def prepared_transactions(session: SparkSession, table: SinkTable) -> list[str]:
    """Notes on transactions of PostgreSQL that are prepared and not decided: their rows are not in the table yet."""
    if not table.url.startswith(_POSTGRESQL):
        return []
    try:
        found = _jdbc(session, table, _PREPARED).collect()
    except (PySparkException, Py4JError) as error:
        return [f"{table.name}: its prepared transactions (XA) cannot be read: {reason(error)}"]
    if not found:
        return []
    named = ", ".join(f"{row['gid']} of {row['owner']} since {row['prepared']} UTC" for row in found)
    total = found[0]["total"]
    state = "are prepared (XA) and neither committed nor rolled back, so that no table has their rows yet"
    return [f"{table.name}: {total} transaction(s) of the database {state}; the oldest first: {named}"]


def _jdbc(session: SparkSession, sink: SinkTable, table: str) -> DataFrame:
    options = {"url": sink.url, "dbtable": table, "fetchsize": _FETCH_ROWS}
    # The driver's class is named each time: DriverManager does not find one that came with spark.jars.packages.
    for prefix, name in _DRIVERS.items():
        if sink.url.startswith(prefix):
            options["driver"] = name
    if sink.user:
        options |= {"user": sink.user, "password": sink.password}
    return session.read.format("jdbc").options(**options).load()
