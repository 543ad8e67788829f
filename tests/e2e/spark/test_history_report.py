"""The report of a history with known content, as values, JSON and page."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from exporter.jobs.history.columns import batch_of
from exporter.jobs.history.finished import Row
from exporter.jobs.history.report import Counts, HistoryReport, ReportRange, report
from exporter.jobs.history.report_document import document
from exporter.jobs.history.report_page import page_of
from exporter.jobs.history.table import HistoryError, HistoryTable
from exporter.jobs.report.html_page import render
from exporter.jobs.session import spark_session
from exporter.model import TopicPartition
from exporter.words import Outcome
from tests.helpers.schemas import conform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = 1_790_078_400_000  # 2026-09-22T12:00:00Z
ORDERS = TopicPartition("orders", 0)
DOCS = Path(__file__).parents[3] / "docs" / "history.md"


def row(
    at: int, outcome: Outcome = Outcome.COMMITTED, *, id_: str = "pay-1", open_ms: int = 100, **changed: Any
) -> Row:
    prepare = NOON + at
    made = Row(
        id_, id_.partition("-")[0], 7, 2, 2, outcome.value, prepare - open_ms, prepare, prepare + 10,
        open_ms / 1000, 0.01, (ORDERS,), 60_000, 0, at,
    )  # fmt: skip
    return made._replace(**changed)


ROWS = [
    *(row(at) for at in range(0, 5000, 1000)),
    row(9_000, Outcome.ABORTED, id_="etl-1"),
    row(60_000, Outcome.TIMED_OUT, id_="etl-1", open_ms=61_000),
    row(61_000, Outcome.FENCED),
    row(62_000, Outcome.FENCED),
    row(90_000_000, Outcome.TIMED_OUT, id_="<b>ugly</b>\u202e", begin=None, open_seconds=None, partitions=None),
]
"""Two days, three applications, one of each outcome."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session("reports", master="local[2]", conf={"spark.driver.memory": "1g"}) as session:
        yield session


def written(spark: SparkSession, folder: Path, rows: Sequence[Row]) -> HistoryTable:
    frame = spark.createDataFrame(pa.Table.from_batches([batch_of(rows)]))
    frame.selectExpr("*", "to_date(complete) AS day").write.partitionBy("day").parquet(str(folder))
    return HistoryTable("parquet", str(folder))


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> HistoryTable:
    return written(spark, tmp_path_factory.mktemp("history") / "table", ROWS)


@pytest.fixture(scope="module")
def reported(spark: SparkSession, history: HistoryTable) -> Callable[..., HistoryReport]:
    def of(**span: Any) -> HistoryReport:
        return report(history.rows(spark), ReportRange(**span), "eos")

    return of


@pytest.fixture(scope="module")
def whole(reported: Callable[..., HistoryReport]) -> HistoryReport:
    return reported()


def test_outcomes_are_counted_by_application_the_unclean_first(whole: HistoryReport) -> None:
    assert (whole.counts, whole.unclean_found) == (Counts(5, 1, 2, 2), 4)
    by_name = {application.name: application.counts for application in whole.applications}
    assert by_name == {"pay": Counts(5, 0, 0, 2), "etl": Counts(0, 1, 1, 0), "<b>ugly</b>\u202e": Counts(0, 0, 1, 0)}
    assert whole.applications[0].name == "pay"
    assert [Counts(*map(sum, zip(*whole.timeline, strict=True)))] == [whole.counts]
    assert [(fence.transactional_id, fence.times, fence.last_ms) for fence in whole.fenced] == [
        ("pay-1", 2, NOON + 62_010)
    ]


def test_longest_transactions_and_unclean_ends_come_the_worst_first(whole: HistoryReport) -> None:
    assert (whole.longest[0].transactional_id, whole.longest[0].open_seconds) == ("etl-1", 61.0)
    assert len(whole.longest) == len(ROWS) - 1
    assert [summary.complete_ms - NOON for summary in whole.unclean] == [90_000_010, 62_010, 61_010, 60_010]
    assert whole.unclean[0].partitions is None


def test_quantiles_are_those_of_the_milliseconds(whole: HistoryReport) -> None:
    by_name = {application.name: application for application in whole.applications}
    etl = by_name["etl"]
    assert etl.median == pytest.approx((0.1 + 61.0) / 2)
    assert etl.longest == 61.0
    assert by_name["<b>ugly</b>\u202e"].median is None


