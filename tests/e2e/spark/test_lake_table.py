"""The table of a history in a lake: batches, a second writer, columns, compaction, retention, a query and a report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as f

from exporter.jobs.history.files import HistoryFiles, ReportRange
from exporter.jobs.history.index import HistoryError, Index, TaskResult
from exporter.jobs.history.lake_report import LakeHistory
from exporter.jobs.history.lake_table import KEY, STATE, Commit, LakeTable
from exporter.jobs.history.log_offsets import BatchRange
from exporter.jobs.history.report import report
from exporter.jobs.history.store import ROWS
from exporter.jobs.history.store import opened as opened_folder
from exporter.jobs.history.table import BATCH, DAY, SCHEMA, write_kept
from exporter.jobs.history.tally import MOST
from exporter.jobs.history.task import BatchPlan
from exporter.jobs.lakes.lake import Lake
from tests.bench.history import rows_of
from tests.e2e.spark.auditing import Auditor
from tests.helpers import stored_log
from tests.helpers.stored_log import end, log, pieces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[3] / "docs" / "history.md"
MOST_TASKS = 2_000
"""Of a compaction of a few files."""


def opened(lake: Lake, cluster: str = "c1") -> LakeTable:
    table = LakeTable(lake)
    table.open(cluster, "prod")
    return table


def outcomes(lake: Lake) -> list[str]:
    return sorted(row["outcome"] for row in lake.rows().select("outcome").collect())


def tasks_of(spark: SparkSession, work: Callable[[], object]) -> int:
    """Run it, and count the tasks of its jobs."""
    context, status = spark.sparkContext, spark.sparkContext.statusTracker()
    context.setJobGroup("counted", "")
    work()
    context.setJobGroup("", "")
    jobs = [status.getJobInfo(number) for number in status.getJobIdsForGroup("counted")]
    stages = [status.getStageInfo(number) for job in jobs if job for number in job.stageIds]
    return sum(stage.numTasks for stage in stages if stage)


@pytest.fixture(autouse=True)
def stored_log_on_workers() -> None:
    """Send the module of the stored log with the plans that use it."""
    cloudpickle.register_pickle_by_value(stored_log)  # type: ignore[no-untyped-call]  # ships no types


@pytest.mark.proof
def test_a_table_takes_batches_of_one_writer_and_goes_on_after_compaction(lake_audits: Auditor, lake: Lake) -> None:
    access = log()
    first = pieces(access)

    def write(table: LakeTable, last: Index | None, *tasks: list[BatchRange]) -> Index:
        return table.write(BatchPlan(access, tasks, last.standings if last else {}))

    # As an older version would have made it, with fewer columns.
    lake.create("outcome string, complete timestamp, day date, batch bigint", DAY)
    table, zombie = opened(lake), opened(lake)
    assert table.last is None
    begun = write(table, None, first[:1], first[1:])
    assert (begun.rows, begun.pending) == (1, {0: end(access) - 1})
    # The next batch settles what this one left open: its state came through the table.
    settled = write(table, begun, pieces(access, start=end(access), quiet_ms=6_000))
    assert (settled.rows, settled.pending) == (1, {})
    quiet = pieces(access, start=end(access), quiet_ms=-1)
    empty = write(table, settled, quiet)
    assert outcomes(lake) == ["aborted", "committed"]
    assert opened(lake).last == empty
    with pytest.raises(HistoryError, match="another history run writes here"):
        write(zombie, None, first)
    with pytest.raises(HistoryError, match="is the history of cluster c1"):
        opened(lake, "c2")
    lake_audits.session.sql(f"ALTER TABLE {lake.name} ADD COLUMNS (mine string)")
    assert tasks_of(lake_audits.session, lake.compact) < MOST_TASKS
    last = write(opened(lake), empty, quiet)
    opened(lake).maintain()
    assert outcomes(lake) == ["aborted", "committed"]
    assert (last.batch, last.total_rows) == (3, 2)
    left = {path.name.partition("-")[0] for path in Path(lake.url, STATE).glob("*-*")}
    assert "0" not in left
    assert "3" in left
    found = report(LakeHistory(LakeTable(lake)), ReportRange())
    assert (found.cluster, found.counts.committed, found.counts.aborted) == ("prod", 1, 1)
    assert report(LakeHistory(LakeTable(lake)), ReportRange(application="nobody")).counts.total == 0
    [query] = re.findall(r"-- Spark\n(.+) delta\.`s3a://lake/eos`(.+);", DOCS.read_text())
    counted = lake_audits.session.sql(f"{query[0]} {lake.name}{query[1]}").collect()
    assert sorted(row[1:] for row in counted) == [("aborted", 1), ("committed", 1)]
    # Old days are deleted as in any table, and the history goes on.
    lake_audits.session.sql(f"DELETE FROM {lake.name} WHERE outcome = 'aborted'")  # noqa: S608 -- a name of this test
    assert write(opened(lake), last, quiet).batch == last.batch + 1
    assert outcomes(lake) == ["committed"]


@pytest.mark.proof
def test_a_report_of_a_table_is_that_of_parquet(lake_audits: Auditor, lake: Lake, tmp_path: Path) -> None:
    noon = 1_790_078_400_000  # 2026-09-22T12:00:00Z
    rows = rows_of(noon, 1_440, 20_000)
    # Of every 17th too little was known, and the longest of one application are all short.
    unknown = np.arange(rows.num_rows) % 17 == 0
    for name in ("begin", "open_seconds", "partitions"):
        column = pc.if_else(unknown, pa.scalar(None, SCHEMA.field(name).type), rows[name])
        rows = rows.set_column(rows.schema.get_field_index(name), SCHEMA.field(name), column)
    lasted = pc.greater_equal(rows["open_seconds"], 1)
    short = pc.not_equal(rows["application"], "application-3")
    rows = rows.filter(pc.or_(short, pc.invert(pc.fill_null(lasted, True))))
    with opened_folder(tmp_path / "parquet", "c1", "prod", noon) as store, store.under_way() as made:
        days = pc.strftime(rows["complete"], "%Y-%m-%d")
        names = []
        for day in pc.unique(days).to_pylist():
            names.append(f"{DAY}={day}/0.parquet")
            (made / ROWS / names[-1]).parent.mkdir()
            pq.write_table(rows.filter(pc.equal(days, day)), made / ROWS / names[-1])
        done = TaskResult({}, tuple(names), write_kept([], made), rows.num_rows, 0, 0, (), {})
        index = store.commit(made, [done], noon)
    table = opened(lake)
    pq.write_table(rows, tmp_path / "rows.parquet")
    frame = lake_audits.session.read.parquet(str(tmp_path / "rows.parquet")).repartition(3)
    frame = frame.withColumns({DAY: f.to_date("complete"), BATCH: f.lit(0).cast("bigint")})
    lake.append(frame, BATCH, 0, (KEY, Commit("c1", "prod", "", index).to_json()))
    spans = [
        ReportRange(),
        ReportRange(application="application-3"),
        ReportRange(begin_ms=noon + 40_000_000),
        ReportRange(noon + 40_000_000, noon + 50_000_000, "application-1"),
    ]
    for span in spans:
        found = report(LakeHistory(table), span)
        assert found == report(HistoryFiles(tmp_path / "parquet"), span)
        assert len(found.longest) == MOST


@pytest.mark.proof
@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_table_of_others_is_left_alone(lake_audits: Auditor, lake: Lake) -> None:
    lake_audits.session.sql(f"CREATE TABLE {lake.name} (x int, day date) USING delta PARTITIONED BY (day)")
    lake_audits.session.sql(f"INSERT INTO {lake.name} VALUES (1, current_date())")  # noqa: S608 -- a name of this test
    with pytest.raises(HistoryError, match="has rows, and no commit of a history"):
        opened(lake)
    with pytest.raises(HistoryError, match="is not a history"):
        LakeHistory(LakeTable(lake))
