"""A table of a lake, whatever its format: its folder or name, its snapshots, and commits that carry a note."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from exporter.jobs.session import TRIED_PYSPARK, SessionError, hadoop_aws, pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LakeSnapshot(NamedTuple):
    """A snapshot of a table, with what its writer noted in it."""

    id: str
    notes: Mapping[str, str]


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
        return [cls.releases[spark], *([hadoop_aws()] if url.startswith("s3a:") else [])]

    @classmethod
    @abstractmethod
    def conf(cls, url: str) -> dict[str, str]:
        """Settings of the session."""

    @staticmethod
    @abstractmethod
    def named(url: str) -> str:
        """The table's name in SQL."""

    @abstractmethod
    def create(self, columns: str, partition: str) -> None:
        """Create it with these columns, by one of them, unless it is there."""

    @abstractmethod
    def location(self) -> str:
        """Where its files are."""

    @abstractmethod
    def snapshots(self) -> Iterator[LakeSnapshot]:
        """Its snapshots, the newest first, as far as the table remembers them."""

    @abstractmethod
    def append(self, rows: DataFrame, batch: str, number: int, note: tuple[str, str]) -> None:
        """Commit rows, and a note on them, at once; unless another writer committed ``number`` of ``batch``.

        ``batch`` is the column that has this number in all of these rows, and in no others.
        """

    @abstractmethod
    def compact(self) -> None:
        """Merge small files, and remove those that no reader needs."""

    def note(self, key: str) -> str | None:
        """The newest note of this key."""
        return next((snapshot.notes[key] for snapshot in self.snapshots() if key in snapshot.notes), None)

    def rows(self, snapshot: str = "") -> DataFrame:
        """All rows of a snapshot, by default of the newest one."""
        version = f" VERSION AS OF {snapshot}" if snapshot else ""
        return self.spark.sql(f"SELECT * FROM {self.name}{version}")  # noqa: S608 -- the names of the user


def is_folder(url: str) -> bool:
    """Return whether a table is given by its folder, and not by its name in a catalog."""
    return "/" in url


def folder_url(url: str) -> str:
    """A folder with its scheme: on a cluster, a bare path may mean another file system."""
    return (url if re.match(r"[a-z0-9]+:/", url) else Path(url).resolve().as_uri()).rstrip("/")
