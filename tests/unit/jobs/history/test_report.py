"""The report of a history with known content, as values, JSON and page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.cli import main
from exporter.jobs.history.files import HistoryFiles, ReportRange
from exporter.jobs.history.fold import FoldState, Row
from exporter.jobs.history.holds import Lasting, holds_of
from exporter.jobs.history.index import HistoryError, TaskResult
from exporter.jobs.history.report import Counts, report
from exporter.jobs.history.report_page import page_of, partitions, ratio, seconds
from exporter.jobs.history.store import ROWS, opened
from exporter.jobs.history.table import COLUMNS, RowFiles, write_kept
from exporter.jobs.report.html_page import render
from exporter.jobs.report.plots import PlotSpan as Drawn
from exporter.jobs.report.plots import bars, bucket_ms, clock, lanes
from exporter.model import TopicPartition
from exporter.words import Outcome

NOON = 1_790_078_400_000  # 2026-09-22T12:00:00Z
ORDERS = TopicPartition("orders", 0)
DOCS = Path(__file__).parents[4] / "docs" / "history.md"


def row(
    at: int, outcome: Outcome = Outcome.COMMITTED, *, id_: str = "pay-1", open_ms: int = 100, **changed: Any
) -> Row:
    prepare = NOON + at
    made = Row(
        id_, id_.partition("-")[0], 7, 2, 2, outcome.value, prepare - open_ms, prepare, prepare + 10,
        open_ms / 1000, 0.01, (ORDERS,), 60_000, 0, at,
    )  # fmt: skip
    return made._replace(**changed)


def write(folder: Path, *batches: list[Row], **result: Any) -> Path:
    with opened(folder, "cluster-1", "prod", NOON) as store:
        for number, rows in enumerate(batches):
            with store.under_way() as made:
                files = RowFiles(made / ROWS)
                files.add(rows)
                names = tuple(files.close())
                done = TaskResult({0: FoldState()}, names, write_kept([], made), len(rows), 0, 0, (), {})
                if number:
                    done = TaskResult(**{**{name: getattr(done, name) for name in done.__slots__}, **result})
                store.commit(made, [done], NOON + 60_000)
    return folder


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Two days, three applications, one of each outcome."""
    return write(
        tmp_path / "history",
        [row(at) for at in range(0, 5000, 1000)],
        [
            row(9_000, Outcome.ABORTED, id_="etl-1"),
            row(60_000, Outcome.TIMED_OUT, id_="etl-1", open_ms=61_000),
            row(61_000, Outcome.FENCED),
            row(62_000, Outcome.FENCED),
            row(
                90_000_000,
                Outcome.TIMED_OUT,
                id_="<b>ugly</b>\u202e",
                begin=None,
                open_seconds=None,
                partitions=None,
            ),
        ],
    )


def test_outcomes_are_counted_by_application_the_unclean_first(history: Path) -> None:
    found = report(HistoryFiles(history), ReportRange())
    assert (found.counts, found.unclean_found) == (Counts(5, 1, 2, 2), 4)
    by_name = {application.name: application.counts for application in found.applications}
    assert by_name == {"pay": Counts(5, 0, 0, 2), "etl": Counts(0, 1, 1, 0), "<b>ugly</b>\u202e": Counts(0, 0, 1, 0)}
    assert found.applications[0].name == "pay"
    assert [Counts(*map(sum, zip(*found.timeline, strict=True)))] == [found.counts]
    assert [(fence.transactional_id, fence.times, fence.last_ms) for fence in found.fenced] == [
        ("pay-1", 2, NOON + 62_010)
    ]


def test_longest_transactions_and_unclean_ends_come_the_worst_first(history: Path) -> None:
    found = report(HistoryFiles(history), ReportRange())
    assert (found.longest[0].transactional_id, found.longest[0].open_seconds) == ("etl-1", 61.0)
    assert all(summary.open_seconds is not None for summary in found.longest)
    assert [summary.complete_ms - NOON for summary in found.unclean] == [90_000_010, 62_010, 61_010, 60_010]


