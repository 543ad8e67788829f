"""The folder of a history: a batch is visible whole or not at all, and a writer may die at any step."""

from __future__ import annotations

import errno
import fcntl
from contextlib import ExitStack
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from exporter.jobs.history.fold import FoldState, Row
from exporter.jobs.history.index import HistoryError, Index, TaskResult
from exporter.jobs.history.store import KEEP_BATCHES, ROWS, HistoryStore, opened
from exporter.jobs.history.table import RowFiles, write_kept

DAY_MS = 86_400_000
NOON_MS = 1_790_000_000_000


def row(offset: int, day: int = 0) -> Row:
    instant = NOON_MS + day * DAY_MS
    return Row(
        "a-1",
        "a",
        7,
        2,
        2,
        "committed",
        instant - 9,
        instant - 1,
        instant,
        0.008,
        0.001,
        None,
        60_000,
        0,
        offset,
    )


def work(store: HistoryStore, made: Path, rows: list[Row]) -> TaskResult:
    """Return what a task leaves in the folder of a batch."""
    files = RowFiles(made / ROWS)
    files.add(rows)
    names = files.close()
    before = store.last.standings[0].next if store.last else 0
    standing = FoldState(before + len(rows), NOON_MS)
    return TaskResult({0: standing}, tuple(names), write_kept([], made), len(rows), 0, 0, (), {})


def write(store: HistoryStore, rows: list[Row]) -> Index:
    with store.under_way() as made:
        return store.commit(made, [work(store, made, rows)], NOON_MS)


def visible(folder: Path) -> list[int]:
    """Return what a plain reader finds."""
    return sorted(ds.dataset(folder / "transactions", partitioning="hive").to_table()["log_offset"].to_pylist())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "history"


def test_a_batch_of_several_days_is_visible_at_once_and_the_next_goes_on_from_it(folder: Path) -> None:
    with opened(folder, "c1", "prod", NOON_MS) as store:
        first = write(store, [row(0), row(1, day=1)])
        second = write(store, [row(2)])
    assert visible(folder) == [0, 1, 2]
    assert (first.rows, second.total_rows, second.standings[0].next) == (2, 3, 3)
    with opened(folder, "c1", "prod", NOON_MS) as again:
        assert again.last == second
        assert [file.exists() for file in again.kept_files()] == [True]


def test_nothing_is_visible_of_a_batch_that_was_not_committed(folder: Path) -> None:
    with opened(folder, "c1", "prod", NOON_MS) as store:
        write(store, [row(0)])
        made = next(iter(store.folder.glob("_tmp")), folder) / "left-by-a-killed-writer"
        (made / ROWS).mkdir(parents=True)
        work(store, made, [row(1)])
    assert visible(folder) == [0]
    with opened(folder, "c1", "prod", NOON_MS) as again:
        assert again.last is not None
        assert again.last.batch == 0
    assert list((folder / "_tmp").iterdir()) == []


def test_rows_of_a_writer_that_was_killed_after_its_commit_are_shown_by_the_next(folder: Path) -> None:
    with opened(folder, "c1", "prod", NOON_MS) as store:
        write(store, [row(0)])
        write(store, [row(1)])
        # As the writer leaves it when it dies between the two renames.
        (folder / "transactions" / "batch=1").rename(folder / "_batches" / "1" / ROWS)
    assert visible(folder) == [0]
    with opened(folder, "c1", "prod", NOON_MS) as again:
        assert again.last is not None
        assert again.last.batch == 1
    assert visible(folder) == [0, 1]


def test_files_of_a_task_that_spark_ran_again_are_not_committed(folder: Path) -> None:
    with opened(folder, "c1", "prod", NOON_MS) as store, store.under_way() as made:
        work(store, made, [row(0), row(5, day=3)])
        store.commit(made, [work(store, made, [row(0)])], NOON_MS)
    assert visible(folder) == [0]
    assert [path.name for path in folder.glob("transactions/batch=0/day=*")] == ["day=2026-09-21"]


def test_a_batch_without_rows_leaves_no_folder_for_readers(folder: Path) -> None:
    with opened(folder, "c1", "prod", NOON_MS) as store:
        write(store, [])
        assert list((folder / "transactions").iterdir()) == []
        assert store.last is not None


def test_only_the_last_few_batches_keep_their_state_and_all_keep_their_rows(folder: Path) -> None:
    with opened(folder, "c1", "prod", NOON_MS) as store:
        for batch in range(6):
            write(store, [row(batch)])
    assert len(list((folder / "_batches").iterdir())) == KEEP_BATCHES
    assert visible(folder) == list(range(6))


def test_a_history_of_another_cluster_is_refused_and_left_alone(folder: Path) -> None:
    with opened(folder, "c1", "prod", NOON_MS) as store:
        write(store, [row(0)])
    before = sorted(folder.rglob("*"))
    with pytest.raises(HistoryError, match="cluster c1, and the brokers are those of c2"), opened(folder, "c2", "", 0):
        pass
    assert sorted(folder.rglob("*")) == before


def test_a_folder_with_other_things_in_it_is_refused(folder: Path) -> None:
    folder.mkdir()
    (folder / "holiday.jpg").touch()
    with pytest.raises(HistoryError, match=r"holds holiday\.jpg and is not a history"), opened(folder, "c1", "", 0):
        pass


def test_a_second_writer_is_refused(folder: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(opened(folder, "c1", "prod", NOON_MS))
        with pytest.raises(HistoryError, match="another history run writes here"):
            stack.enter_context(opened(folder, "c1", "prod", NOON_MS))


def test_a_file_system_without_locks_is_no_second_writer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(HistoryError, match="cannot be locked for one writer: No locks available"),
        opened(folder, "c1", "", 0),
    ):
        pass


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 9}', "not json"])
def test_a_damaged_index_is_named_with_what_to_do(folder: Path, text: str) -> None:
    with opened(folder, "c1", "prod", NOON_MS) as store:
        write(store, [row(0)])
    (folder / "_batches" / "0" / "index.json").write_text(text)
    with pytest.raises(HistoryError, match=r"index\.json cannot be used .*: restore it"), opened(folder, "c1", "", 0):
        pass


def test_a_result_of_a_task_survives_its_way_through_spark() -> None:
    result = TaskResult({3: FoldState(9, 8)}, ("day=x/y.parquet",), "ids-z", 4, 5, 6, (3,), {3: 7}, ("what",))
    assert TaskResult.from_json(result.to_json()) == result
