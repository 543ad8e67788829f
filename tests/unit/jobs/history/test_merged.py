"""Copies of merged batches: a report is the same with and without them, and the same as a plain count of the rows."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.jobs.history import merged, tally
from exporter.jobs.history.files import HistoryFiles, ReportRange
from exporter.jobs.history.fold import FoldState, Row
from exporter.jobs.history.index import HistoryError, TaskResult
from exporter.jobs.history.merged import FOLDER, NOTABLE, copies_of, merge_batches
from exporter.jobs.history.report import report
from exporter.jobs.history.store import ROWS, opened
from exporter.jobs.history.table import RowFiles, write_kept
from exporter.model import TopicPartition
from exporter.transactions.suggested_timeout import LEAST_TRANSACTIONS
from exporter.words import Outcome

NOON = 1_790_078_400_000  # 2026-09-22T12:00:00Z
MINUTE = 60_000
BATCHES = 25


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged, "BATCHES_EACH", 4)
    monkeypatch.setattr(tally, "MOST", 5)


def batch(number: int) -> list[Row]:
    """Some transactions of a minute, of each kind now and then."""
    made = random.Random(number)  # the same ones each time
    found = []
    for at in range(made.randint(0, 40)):
        name = made.choice(("pay", "etl", "ship"))
        outcome = made.choice((Outcome.COMMITTED,) * 20 + tuple(Outcome))
        open_ms = made.choice((made.randint(0, 300), made.randint(0, 300), 1_000 * made.randint(1, 4)))
        prepare = NOON + number * MINUTE + made.randint(0, MINUTE - 20)
        begun = made.random() < 0.9
        row = Row(
            f"{name}-{made.randint(1, 4)}", name, 7, 2, 2, outcome.value, prepare - open_ms,
            prepare, prepare + 10, open_ms / 1000, 0.01, (TopicPartition("orders", at % 3),), 60_000, 0,
            1_000 * number + at,
        )  # fmt: skip
        found.append(row if begun else row._replace(begin=None, open_seconds=None, partitions=None))
    return found


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Batches of a minute; those that are old enough are merged."""
    folder = tmp_path / "history"
    with opened(folder, "cluster-1", "prod", NOON) as store:
        for number in range(BATCHES):
            with store.under_way() as made:
                files = RowFiles(made / ROWS)
                files.add(rows := batch(number))
                names = tuple(files.close())
                done = TaskResult({0: FoldState()}, names, write_kept([], made), len(rows), number % 3, 1, (), {})
                store.commit(made, [done], NOON + number * MINUTE)
            merge_batches(store)
    return folder


def without_copies(folder: Path) -> Path:
    copied = folder.with_name("plain")
    shutil.copytree(folder, copied)
    shutil.rmtree(copied / FOLDER)
    return copied


@pytest.mark.parametrize(
    "span",
    [
        ReportRange(),
        ReportRange(application="pay"),
        ReportRange(application="nobody"),
        ReportRange(begin_ms=NOON + 3 * MINUTE + 500, end_ms=NOON + 17 * MINUTE + 777),
        ReportRange(begin_ms=NOON + 9 * MINUTE, application="etl"),
        ReportRange(end_ms=NOON + 5),
    ],
)
def test_a_report_is_the_same_with_copies_and_without(history: Path, span: ReportRange) -> None:
    assert len(copies_of(history)) >= 4
    assert report(HistoryFiles(history), span) == report(HistoryFiles(without_copies(history)), span)


def test_a_report_is_what_the_rows_say(history: Path) -> None:
    rows = [row for number in range(BATCHES) for row in batch(number)]
    found = report(HistoryFiles(history), ReportRange())
    assert [found.counts.committed, found.counts.fenced] == [
        sum(row.outcome == outcome.value for row in rows) for outcome in (Outcome.COMMITTED, Outcome.FENCED)
    ]
    for application in found.applications:
        mine = [
            row.open_seconds for row in rows if row.application == application.name and row.open_seconds is not None
        ]
        expected = np.quantile(mine, [0.5, 0.99, 1.0])
        assert [application.median, application.p99, application.longest] == pytest.approx(expected.tolist(), rel=1e-9)
        assert application.p999 == pytest.approx(np.quantile(mine, 0.999), rel=1e-9)
        assert (application.suggested_timeout is None) is (application.counts.total < LEAST_TRANSACTIONS)
    worst = sorted((row.open_seconds for row in rows if row.open_seconds is not None), reverse=True)[:5]
    assert [row.open_seconds for row in found.longest] == worst
    fences: dict[str, int] = {}
    for row in rows:
        if row.outcome == Outcome.FENCED.value:
            fences[row.transactional_id] = fences.get(row.transactional_id, 0) + 1
    assert [row.times for row in found.fenced] == sorted(fences.values(), reverse=True)[: len(found.fenced)]
    assert found.begin_ms == min(row.complete for row in rows)
    assert f"{BATCHES} records could not be decoded" in " ".join(found.caveats)


def test_a_copy_counts_only_while_all_of_its_batches_are_there(history: Path) -> None:
    before = report(HistoryFiles(history), ReportRange()).counts.total
    gone = next(iter(copies_of(history).values())).batches[1]
    shutil.rmtree(history / "transactions" / f"batch={gone}")
    assert report(HistoryFiles(history), ReportRange()).counts.total == before - len(batch(gone))


def test_a_writer_that_is_killed_while_it_merges_leaves_nothing_that_counts(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = report(HistoryFiles(history), ReportRange()).counts
    shutil.rmtree(history / FOLDER)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with opened(history, "cluster-1", "prod", NOON) as store:
        with monkeypatch.context() as patched:
            patched.setattr(merged, "replace_file", killed)
            with pytest.raises(KeyboardInterrupt):
                merge_batches(store)
        assert not copies_of(history)
        merge_batches(store)
    assert len(copies_of(history)) == merged.COPIES_AT_ONCE
    assert report(HistoryFiles(history), ReportRange()).counts == expected


def test_a_damaged_copy_is_refused_with_its_name(history: Path) -> None:
    copy = next(iter(copies_of(history)))
    (copy / NOTABLE).write_bytes(b"PAR1 and nothing else")
    with pytest.raises(HistoryError, match=f"{copy.name}/{NOTABLE}.* delete its folder"):
        report(HistoryFiles(history), ReportRange())


def test_a_damaged_batch_stops_its_copy_and_not_the_writer(history: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(history / FOLDER)
    next((history / "transactions" / "batch=0").glob("*/*.parquet")).write_bytes(b"PAR1 and nothing else")
    with opened(history, "cluster-1", "prod", NOON) as store:
        merge_batches(store)
    assert not copies_of(history)
    assert "batches are not merged" in caplog.text


def test_batches_with_a_column_of_an_earlier_version_are_merged(history: Path) -> None:
    expected = report(HistoryFiles(history), ReportRange())
    shutil.rmtree(history / FOLDER)
    for file in (history / "transactions").glob("*/*/*.parquet"):
        table = pq.ParquetFile(file).read()
        more = pa.array([False] * table.num_rows)
        pq.write_table(table.append_column("ended_by_server", more), file, write_page_checksum=True)
    with opened(history, "cluster-1", "prod", NOON) as store:
        merge_batches(store)
    assert copies_of(history)
    assert report(HistoryFiles(history), ReportRange()) == expected


def test_batches_without_a_copy_are_read_as_they_are(history: Path) -> None:
    files = HistoryFiles(history)
    copied = {number for index in files.copies.values() for number in index.batches}
    assert copied.isdisjoint(files.others)
    assert len(copied) + len(files.others) == BATCHES
