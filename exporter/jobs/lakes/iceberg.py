"""Iceberg: a commit is a snapshot, and a note is in its summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from exporter.jobs.lakes.lake import Lake, LakeSnapshot, folder_url, is_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUNTIME = "org.apache.iceberg:iceberg-spark-runtime"
_CATALOG = "eos"
"""Of tables that are given by their folder."""
KEPT_SNAPSHOTS = 100


class IcebergLake(Lake):
    """A table of a catalog of Iceberg, or a folder."""

    format_name = "Iceberg"
    releases: ClassVar[dict[str, str]] = {
        "3.5": f"{_RUNTIME}-3.5_2.12:1.10.0",
        "4.0": f"{_RUNTIME}-4.0_2.13:1.11.0",
        "4.1": f"{_RUNTIME}-4.1_2.13:1.12.0",
    }

    @classmethod
    def conf(cls, url: str) -> dict[str, str]:
        chosen = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
        if is_folder(url):
            catalog = f"spark.sql.catalog.{_CATALOG}"
            chosen[catalog] = "org.apache.iceberg.spark.SparkCatalog"
            chosen[f"{catalog}.type"] = "hadoop"
            chosen[f"{catalog}.warehouse"] = folder_url(url).rpartition("/")[0]
        return chosen

    @staticmethod
    def named(url: str) -> str:
        return f"{_CATALOG}.`{folder_url(url).rpartition('/')[2]}`" if is_folder(url) else url

    def create(self, columns: str, partition: str) -> None:
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING iceberg PARTITIONED BY ({partition})")

    def location(self) -> str:
        return str(self._table().location())

    def snapshots(self) -> Iterator[LakeSnapshot]:
        table = self._table()
        snapshot = table.currentSnapshot()
        while snapshot is not None:
            yield LakeSnapshot(str(snapshot.snapshotId()), dict(snapshot.summary()))
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)

    def append(self, rows: DataFrame, batch: str, number: int, note: tuple[str, str]) -> None:
        from pyspark.sql import functions as f  # noqa: PLC0415 -- pyspark is an extra

        # As an overwrite of the rows with this number, which are none: Iceberg refuses it where another writer of the
        # same batch was faster.
        before = self._table().currentSnapshot()
        key, value = note
        writer = rows.writeTo(self.name).option(f"snapshot-property.{key}", value)
        if before is not None:
            writer = writer.option("isolation-level", "serializable")
            writer = writer.option("validate-from-snapshot-id", str(before.snapshotId()))
        writer.overwrite(f.col(batch) == number)

    def compact(self) -> None:
        catalog = self.name.partition(".")[0]
        self.spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{self.name}')")
        # The snapshot with the newest note is among those that are kept.
        kept = f"retain_last => {KEPT_SNAPSHOTS}"
        self.spark.sql(f"CALL {catalog}.system.expire_snapshots(table => '{self.name}', {kept})")

    def _table(self) -> Any:  # noqa: ANN401 -- a table of Iceberg's Java library
        session: Any = self.spark
        util = session._jvm.org.apache.iceberg.spark.Spark3Util  # noqa: SLF001 -- its summaries have no other way to Python
        return util.loadIcebergTable(session._jsparkSession, self.name)  # noqa: SLF001 -- as above
