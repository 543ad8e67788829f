"""The latest document of each sender."""

from __future__ import annotations

import pytest

from exporter.ingest.budget import Budget
from exporter.ingest.latest import BURST, RATE, LatestBySender, RefusedError
from exporter.model import Clock


def test_senders_of_documents_that_are_too_large_leave_nothing_behind() -> None:
    budget = Budget(4000)
    latest = LatestBySender[int, int](10, 60.0, Clock(), lambda *_: 5000, budget=budget)
    for sender in range(100):
        with pytest.raises(RefusedError, match=r"ingest\.memory"):
            latest.put(sender, lambda _: 1)
    assert (latest.latest(), latest.left_out(), budget.kept) == ({}, 0, 0)


def test_a_burst_is_admitted_and_then_the_rate() -> None:
    now = 1000.0
    latest = LatestBySender[int, int](10, 60.0, Clock(lambda: now), lambda *_: 1)

    def admitted() -> int:
        """How many documents are admitted before the first that is not."""
        for number in range(10_000):
            try:
                latest.admit()
            except RefusedError:
                return number
        raise AssertionError

    assert admitted() == BURST
    now += 1.0
    assert admitted() == RATE


def test_a_sender_that_comes_back_after_its_time_begins_anew() -> None:
    now = 1000.0
    latest = LatestBySender[str, int](10, 60.0, Clock(lambda: now), lambda *_: 1)
    for expected in (1, 2):
        latest.put("a", lambda before: (before or 0) + 1)
        assert latest.latest() == {"a": expected}
    now += 61.0
    latest.put("a", lambda before: (before or 0) + 1)
    assert latest.latest() == {"a": 1}
    now += 61.0
    assert latest.latest() == {}
