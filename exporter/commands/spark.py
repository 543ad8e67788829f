"""Commands that run on Spark: where, with which settings, and until when."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from exporter.commands.output import say


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


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set; a second one ends the process."""
    over = threading.Event()

    def stop(number: int, _: FrameType | None) -> None:
        over.set()
        signal.signal(number, signal.SIG_DFL)
        say("stopping ...")

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
