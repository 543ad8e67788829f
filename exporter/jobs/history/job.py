"""The streaming query behind ``history run``: each batch of the transaction log becomes rows, exactly once."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException

from exporter.applications.applications import Grouping
from exporter.jobs.checkpoint import Checkpoint, CheckpointError, read_checkpoint
from exporter.jobs.history.fold import FoldState, PartitionFold
from exporter.jobs.history.log_offsets import SETTLED_MS
from exporter.jobs.history.merged import merge_batches
from exporter.jobs.history.store import ROWS, HistoryError, HistoryStore, Index, TaskResult
from exporter.jobs.history.table import RowFiles, read_kept, write_kept
from exporter.jobs.history.transaction_source import BEGIN, NAME, RECORD, LogAccess, transaction_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 1
SETTLE_SECONDS = 30.0
"""Longest wait of a run to the end of the log for aborts that may still become fences."""
START_TRIES = 5
_SLOW_START = "Python worker failed to connect back"
_RESULT = "result string"
_RESULT_ARROW = pa.schema([("result", pa.string())])
# An error of the source's Python process is the last line of a traceback in a Java exception.
_SAID = re.compile(r"(?:TransactionLogError|HistoryError): (.+)")


@dataclass(frozen=True)
class BatchPlan:
    """Parameters of a task: pickled and sent to it. Folders are on a file system that all workers mount."""

    made: Path
    standings: Mapping[int, FoldState]
    kept: Sequence[Path]
    patterns: Sequence[str] = field(default=())

    def fold(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A task: the rows of its partitions of the log to files, and one result."""
        group = _grouping(self.patterns)
        folds: dict[int, PartitionFold] = {}
        done: set[int] = set()
        truncated: list[int] = []
        rows = RowFiles(self.made / ROWS)
        starts: dict[int, int] = {}
        for batch in batches:
            # Spark makes its own batches: marker rows and records arrive mixed, in the order in which they were read.
            for kind, number, offset, instant, key, value in zip(*map(pa.Array.to_pylist, batch.columns), strict=True):
                if kind == RECORD:
                    if starts:
                        folds, starts = self._begun(starts, group), {}
                    folds[number].record(offset, instant, key, value)
                elif kind == BEGIN:
                    starts[number] = offset
                else:
                    if starts:
                        folds, starts = self._begun(starts, group), {}
                    fold = folds[number]
                    if offset < fold.standing.next:
                        truncated.append(number)
                    fold.end(offset, instant)
                    done.add(number)
            for fold in folds.values():
                if fold.rows:
                    rows.add(fold.rows)
                    fold.rows = []
        if not folds and not starts:
            return
        if starts or done != folds.keys():
            raise HistoryError("a piece of the log ended before its end mark: this is a bug")
        result = TaskResult(
            {number: fold.standing for number, fold in folds.items()},
            tuple(rows.close()),
            write_kept((state for fold in folds.values() for state in fold.kept()), self.made),
            rows.count,
            sum(fold.missing for fold in folds.values()),
            sum(fold.undecodable for fold in folds.values()),
            tuple(truncated),
            {number: offset for number, fold in folds.items() if (offset := fold.oldest_pending()) is not None},
            tuple(detail for fold in folds.values() for detail in fold.details),
        )
        yield pa.RecordBatch.from_arrays([pa.array([result.to_json()])], schema=_RESULT_ARROW)

    def _begun(self, starts: Mapping[int, int], group: Callable[[str], str]) -> dict[int, PartitionFold]:
        for number, start in starts.items():
            known = self.standings.get(number, FoldState()).next
            if known != start:
                text = f"partition {number} of the log was folded to {known}, and the checkpoint goes on at {start}"
                raise HistoryError(f"{text}: --output and --checkpoint do not belong together")
        try:
            kept = read_kept(self.kept, list(starts), group)
        except (OSError, pa.ArrowException, ValueError) as error:
            where = ", ".join(str(path) for path in self.kept)
            raise HistoryError(
                f"{where}: cannot be read ({str(error).splitlines()[0]}); restore it from a copy, or start again with"
                " another --output and --checkpoint"
            ) from None
        return {
            number: PartitionFold(
                number,
                self.standings.get(number, FoldState()),
                (state for state in kept if state.entry.log_partition == number),
                group,
            )
            for number in starts
        }


def _grouping(patterns: Sequence[str]) -> Callable[[str], str]:
    """As in the agent: the leader's id of a Connect cluster identifies the ids of its tasks."""
    grouping = Grouping(patterns)

    def group(transactional_id: str) -> str:
        grouping.learn(transactional_id)
        return grouping.of(transactional_id).name

    return group


