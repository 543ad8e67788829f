"""A Delta table: a batch is a version, and its end is in the version's ``userMetadata``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from exporter.jobs.history.formats.lake import KEY, LakeTable, is_url, url_of
from exporter.jobs.history.table import DAY
from exporter.jobs.session import release_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RELEASES = {
    "3.5": "io.delta:delta-spark_2.12:3.3.2",
    "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
}
_NEWEST = 20
"""Versions that are looked at first for the end of the last batch."""


class DeltaTable(LakeTable):
    """A table of Delta, by its folder or by its name in a catalog."""

    @classmethod
    def packages(cls) -> list[str]:
        return [release_for("Delta", _RELEASES)]

    @classmethod
    def conf(cls, output: str) -> dict[str, str]:  # noqa: ARG003 -- the same for all
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # A batch without a row has an end, too.
            "spark.databricks.delta.skipRecordingEmptyCommits": "false",
        }

    @classmethod
    def named(cls, output: str) -> str:
        return f"delta.`{url_of(output)}`" if is_url(output) else output

    def create(self, columns: str) -> None:
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING delta PARTITIONED BY ({DAY})")

    def location(self) -> str:
        [row] = self.spark.sql(f"DESCRIBE DETAIL {self.name}").select("location").collect()
        return str(row["location"])

    def committed(self) -> str | None:
        for limit in (f" LIMIT {_NEWEST}", ""):
            for row in self.spark.sql(f"DESCRIBE HISTORY {self.name}{limit}").select("userMetadata").collect():
                found = _ours(row["userMetadata"])
                if found is not None:
                    return found
        return None

    def append(self, rows: DataFrame, batch: int, value: str) -> None:
        # Delta skips a version of an application that it has: of two writers of one batch, the second writes nothing.
        options = {"userMetadata": json.dumps({KEY: value}), "txnAppId": KEY, "txnVersion": str(batch)}
        rows.writeTo(self.name).options(**options).append()

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.name}")
        self.spark.sql(f"VACUUM {self.name}")


def _ours(metadata: str | None) -> str | None:
    try:
        found = json.loads(metadata or "null")
    except ValueError:
        return None  # another program's
    return found.get(KEY) if isinstance(found, dict) else None