@pytest.mark.parametrize(
    ("span", "count"),
    [
        ({"application": "etl"}, 2),
        ({"begin_ms": NOON + 60_000}, 4),
        ({"end_ms": NOON + 4_010}, 4),
        ({"begin_ms": NOON + 3_010, "end_ms": NOON + 4_011}, 2),
        ({"begin_ms": NOON + 86_400_000}, 1),
        ({"application": "nobody"}, 0),
    ],
    ids=str,
)
def test_only_what_was_asked_for_is_reported(
    reported: Callable[..., HistoryReport], span: dict[str, Any], count: int
) -> None:
    assert reported(**span).counts.total == count


def test_the_holder_of_a_partition_is_named_with_its_time(whole: HistoryReport) -> None:
    (hold,) = whole.holds
    assert (hold.partition, hold.holder.transactional_id) == (ORDERS, "etl-1")
    assert (hold.begin_ms, hold.end_ms) == (NOON - 1_000, NOON + 60_010)
    assert (whole.holds_found, whole.held_seconds) == (1, ((ORDERS, 61.01),))


def test_holds_cover_each_second_of_a_lasting_transaction_once_and_by_the_oldest(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random("holds")
    rows = [
        row(end * 1000 - 10, id_=f"t{number}-1", open_ms=seconds * 1000 - 10, partitions=(TopicPartition("t", place),))
        for number in range(240)
        for place, end, seconds in [(chance.randrange(20), chance.randrange(10, 60), chance.randrange(1, 40))]
    ]
    rows = [made._replace(log_offset=at) for at, made in enumerate(rows)]
    found = report(written(spark, tmp_path / "table", rows).rows(spark), ReportRange(), "eos").holds
    for place in range(20):
        lasting = [made for made in rows if made.partitions == (TopicPartition("t", place),)]
        holds = [hold for hold in found if hold.partition.partition == place]
        for instant_ms in range(NOON - 40_000 + 500, NOON + 61_000, 1000):
            open_now = [made for made in lasting if (made.begin or 0) <= instant_ms < made.complete]
            holders = [hold.holder for hold in holds if hold.begin_ms <= instant_ms < hold.end_ms]
            assert len(holders) == bool(open_now)
            oldest = {made.transactional_id for made in open_now if made.begin == min(o.begin or 0 for o in open_now)}
            assert all(holder.transactional_id in oldest for holder in holders)


def test_json_has_instants_in_seconds(whole: HistoryReport) -> None:
    said = conform("history-report", document(whole))
    assert said["outcomes"] == {"committed": 5, "aborted": 1, "timed_out": 2, "fenced": 2}
    assert (said["table"], said["newest"]) == ("eos", (NOON + 90_000_010) / 1000)
    assert said["fences"] == [
        {"transactional_id": "pay-1", "application": "pay", "count": 2, "last": (NOON + 62_010) / 1000}
    ]
    etl = next(application for application in said["applications"] if application["application"] == "etl")
    assert (etl["abort_ratio"], etl["timeout_ratio"], etl["open_seconds"]["max"]) == (0.5, 0.5, 61.0)


def test_the_page_is_self_contained_and_escapes_what_ids_hold(
    whole: HistoryReport, reported: Callable[..., HistoryReport]
) -> None:
    html = render(page_of(whole))
    assert "<b>ugly" not in html
    assert "&lt;b&gt;ugly" in html
    assert "<script" not in html
    assert not re.search(r'(?:src|href|url)\s*[=(]\s*"?(?:https?:)?//', html)
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ET.fromstring(svg)  # noqa: S314 -- our own drawing
    assert html.count("<svg") >= 4
    for address, name in (("pay", "pay"), ("%3Cb%3Eugly%3C/b%3E%E2%80%AE", "&lt;b&gt;ugly&lt;/b&gt;")):
        assert f' id="{address}">' in html
        assert f'<a href="#{address}">{name}' in html
    assert "No transactions in this time" in render(page_of(reported(application="nobody")))


def test_a_folder_without_rows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="cannot be read"):
        HistoryTable("parquet", str(tmp_path)).rows(spark)


def test_the_queries_in_the_docs_run(spark: SparkSession, history: HistoryTable) -> None:
    history.rows(spark).createOrReplaceTempView("history")
    [text] = re.findall(r"```sql\n(.*?)```", DOCS.read_text(), re.DOTALL)
    counts, never = [
        spark.sql(query.replace("delta.`s3a://lake/eos`", "history")).collect()
        for query in text.split(";")
        if query.strip()
    ]
    assert sorted(row[1:] for row in counts if row[0] == "pay") == [("committed", 5), ("fenced", 2)]
    assert {row.application for row in never} == {"pay", "etl", "<b>ugly</b>\u202e"}
