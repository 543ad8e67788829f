"""Delta: a commit is a version, and a note is in its ``userMetadata``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from exporter.jobs.lakes.lake import Lake, LakeSnapshot, folder_url, is_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEWEST = 20
"""Versions that are read first: each is a file."""


class DeltaLake(Lake):
    """A table of a catalog, or a folder."""

    format_name = "Delta"
    releases: ClassVar[dict[str, str]] = {
        "3.5": "io.delta:delta-spark_2.12:3.3.2",
        "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
        "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
    }

    @classmethod
    def conf(cls, url: str) -> dict[str, str]:  # noqa: ARG003 -- the same for all
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # Of the log of a table: as many tasks at each look at it. The default is 50.
            "spark.databricks.delta.snapshotPartitions": "2",
            # VACUUM has 17 jobs of so many tasks, however small the table is. The default is 10,000.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
            # A commit without a row has a note, too.
            "spark.databricks.delta.skipRecordingEmptyCommits": "false",
        }

    @staticmethod
    def named(url: str) -> str:
        return f"delta.`{folder_url(url)}`" if is_folder(url) else url

    def create(self, columns: str, partition: str) -> None:
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING delta PARTITIONED BY ({partition})")

    def location(self) -> str:
        [row] = self.spark.sql(f"DESCRIBE DETAIL {self.name}").select("location").collect()
        return str(row["location"])

    def snapshots(self) -> Iterator[LakeSnapshot]:
        seen = 0
        for limit in (f" LIMIT {_NEWEST}", ""):
            found = self.spark.sql(f"DESCRIBE HISTORY {self.name}{limit}").select("version", "userMetadata")
            for version, metadata in found.collect()[seen:]:
                yield LakeSnapshot(str(version), _notes(metadata))
                seen += 1

    def append(self, rows: DataFrame, batch: str, number: int, note: tuple[str, str]) -> None:  # noqa: ARG002 -- Iceberg's
        # Delta skips a version of an application that it has: of two writers of one batch, the second writes nothing.
        key, value = note
        options = {"userMetadata": json.dumps({key: value}), "txnAppId": key, "txnVersion": str(number)}
        rows.writeTo(self.name).options(**options).append()

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.name}")
        self.spark.sql(f"VACUUM {self.name}")


def _notes(metadata: str | None) -> dict[str, str]:
    try:
        found = json.loads(metadata or "null")
    except ValueError:
        return {}  # another program's
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
