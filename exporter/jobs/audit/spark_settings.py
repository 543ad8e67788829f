"""Spark's settings while an audit runs, measured on ten million records; the user's own are back afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As Spark's default, without kafka. By the first version of its interface Spark makes a Row of Java objects of each
# record, and a row of its own of that: a quarter of the CPU of a read.
DIRECT_READ = {
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text"
}  # A few rows of the driver become a frame without a Python process on a worker.
LOCAL_ROWS = {"spark.sql.execution.arrow.pyspark.enabled": "true"}

# Hashes do not get smaller: a tenth of the time of an audit by key. For a Spark that is one process.
PLAIN_SHUFFLE = {"spark.shuffle.compress": "false"}
# With two cores an audit takes a tenth less time than with G1, whose threads run beside it.
JAVA_OPTIONS = ("-XX:+UseParallelGC",)


@contextlib.contextmanager
def with_settings(session: SparkSession, *wanted: dict[str, str]) -> Iterator[None]:
    """Set these for frames that are read in the block."""
    before = {name: session.conf.get(name, None) for settings in wanted for name in settings}
    try:
        for settings in wanted:
            for name, value in settings.items():
                session.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            if known is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, known)