@pytest.mark.parametrize(
    ("step_ms", "shown"),
    [
        (100, "12:00:00.500"),
        (1_000, "12:00:00"),
        (60_000, "12:00"),
        (3_600_000, "09-22 12:00"),
        (86_400_000, "2026-09-22"),
    ],
)
def test_an_instant_is_as_precise_as_its_steps(step_ms: int, shown: str) -> None:
    assert clock(NOON + 500, step_ms) == shown


def test_the_holder_of_a_partition_is_named_with_its_time(history: Path) -> None:
    (hold,) = report(HistoryFiles(history), ReportRange()).holds
    assert (hold.partition, hold.holder.transactional_id) == (ORDERS, "etl-1")
    assert (hold.begin_ms, hold.end_ms) == (NOON - 1_000, NOON + 60_010)


@pytest.mark.parametrize(
    ("span", "count"),
    [
        (ReportRange(application="etl"), 2),
        (ReportRange(begin_ms=NOON + 60_000), 4),
        (ReportRange(end_ms=NOON + 4_010), 4),
        (ReportRange(begin_ms=NOON + 3_010, end_ms=NOON + 4_011), 2),
        (ReportRange(begin_ms=NOON + 86_400_000), 1),
        (ReportRange(application="nobody"), 0),
    ],
)
def test_only_what_was_asked_for_is_reported(history: Path, span: ReportRange, count: int) -> None:
    assert report(HistoryFiles(history), span).counts.total == count


def test_what_may_be_missing_is_said(tmp_path: Path) -> None:
    found = report(
        HistoryFiles(write(tmp_path / "h", [row(0)], [row(1)], missing=7, undecodable=2, truncated=(3,))), ReportRange()
    )
    assert len(found.caveats) == 3
    assert "7 records were compacted away" in found.caveats[0]


def test_a_folder_that_is_no_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="is not a history"):
        report(HistoryFiles(tmp_path), ReportRange())


def test_a_damaged_file_is_refused_with_its_name(history: Path) -> None:
    file = next(history.glob("transactions/*/*/*.parquet"))
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(HistoryError, match="cannot be read"):
        report(HistoryFiles(history), ReportRange())


# --- The command ---


def test_exit_codes_tell_clean_from_found_from_unreadable(
    tmp_path: Path, history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = write(tmp_path / "clean", [row(0)])
    assert main(["history", "report", "--input", str(clean)]) == 0
    assert "all ended by their own clients" in capsys.readouterr().out
    assert main(["history", "report", "--input", str(history)]) == 1
    assert "2 fenced, 2 timed out" in capsys.readouterr().out
    assert main(["history", "report", "--input", str(tmp_path)]) == 2
    answer = capsys.readouterr()
    assert (answer.out, "is not a history" in answer.err) == ("", True)
    assert main(["history", "report", "--input", str(history), "--from", "2h", "--to", "3h"]) == 2


def test_json_is_one_object_with_instants_in_seconds(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "report", "--input", str(history), "--output", "json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["outcomes"] == {"committed": 5, "aborted": 1, "timed_out": 2, "fenced": 2}
    assert said["kafka_cluster"] == "prod"
    assert said["fences"] == [
        {"transactional_id": "pay-1", "application": "pay", "count": 2, "last": (NOON + 62_010) / 1000}
    ]
    etl = next(application for application in said["applications"] if application["application"] == "etl")
    assert (etl["abort_ratio"], etl["timeout_ratio"], etl["open_seconds"]["max"]) == (0.5, 0.5, 61.0)
    assert said["unclean_ends"][0]["partitions"] is None


def test_the_page_is_self_contained_and_escapes_what_ids_hold(history: Path) -> None:
    html = render(page_of(report(HistoryFiles(history), ReportRange())))
    assert "<b>ugly" not in html
    assert "&lt;b&gt;ugly" in html
    assert "<script" not in html
    assert not re.search(r'(?:src|href|url)\s*[=(]\s*"?(?:https?:)?//', html)
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ET.fromstring(svg)  # noqa: S314 -- our own drawing
    assert html.count("<svg") >= 4


def test_each_application_has_an_address_in_the_page(history: Path) -> None:
    html = render(page_of(report(HistoryFiles(history), ReportRange())))
    for address, name in (("pay", "pay"), ("%3Cb%3Eugly%3C/b%3E%E2%80%AE", "&lt;b&gt;ugly&lt;/b&gt;")):
        assert f' id="{address}">' in html
        assert f'<a href="#{address}">{name}' in html


def test_a_page_without_transactions_says_so(history: Path) -> None:
    html = render(page_of(report(HistoryFiles(history), ReportRange(application="nobody"))))
    assert "No transactions in this time" in html


def test_the_docs_describe_every_column_as_the_code_does() -> None:
    for name, column in COLUMNS.items():
        assert f"| `{name}` | {column.meaning} |" in DOCS.read_text()


def test_the_query_for_duckdb_in_the_docs_counts_the_rows(history: Path) -> None:
    [query] = re.findall(r"-- DuckDB\n(.+/data/eos/.+);", DOCS.read_text())
    found = duckdb.execute(query.replace("/data/eos", str(history))).fetchall()
    counted = {
        (application.name, outcome): count
        for application in report(HistoryFiles(history), ReportRange()).applications
        for outcome, count in application.counts._asdict().items()
        if count
    }
    assert {row[:2]: row[2] for row in found} == counted


# --- Holders, and plots ---

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), max_size=12)


