"""Run a streaming query of a job until it ends, or is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from exporter.jobs.session import SessionError
from exporter.jobs.spark_error import error_line

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 1
_TRIES = 5
_SLOW_START = "Python worker failed to connect back"
"""Spark gives a new Python process ten seconds."""


def trigger(*, once: bool, interval: float) -> dict[str, Any]:
    """Spark's trigger: all that is there now, or a batch each ``interval`` seconds."""
    return {"availableNow": True} if once else {"processingTime": f"{interval} seconds"}


def follow(
    start: Callable[[], StreamingQuery], over: threading.Event, on_batch: Callable[[Mapping[str, Any]], None]
) -> None:
    """Run a query until it ends, or until ``over``: what was not committed by then is written by the next run.

    ``on_batch`` is called with the progress of each batch. Raises SessionError.
    """
    last = -1
    for left in reversed(range(_TRIES)):
        try:
            query = start()
            while query.isActive and not over.is_set():
                query.awaitTermination(_LOOK_SECONDS)
                for progress in query.recentProgress:
                    if progress["batchId"] > last:
                        last = progress["batchId"]
                        on_batch(progress)
            query.stop()
            failed: Exception | None = query.exception()
        except (PySparkException, Py4JError) as error:
            failed = error
        if failed is None or over.is_set():
            return
        if not left or _SLOW_START not in str(failed):
            raise SessionError(error_line(failed)) from None
