"""Records of the window that are gone from the transaction log."""

from __future__ import annotations

import pytest

from exporter.transactions.decided.log_gaps import LogGaps

SINCE_MS = 1000


def gaps_of(records: list[tuple[int, int]], *, begin: int = 0, end: int | None = None) -> LogGaps:
    """Of a log with records at (offset, ms)."""
    gaps = LogGaps(SINCE_MS)
    gaps.begin(0, begin)
    for offset, ms in records:
        gaps.read(0, offset, ms)
    gaps.ended(0, records[-1][0] + 1 if end is None else end)
    return gaps


@pytest.mark.parametrize(
    ("records", "begin"),
    [
        ([(0, 1500), (1, 1600)], 0),  # all since the log began
        ([(7, 300), (8, 1500)], 7),  # after the record before the window
        ([(3, 200), (6, 900), (7, 1500)], 2),  # compacted before the window
        ([(9, 10)], 9),  # quiet since
    ],
)
def test_a_window_without_a_gap_leaves_nothing_unknown(records: list[tuple[int, int]], begin: int) -> None:
    assert gaps_of(records, begin=begin).questions(0) == ()


def test_records_that_are_gone_between_two_of_the_window_are_said_whatever_else_was_compared() -> None:
    gaps = gaps_of([(4, 900), (5, 1000), (9, 1500), (11, 1600)], begin=4)
    assert gaps.questions(3) == gaps.questions(0)
    assert "took 4 records of the window" in gaps.questions(3)[0]


@pytest.mark.parametrize(
    ("records", "begin", "end"),
    [
        ([(8, 1500)], 7, 9),  # the one before it is gone
        ([(4, 900), (8, 1500)], 4, 9),
        ([(4, 900)], 4, 9),  # all after it
    ],
)
def test_records_that_may_be_older_are_said_only_where_nothing_was_compared(
    records: list[tuple[int, int]], begin: int, end: int
) -> None:
    gaps = gaps_of(records, begin=begin, end=end)
    assert gaps.questions(1) == ()
    assert "that may be of the window" in gaps.questions(0)[0]


def test_a_log_that_is_empty_before_its_end_may_have_had_transactions_of_the_window() -> None:
    gaps = LogGaps(SINCE_MS)
    gaps.begin(0, 8)
    gaps.ended(0, 9)
    assert gaps.questions(0)
    new = LogGaps(SINCE_MS)
    new.begin(0, 0)
    new.ended(0, 0)
    assert not new.questions(0)
