"""An Iceberg table: a batch is a snapshot, and its end is in the snapshot's summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporter.jobs.history.formats.lake import KEY, LakeTable, is_url, url_of
from exporter.jobs.history.table import BATCH, DAY
from exporter.jobs.session import release_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUNTIME = "org.apache.iceberg:iceberg-spark-runtime"
_RELEASES = {
    "3.5": f"{_RUNTIME}-3.5_2.12:1.10.0",
    "4.0": f"{_RUNTIME}-4.0_2.13:1.11.0",
    "4.1": f"{_RUNTIME}-4.1_2.13:1.12.0",
}
_CATALOG = "eos"
"""Of tables that are given by their folder."""
_PROPERTY = f"snapshot-property.{KEY}"
KEPT_SNAPSHOTS = 100
"""The snapshot that has the end of the last batch is among them, however often the table is compacted."""


class IcebergTable(LakeTable):
    """A table of a catalog of Iceberg."""

    @classmethod
    def packages(cls) -> list[str]:
        return [release_for("Iceberg", _RELEASES)]

    @classmethod
    def conf(cls, output: str) -> dict[str, str]:
        chosen = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
        if is_url(output):
            chosen[f"spark.sql.catalog.{_CATALOG}"] = "org.apache.iceberg.spark.SparkCatalog"
            chosen[f"spark.sql.catalog.{_CATALOG}.type"] = "hadoop"
            chosen[f"spark.sql.catalog.{_CATALOG}.warehouse"] = url_of(output).rstrip("/").rpartition("/")[0]
        return chosen

    @classmethod
    def named(cls, output: str) -> str:
        return f"{_CATALOG}.`{output.rstrip('/').rpartition('/')[2]}`" if is_url(output) else output

    def create(self, columns: str) -> None:
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING iceberg PARTITIONED BY ({DAY})")

    def location(self) -> str:
        return str(self._table().location())

    def committed(self) -> str | None:
        table = self._table()
        snapshot = table.currentSnapshot()
        while snapshot is not None:
            value = snapshot.summary().get(KEY)
            if value is not None:
                return str(value)
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)
        return None

    def append(self, rows: DataFrame, batch: int, value: str) -> None:
        # As an overwrite of what has this number, which is nothing: Iceberg refuses it where another writer of the
        # same batch was faster.
        before = self._table().currentSnapshot()
        writer = rows.writeTo(self.name).option(_PROPERTY, value).option("isolation-level", "serializable")
        if before is not None:
            writer = writer.option("validate-from-snapshot-id", before.snapshotId())
        writer.overwrite(rows[BATCH] == batch)

    def compact(self) -> None:
        catalog = self.name.partition(".")[0]
        self.spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{self.name}')")
        kept = f"retain_last => {KEPT_SNAPSHOTS}"
        self.spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{self.name}', {kept})")

    def _table(self) -> Any:  # noqa: ANN401 -- a table of Iceberg's Java library
        session: Any = self.spark
        return session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, self.name)  # noqa: SLF001 -- Iceberg has no Python of its own for Spark
