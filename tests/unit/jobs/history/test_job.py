"""One task of the job, without Spark around it: rows and state of its partitions of the log, from Arrow batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.jobs.history.fold import FoldState
from exporter.jobs.history.job import BatchPlan
from exporter.jobs.history.log_offsets import BatchRange, planned
from exporter.jobs.history.store import ROWS, HistoryError, TaskResult
from exporter.jobs.history.transaction_source import ARROW, BEGIN, END, RECORD, LogAccess, TaskPlan, read_pieces
from exporter.kafka.properties.client import Properties
from exporter.transactions.source.log_range import Range
from tests.fakes.coordinator import BEGIN_MS, CoordinatorId, merge

Marked = tuple[int, int, int, int, bytes | None, bytes | None]


def batches(rows: Sequence[Marked], size: int) -> list[pa.RecordBatch]:
    """As Spark hands them on: cut anywhere."""
    columns = zip(zip(*rows, strict=True), ARROW, strict=True)
    table = pa.table([pa.array(column, field.type) for column, field in columns], schema=ARROW)
    return list(table.to_batches(max_chunksize=size))


def log() -> list[Marked]:
    """Two partitions' marks around the records of the first: a commit, and an abort that is not settled yet."""
    each = CoordinatorId("pay-1", 2, True, BEGIN_MS, iter(range(7, 100)))
    each.initialise()
    for commit in (True, False):
        each.now += 100
        each.add("orders", 0)
        each.now += 100
        each.end(commit=commit, markers_ms=5)
    records = merge([each], 1).records
    marked: list[Marked] = [(BEGIN, 0, 0, -1, None, None), (BEGIN, 1, 4, -1, None, None)]
    marked += [(RECORD, 0, record.offset, record.ms, record.key, record.value) for record in records]
    return [*marked, (END, 0, len(records), 0, None, None), (END, 1, 4, 9_000, None, None)]


def plan(folder: Path, **changed: Any) -> BatchPlan:
    (folder / ROWS).mkdir(parents=True, exist_ok=True)
    return BatchPlan(**{"made": folder, "standings": {1: FoldState(4, BEGIN_MS)}, "kept": (), **changed})


def result(found: Sequence[pa.RecordBatch]) -> TaskResult:
    (batch,) = found
    return TaskResult.from_json(batch.column(0)[0].as_py())


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_task_writes_rows_and_state_however_spark_cuts_its_batches(tmp_path: Path, size: int) -> None:
    found = result(list(plan(tmp_path).fold(batches(log(), size))))
    (file,) = found.files
    rows = pq.ParquetFile(tmp_path / ROWS / file).read().to_pylist()
    assert [row["outcome"] for row in rows] == ["committed"]
    ends = {0: log()[-2][2], 1: 4}
    assert {number: standing.next for number, standing in found.standings.items()} == ends
    assert found.pending == {0: ends[0] - 1}
    assert (found.rows, found.missing, found.truncated) == (1, 0, ())
    # The next batch settles what this one left open.
    more: list[Marked] = [(BEGIN, 0, ends[0], -1, None, None), (END, 0, ends[0], 6_000, None, None)]
    then = result(list(plan(tmp_path, standings=found.standings, kept=[tmp_path / found.ids]).fold(batches(more, 10))))
    (file,) = then.files
    assert [row["outcome"] for row in pq.ParquetFile(tmp_path / ROWS / file).read().to_pylist()] == ["aborted"]
    assert then.pending == {}


def test_a_task_without_partitions_writes_nothing(tmp_path: Path) -> None:
    assert list(plan(tmp_path).fold([])) == []
    assert list(read_pieces(LogAccess(Properties.parse({"bootstrap.servers": "k:9092"}), "c"), None)) == []


def test_a_start_that_is_not_where_the_last_batch_ended_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"partition 1 .* folded to 9, and the checkpoint goes on at 4"):
        list(plan(tmp_path, standings={1: FoldState(9)}).fold(batches(log(), 100)))


def test_damaged_state_is_named_with_what_to_do(tmp_path: Path) -> None:
    ids = result(list(plan(tmp_path).fold(batches(log(), 100)))).ids
    whole = (tmp_path / ids).read_bytes()
    middle = len(whole) // 3
    (tmp_path / ids).write_bytes(whole[:middle] + bytes(40) + whole[middle + 40 :])
    with pytest.raises(HistoryError, match=f"{ids}: cannot be read .*; restore it"):
        list(plan(tmp_path, kept=[tmp_path / ids]).fold(batches(log(), 100)))


def test_a_piece_without_its_end_is_never_taken_for_whole(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="ended before its end mark"):
        list(plan(tmp_path).fold(batches(log()[:-1], 100)))


def test_a_truncated_partition_is_reported(tmp_path: Path) -> None:
    rows: list[Marked] = [(BEGIN, 1, 4, -1, None, None), (END, 1, 2, 0, None, None)]
    assert result(list(plan(tmp_path).fold(batches(rows, 10)))).truncated == (1,)


def test_marks_stand_around_a_plan_without_records() -> None:
    access = LogAccess(Properties.parse({"bootstrap.servers": "k:9092"}), "c")
    empty = TaskPlan((BatchRange(range=Range(3, 7, 7), quiet_ms=5),))
    begin, end = read_pieces(access, empty)
    rows = [tuple(row.values()) for row in (*begin.to_pylist(), *end.to_pylist())]
    assert rows == [(BEGIN, 3, 7, -1, None, None), (END, 3, 7, 5, None, None)]
    assert planned({}, {}, 4) == []


def test_no_secret_shows_in_what_is_printed_of_the_access() -> None:
    secret = {
        "bootstrap.servers": "k:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "eos",
        "sasl.password": "hush-hush",
    }
    access = LogAccess(Properties.parse(secret), "c")
    assert "hush-hush" not in repr(access) + str(access) + json.dumps(str(access.properties))
