"""Where records of the transaction log may be missing in a window."""

from __future__ import annotations

import math

from exporter.transactions.source.decision_window import _breaks, _LogPosition


def test_a_window_from_the_first_record_of_the_log_has_no_break() -> None:
    assert _breaks(None, _LogPosition(0, 0, 10.0)) == []


def test_what_is_before_the_window_may_be_missing() -> None:
    assert _breaks(None, _LogPosition(5, 0, 10.0)) == [(-math.inf, 10.0)]


def test_a_gap_and_an_election_are_breaks() -> None:
    last = _LogPosition(5, 0, 10.0)
    assert _breaks(last, _LogPosition(6, 0, 11.0)) == []
    assert _breaks(last, _LogPosition(7, 0, 11.0)) == [(10.0, 11.0)]
    assert _breaks(last, _LogPosition(6, 1, 11.0)) == [(10.0, 11.0)]
    assert _breaks(last._replace(leader_epoch=None), _LogPosition(6, None, 11.0)) == [(10.0, 11.0)]
