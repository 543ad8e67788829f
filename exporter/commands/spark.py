"""The flags of commands that run on Spark: where, and with which settings."""

from __future__ import annotations

import argparse


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


def spark_conf(options: argparse.Namespace) -> dict[str, str]:
    """The settings of ``--conf``; the last one of a key counts."""
    return dict(options.conf)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{key!r} is no KEY=VALUE of Spark, such as spark.driver.memory=4g")
    return key, value