def check_together(store: HistoryStore, folder: Path) -> Checkpoint:
    """The checkpoint in the folder, if the store's last batch was written with it.

    Raises HistoryError otherwise: rows would be lost or repeated.
    """
    try:
        found = read_checkpoint(folder)
    except CheckpointError as error:
        raise HistoryError(
            f"--checkpoint is damaged: {error}; restore it from a copy, or start again with another --output and"
            " --checkpoint"
        ) from None
    last = store.last
    if last is None:
        if found.committed >= 0:
            text = f"has batches up to {found.committed}, and --output {store.folder} has none"
            raise HistoryError(
                f"--checkpoint {folder}: {text}: give the --output that it was written with, or start again"
            )
        return found
    if found.query != last.checkpoint or found.committed not in (last.batch, last.batch - 1):
        text = f"is not the one that --output {store.folder} was written with"
        how = f"it is at batch {found.committed}, the output at {last.batch}" if found.query else "it is empty"
        advice = "give that one, or start again with another --output and --checkpoint"
        raise HistoryError(f"--checkpoint {folder}: {text} ({how}): {advice}")
    return found


class HistoryJob:
    """Run one streaming query. ``on_batch`` is called after each batch, in Spark's thread."""

    def __init__(
        self,
        spark: SparkSession,
        access: LogAccess,
        store: HistoryStore,
        checkpoint: Path,
        patterns: Sequence[str],
        on_batch: Callable[[Index], None],
    ) -> None:
        self._spark = spark
        self._access = access
        self._store = store
        self._checkpoint = checkpoint
        self._patterns = tuple(patterns)
        self._on_batch = on_batch
        self._failure: HistoryError | None = None
        # A unique name: the registry belongs to the session, which may be the user's.
        spark.dataSource.register(transaction_log(access))

    def run(self, interval: float, over: threading.Event) -> None:
        """Follow the log, a batch each ``interval`` seconds, until ``over``. Raises HistoryError."""
        self._query(over, processingTime=f"{max(1, round(interval * 1000))} milliseconds")

    def run_once(self, ends: Mapping[int, int], over: threading.Event) -> None:
        """Read to these ends, and a little further where earlier aborts may still become fences."""
        settled_by = None
        while not over.is_set():
            before = self._store.last
            # With a Python source, one run is one batch, however much is left.
            self._query(over, availableNow=True)
            last = self._store.last
            behind = {number for number, end in ends.items() if last is None or _next(last, number) < end}
            if behind and last is not before:
                continue
            if behind:
                raise HistoryError(f"{len(behind)} partitions of the log could not be read to their ends")
            if last is None or not any(offset < ends.get(number, 0) for number, offset in last.pending.items()):
                return
            settled_by = settled_by or time.monotonic() + SETTLE_SECONDS
            if time.monotonic() > settled_by:
                return
            over.wait(SETTLED_MS / 1000)

    def _query(self, over: threading.Event, **trigger: Any) -> None:  # noqa: ANN401 -- pyspark's triggers are keywords
        """Run a query until it ends, or until ``over``. Raises HistoryError."""
        for left in reversed(range(START_TRIES)):
            try:
                query = self._start(**trigger)
                while not over.is_set():
                    if query.awaitTermination(LOOK_SECONDS):
                        return
                query.stop()
            except PySparkException as error:
                # Spark gives a new Python process ten seconds. A query can be started again at any time.
                if not left or _SLOW_START not in str(error):
                    raise self._cause(error) from None
            else:
                return

    def _start(self, **trigger: Any) -> StreamingQuery:  # noqa: ANN401 -- as above
        frame = self._spark.readStream.format(NAME).load()
        # With its scheme: on a cluster, a bare path may mean another file system.
        writer = frame.writeStream.foreachBatch(self._batch).option("checkpointLocation", self._checkpoint.as_uri())
        return writer.queryName(f"history-{uuid.uuid4().hex[:8]}").trigger(**trigger).start()

    def _cause(self, error: PySparkException) -> HistoryError:
        if self._failure is not None:
            return self._failure
        text = str(error)
        said = _SAID.findall(text)
        return HistoryError(said[-1].strip() if said else text.strip().splitlines()[0])

    def _batch(self, frame: DataFrame, batch: int) -> None:
        """``foreachBatch``: commits the batch, unless a run that was killed had done so before Spark took note."""
        last = self._store.last
        if last is not None and batch == last.batch:
            return
        try:
            self._on_batch(self._folded(frame, batch, last))
            merge_batches(self._store)
        except HistoryError as error:
            self._failure = error
            raise
        except OSError as error:
            self._failure = HistoryError(f"--output {self._store.folder}: {error.filename or ''}: {error.strerror}")
            raise self._failure from None

    def _folded(self, frame: DataFrame, batch: int, last: Index | None) -> Index:
        if batch != (last.batch + 1 if last else 0):
            text = f"Spark runs batch {batch}, and the output ends with {last.batch if last else 'none'}"
            raise HistoryError(f"{text}: --output and --checkpoint do not belong together")
        query = read_checkpoint(self._checkpoint).query
        with self._store.under_way() as made:
            plan = BatchPlan(made, last.standings if last else {}, self._store.kept_files(), self._patterns)
            # Each task reads whole partitions of the log, in order: nothing is shuffled.
            rows = frame.mapInArrow(plan.fold, _RESULT).collect()
            results = [TaskResult.from_json(row["result"]) for row in rows]
            return self._store.commit(made, batch, query, results, int(time.time() * 1000))


def _next(index: Index, number: int) -> int:
    return index.standings.get(number, FoldState()).next
