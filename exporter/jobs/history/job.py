"""The job behind ``history run``: batch after batch of the transaction log becomes rows, exactly once.

A batch reads from where the last committed one ended, and commits its rows together with its own end. One that was not
committed left nothing, and is planned anew: there is no position beside that of the table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException

from exporter.jobs.history.fold import FoldState
from exporter.jobs.history.index import HistoryError, Index
from exporter.jobs.history.log_offsets import SETTLED_MS, Look, PartitionOffset, advanced, planned
from exporter.jobs.history.task import BatchPlan
from exporter.jobs.history.transaction_source import ASK_SECONDS, LogAccess, LogEnds, TransactionLogError
from exporter.jobs.spark_error import error_line
from exporter.model import Deadline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASK_AGAIN_SECONDS = 1.0
SETTLE_SECONDS = 30.0
"""Longest wait of a run to the end of the log for aborts that may still become fences."""
START_TRIES = 5
_SLOW_START = "Python worker failed to connect back"


class HistoryTable(Protocol):
    """A table of one format, held by its only writer."""

    @property
    def spark(self) -> SparkSession:
        """The session that writes."""

    @property
    def last(self) -> Index | None:
        """The last batch that was committed."""

    def write(self, plan: BatchPlan) -> Index:
        """Run a plan, and commit its rows and its end at once: a batch is there whole, or not at all."""

    def maintain(self) -> None:
        """Merge small files, and remove what is not needed any more. The history goes on where this fails."""


class HistoryJob:
    """Write batches into a table. ``on_batch`` is called after each."""

    def __init__(
        self,
        access: LogAccess,
        table: HistoryTable,
        patterns: Sequence[str],
        on_batch: Callable[[Index], None],
    ) -> None:
        self._access = access
        self._table = table
        self._patterns = tuple(patterns)
        self._on_batch = on_batch
        now_ms = int(time.time() * 1000)
        standings = table.last.standings if table.last else {}
        # What had no newer records is not known of before: a partition is settled by a read that is this much later.
        self._marks = {number: PartitionOffset(standing.next, -1, now_ms) for number, standing in standings.items()}

    def run(self, interval: float, over: threading.Event) -> None:
        """Follow the log, a batch each ``interval`` seconds, until ``over``. Raises HistoryError."""
        with self._stopped_by(over), closing(LogEnds(self._access)) as log:
            while not over.is_set():
                began = time.monotonic()
                self._batch(log, over)
                over.wait(max(0.0, began + interval - time.monotonic()))

    def run_once(self, ends: Mapping[int, int], over: threading.Event) -> None:
        """Read to these ends, and a little further where earlier aborts may still become fences."""
        settled_by = None
        with self._stopped_by(over), closing(LogEnds(self._access)) as log:
            while not over.is_set():
                moved = self._batch(log, over)
                last = self._table.last
                behind = {number for number, end in ends.items() if last is None or _next(last, number) < end}
                if behind and (moved or over.is_set()):
                    continue
                if behind:
                    raise HistoryError(f"{len(behind)} partitions of the log could not be read to their ends")
                if last is None or not any(offset < ends.get(number, 0) for number, offset in last.pending.items()):
                    return
                settled_by = settled_by or time.monotonic() + SETTLE_SECONDS
                if time.monotonic() > settled_by:
                    return
                over.wait(SETTLED_MS / 1000)

    def _batch(self, log: LogEnds, over: threading.Event) -> bool:
        """Write one batch; False where nothing is to be read, or it is over. Raises HistoryError."""
        look = self._look(log, over)
        marks = advanced(self._marks, look, self._access.most) if look is not None else self._marks
        if marks == self._marks:
            return False
        last = self._table.last
        tasks = planned(self._marks, marks, self._access.tasks)
        plan = BatchPlan(self._access, tasks, last.standings if last else {}, self._patterns)
        index = self._written(plan, over)
        if index is None:
            return False
        self._marks = marks
        self._on_batch(index)
        self._table.maintain()
        return True

    def _written(self, plan: BatchPlan, over: threading.Event) -> Index | None:
        """The batch of this plan; None where it is over. Raises HistoryError."""
        left = START_TRIES
        while True:
            left -= 1
            try:
                return self._table.write(plan)
            except (PySparkException, Py4JError) as error:
                if over.is_set():
                    return None
                # Spark gives a new Python process ten seconds.
                if not left or _SLOW_START not in str(error):
                    raise HistoryError(error_line(error)) from None

    def _look(self, log: LogEnds, over: threading.Event) -> Look | None:
        """The ends of the log, asked for again while brokers do not answer; None when it is over."""
        until = Deadline.after(self._access.patience)
        while not over.is_set():
            try:
                return log.ask(Deadline.after(ASK_SECONDS))
            except TransactionLogError as error:
                if until.over:
                    raise HistoryError(str(error)) from None
                over.wait(ASK_AGAIN_SECONDS)
        return None

    @contextmanager
    def _stopped_by(self, over: threading.Event) -> Iterator[None]:
        """Have Spark's tasks end when it is over: a batch that is not committed leaves nothing."""
        done = threading.Event()

        def watch() -> None:
            over.wait()
            if not done.is_set():
                self._table.spark.sparkContext.cancelAllJobs()

        thread = threading.Thread(target=watch, name="stop", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()


def _next(index: Index, number: int) -> int:
    return index.standings.get(number, FoldState()).next
