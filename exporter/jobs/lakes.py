"""Tables of a lake, Iceberg and Delta: their names and snapshots, and what a session needs for them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from exporter.jobs.session import TRIED_PYSPARK, SessionError, hadoop_aws, pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEWEST = 20
"""Versions of Delta that are read first: each is a file."""
_ICEBERG = "org.apache.iceberg:iceberg-spark-runtime"
_CATALOG = "eos"
"""Of tables of Iceberg that are given by their folder."""


class Lake(ABC):
    """A table. ``url`` is a folder, here or in an object store, or the name of a table in a catalog of the session.

    Methods raise pyspark's and py4j's errors.
    """

    format_name: ClassVar[str]
    releases: ClassVar[dict[str, str]]
    """Maven coordinates by Spark's version."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.spark, self.url, self.name = spark, url, self.named(url)

    @classmethod
    def packages(cls, url: str) -> list[str]:
        """Coordinates for the installed pyspark, and for the object store of this URL.

        Raises SessionError where the format has no release for this Spark.
        """
        version = pyspark_version()
        spark = ".".join(version.split(".")[:2])
        if spark not in cls.releases:
            fitting = [tried for tried in TRIED_PYSPARK if tried.rpartition(".")[0] in cls.releases]
            newest = max(fitting, key=lambda tried: [int(number) for number in tried.split(".")])
            raise SessionError(f"{cls.format_name} has no release for Spark {version}: pip install 'pyspark=={newest}'")
        return [cls.releases[spark], *store_packages(url)]

    @classmethod
    @abstractmethod
    def conf(cls, url: str) -> dict[str, str]:
        """Settings of the session."""

    @staticmethod
    @abstractmethod
    def named(url: str) -> str:
        """The table's name in SQL."""

    @abstractmethod
    def snapshots(self) -> Iterator[str]:
        """Its snapshots, the newest first, as far as the table remembers them."""

    def create(self, columns: str, partition: str) -> None:
        """Create it with these columns, by one of them, unless it is there."""
        using = self.format_name.lower()
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING {using} PARTITIONED BY ({partition})")

    def rows(self, snapshot: str = "") -> DataFrame:
        """All rows of a snapshot, by default of the newest one."""
        version = f" VERSION AS OF {snapshot}" if snapshot else ""
        return self.spark.sql(f"SELECT * FROM {self.name}{version}")  # noqa: S608 -- the names of the user


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
        }

    @staticmethod
    def named(url: str) -> str:
        return f"delta.`{folder_url(url)}`" if is_folder(url) else url

    def snapshots(self) -> Iterator[str]:
        seen = 0
        for limit in (f" LIMIT {_NEWEST}", ""):
            found = self.spark.sql(f"DESCRIBE HISTORY {self.name}{limit}").select("version")
            for row in found.collect()[seen:]:
                yield str(row["version"])
                seen += 1


class IcebergLake(Lake):
    """A table of a catalog of Iceberg, or a folder."""

    format_name = "Iceberg"
    releases: ClassVar[dict[str, str]] = {
        "3.5": f"{_ICEBERG}-3.5_2.12:1.10.0",
        "4.0": f"{_ICEBERG}-4.0_2.13:1.11.0",
        "4.1": f"{_ICEBERG}-4.1_2.13:1.12.0",
    }

    @classmethod
    def conf(cls, url: str) -> dict[str, str]:
        chosen = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
        if is_folder(url):
            catalog = f"spark.sql.catalog.{_CATALOG}"
            chosen[catalog] = "org.apache.iceberg.spark.SparkCatalog"
            chosen[f"{catalog}.type"] = "hadoop"
            chosen[f"{catalog}.warehouse"] = folder_url(url).rpartition("/")[0]
            # Else a session sees commits of others half a minute late.
            chosen[f"{catalog}.cache-enabled"] = "false"
        return chosen

    @staticmethod
    def named(url: str) -> str:
        return f"{_CATALOG}.`{folder_url(url).rpartition('/')[2]}`" if is_folder(url) else url

    def snapshots(self) -> Iterator[str]:
        found = self.spark.sql(
            f"SELECT snapshot_id FROM {self.name}.history WHERE is_current_ancestor ORDER BY made_current_at DESC"  # noqa: S608 -- the name of the user
        )
        return (str(row["snapshot_id"]) for row in found.toLocalIterator())


LAKES: dict[str, type[Lake]] = {"iceberg": IcebergLake, "delta": DeltaLake}
"""The formats by name."""


def store_packages(url: str) -> list[str]:
    """Maven coordinates for the object store of a URL."""
    return [hadoop_aws()] if url.startswith("s3a:") else []


def is_folder(url: str) -> bool:
    """Return whether a table is given by its folder, and not by its name in a catalog."""
    return "/" in url


def folder_url(url: str) -> str:
    """A folder with its scheme: on a cluster, a bare path may mean another file system."""
    return (url if re.match(r"[a-z0-9]+:/", url) else Path(url).resolve().as_uri()).rstrip("/")
