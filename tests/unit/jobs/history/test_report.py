"""Plots and numbers of a report, and the columns in the docs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.jobs.history.columns import COLUMNS
from exporter.jobs.history.report_page import partitions, ratio, seconds
from exporter.jobs.report.plots import PlotSpan, bars, bucket_ms, clock, lanes
from exporter.model import TopicPartition

NOON = 1_790_078_400_000  # 2026-09-22T12:00:00Z
DOCS = Path(__file__).parents[4] / "docs" / "history.md"


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


def test_the_docs_describe_every_column_as_the_code_does() -> None:
    for name, column in COLUMNS.items():
        assert f"| `{name}` | {column.meaning} |" in DOCS.read_text()


@given(st.integers(0, 10**13), st.integers(1, 10**12))
def test_a_timeline_has_at_most_the_steps_that_fit(begin: int, long: int) -> None:
    width = bucket_ms(begin, begin + long)
    assert long / width <= 120 or width == bucket_ms(0, 10**15)


def test_drawings_are_well_formed_for_the_smallest_input() -> None:
    ET.fromstring(bars([0], 1000, {"committed": [0]}))  # noqa: S314 -- our own drawing
    drawn = lanes([("<&>", [PlotSpan(5, 5, "fenced", '"<&>"'), PlotSpan(90, 99, "fenced", "outside")])], 0, 10)
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