@given(spans)
def test_holds_cover_each_instant_of_an_open_transaction_once_and_by_the_oldest(found: list[tuple[int, int]]) -> None:
    lasting = [
        Lasting(begin, begin + long, f"t{at}", "t", at, 0, "committed") for at, (begin, long) in enumerate(found)
    ]
    holds = holds_of(ORDERS, lasting, 1)
    for instant_ms in range(82):
        open_now = [
            transaction for transaction in lasting if transaction.begin_ms <= instant_ms < transaction.complete_ms
        ]
        holders = [hold.holder for hold in holds if hold.begin_ms <= instant_ms < hold.end_ms]
        assert len(holders) == bool(open_now)
        assert all(holder.begin_ms == min(transaction.begin_ms for transaction in open_now) for holder in holders)


@given(st.integers(0, 10**13), st.integers(1, 10**12))
def test_a_timeline_has_at_most_the_steps_that_fit(begin: int, long: int) -> None:
    width = bucket_ms(begin, begin + long)
    assert long / width <= 120 or width == bucket_ms(0, 10**15)


def test_drawings_are_well_formed_for_the_smallest_input() -> None:
    ET.fromstring(bars([0], 1000, {"committed": [0]}))  # noqa: S314 -- our own drawing
    drawn = lanes([("<&>", [Drawn(5, 5, "fenced", '"<&>"'), Drawn(90, 99, "fenced", "outside")])], 0, 10)
    assert ET.fromstring(drawn).tag.endswith("svg")  # noqa: S314 -- our own drawing
    assert "outside" not in drawn


def test_numbers_are_as_precise_as_they_deserve() -> None:
    assert [seconds(number) for number in (None, 0.0004, 0.25, 1.26, 61.0)] == [
        "unknown",
        "0 ms",
        "250 ms",
        "1.3 s",
        "1m 1s",
    ]
    assert [ratio(number) for number in (0.0, 0.00001, 0.125, 1.0)] == ["0.00 %", "< 0.01 %", "12.50 %", "100.00 %"]
    assert partitions(None) == "unknown"
    assert partitions([TopicPartition("t", number) for number in range(5)]) == "t-0, t-1, t-2 and 2 more"


def test_a_report_of_parquet_needs_no_spark(history: Path) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None;"
        "from exporter.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", program, "history", "report", "--input", str(history)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "application" in done.stdout
