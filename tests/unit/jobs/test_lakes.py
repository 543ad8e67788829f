"""How tables of a lake are named, and what a session needs for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.jobs import lakes
from exporter.jobs.lakes import LAKES, DeltaLake, IcebergLake
from exporter.jobs.session import TRIED_PYSPARK, SessionError
from exporter.jobs.spark_error import error_line


def test_a_folder_and_a_table_of_a_catalog_have_names_in_sql(tmp_path: Path) -> None:
    assert DeltaLake.named("s3a://lake/eos/") == "delta.`s3a://lake/eos`"
    assert DeltaLake.named(str(tmp_path)) == f"delta.`file://{tmp_path}`"
    assert IcebergLake.named("s3a://lake/eos") == "eos.`eos`"
    assert {lake.named("catalog.db.eos") for lake in LAKES.values()} == {"catalog.db.eos"}


def test_a_folder_of_iceberg_is_in_a_catalog_of_its_parent() -> None:
    conf = IcebergLake.conf("s3a://lake/tables/eos/")
    assert conf["spark.sql.catalog.eos.warehouse"] == "s3a://lake/tables"
    assert not [key for key in IcebergLake.conf("catalog.db.eos") if "catalog" in key]


@pytest.mark.parametrize("version", TRIED_PYSPARK)
@pytest.mark.parametrize("name", list(LAKES))
def test_a_format_has_a_release_for_spark_or_names_a_pyspark_that_has(
    monkeypatch: pytest.MonkeyPatch, name: str, version: str
) -> None:
    monkeypatch.setattr(lakes, "pyspark_version", lambda: version)
    if (name, version) == ("iceberg", "4.2.0"):
        with pytest.raises(SessionError, match=r"Iceberg has no release for Spark 4\.2\.0: .* 'pyspark==4\.1\.1'"):
            LAKES[name].packages("/data")
    else:
        [package] = LAKES[name].packages("/data")
        assert ("_2.12:" in package) == version.startswith("3.5")


def test_an_object_store_brings_its_client() -> None:
    assert any("hadoop-aws" in package for package in DeltaLake.packages("s3a://lake/eos"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "org.apache.spark.SparkException: Job aborted\n  exporter.x.TransactionLogError: ids: damaged\n\tat java",
            "ids: damaged",
        ),
        ("An error occurred\n: java.io.IOException: no space\n\tat java.io", ": java.io.IOException: no space"),
        ("[TABLE_OR_VIEW_NOT_FOUND] no such table\n== SQL ==", "[TABLE_OR_VIEW_NOT_FOUND] no such table"),
        ("", "ValueError"),
    ],
)
def test_an_error_of_spark_is_told_in_one_line(text: str, line: str) -> None:
    assert error_line(ValueError(text)) == line
