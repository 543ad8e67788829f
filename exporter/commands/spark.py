"""The flags of commands that run on Spark: where, with which settings, and on tables of which format."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from exporter.commands.output import say
from exporter.jobs.lakes.formats import LAKES
from exporter.jobs.session import check_installed, spark_session

if TYPE_CHECKING:
    from exporter.jobs.lakes.lake import Lake


def add_spark_flags(parser: argparse.ArgumentParser) -> None:
    """``--master`` and ``--conf``, with the meaning they have for spark-submit."""
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="Spark master (local[*]); under spark-submit its own master is used",
    )
    parser.add_argument(
        "--conf",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark setting, such as spark.driver.memory=4g; repeatable",
    )


def add_format_flag(parser: argparse.ArgumentParser) -> None:
    """``--format``, of a history's table."""
    parser.add_argument("--format", choices=("parquet", *LAKES), default="parquet", help="of the table (parquet)")


def spark_conf(options: argparse.Namespace) -> dict[str, str]:
    """The settings of ``--conf``; the last one of a key counts."""
    return dict(options.conf)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{key!r} is no KEY=VALUE of Spark, such as spark.driver.memory=4g")
    return key, value


@contextmanager
def opened_lake(job: str, options: argparse.Namespace, url: str, java_options: Sequence[str] = ()) -> Iterator[Lake]:
    """A session with a table of ``--format`` in it. Raises SessionError."""
    check_installed()
    lake = LAKES[options.format]
    packages, conf = lake.packages(url), {**lake.conf(url), **spark_conf(options)}
    say("starting Spark ...")
    with spark_session(job, master=options.master, packages=packages, conf=conf, java_options=java_options) as spark:
        yield lake(spark, url)
