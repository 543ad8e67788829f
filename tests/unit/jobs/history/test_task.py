"""One task of the job, without Spark around it: rows and state of its partitions of the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.jobs.history.fold import FoldState
from exporter.jobs.history.index import HistoryError, TaskResult
from exporter.jobs.history.log_offsets import BatchRange, planned
from exporter.jobs.history.task import BatchPlan, TaskFiles, TaskFrames
from exporter.jobs.history.transaction_source import LogAccess
from exporter.kafka.properties.client import Properties
from exporter.transactions.source.log_range import Range
from tests.helpers.coordinator import BEGIN_MS
from tests.helpers.stored_log import StoredLog, end, log, pieces


def plan(access: StoredLog, **changed: Any) -> BatchPlan:
    return BatchPlan(
        **{"access": access, "tasks": [pieces(access)], "standings": {1: FoldState(4, BEGIN_MS)}, **changed}
    )


def files(folder: Path, before: tuple[Path, ...] = ()) -> TaskFiles:
    return TaskFiles(folder / "rows", folder, before)


def result(found: Sequence[pa.RecordBatch]) -> TaskResult:
    return TaskResult.from_json(found[-1].column("result")[0].as_py())


def outcomes(folder: Path, names: Sequence[str]) -> list[str]:
    [name] = names
    return [row["outcome"] for row in pq.ParquetFile(folder / "rows" / name).read().to_pylist()]


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_task_writes_rows_and_state_into_files(tmp_path: Path, size: int) -> None:
    access = log(size)
    found = result(list(plan(access).fold(pieces(access), files(tmp_path))))
    assert outcomes(tmp_path, found.files) == ["committed"]
    assert {number: standing.next for number, standing in found.standings.items()} == {0: end(access), 1: 4}
    assert found.pending == {0: end(access) - 1}
    assert (found.rows, found.missing, found.truncated) == (1, 0, ())
    # The next batch settles what this one left open.
    more = pieces(access, start=end(access), quiet_ms=6_000)
    then = result(list(plan(access, standings=found.standings).fold(more, files(tmp_path, (tmp_path / found.ids,)))))
    assert outcomes(tmp_path, then.files) == ["aborted"]
    assert then.pending == {}


def test_a_task_hands_rows_and_state_to_spark() -> None:
    access = log()
    found = list(plan(access).fold(pieces(access), TaskFrames()))
    rows = [row for batch in found for row in batch.column("row").to_pylist() if row is not None]
    assert [row["outcome"] for row in rows] == ["committed"]
    state = {row["log_partition"]: row["ids"] for batch in found for row in batch.column("state").to_pylist() if row}
    assert state.keys() == {0, 1}
    assert result(found).files == ()
    # The next batch settles what this one left open.
    more = pieces(access, start=end(access), quiet_ms=6_000)
    then = plan(access, standings=result(found).standings).fold(more, TaskFrames(), list(state.values()))
    assert [row["outcome"] for batch in then for row in batch.column("row").to_pylist() if row] == ["aborted"]


def test_spark_tells_a_task_its_number_and_hands_it_its_state() -> None:
    access = log()
    given = pa.record_batch([pa.array([0, 0], pa.int32()), pa.array([None, None], pa.binary())], ["task", "ids"])
    assert result(list(plan(access).run(TaskFrames(), iter([given])))).rows == 1
    assert list(plan(access).run(TaskFrames(), iter([]))) == []
    assert planned({}, {}, 4) == []


def test_damaged_state_is_named_with_what_to_do(tmp_path: Path) -> None:
    access = log()
    ids = result(list(plan(access).fold(pieces(access), files(tmp_path)))).ids
    whole = (tmp_path / ids).read_bytes()
    middle = len(whole) // 3
    damaged = whole[:middle] + bytes(40) + whole[middle + 40 :]
    (tmp_path / ids).write_bytes(damaged)
    with pytest.raises(HistoryError, match=f"{ids}: cannot be read .*; restore it"):
        list(plan(access).fold(pieces(access), files(tmp_path, (tmp_path / ids,))))
    with pytest.raises(HistoryError, match=r"the state of the last batch: cannot be read"):
        list(plan(access).fold(pieces(access), TaskFrames(), [damaged]))


def test_a_truncated_partition_is_reported() -> None:
    access = log()
    cut = [BatchRange(Range(1, 4, 2), 0)]
    assert result(list(plan(access).fold(cut, TaskFrames()))).truncated == (1,)


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
