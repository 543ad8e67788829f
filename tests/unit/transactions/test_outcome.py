"""The rules of outcomes, one by one."""

from __future__ import annotations

import pytest

from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.outcome import (
    FENCE_WINDOW_MS,
    LATE_FENCE_WINDOW_MS,
    Verdict,
    abort_verdict,
    displaced,
    is_overdue,
)
from exporter.words import Outcome, TransactionState


def open_since(started: float | None, timeout: float | None = 60.0) -> OpenTransaction:
    places = frozenset({TopicPartition("orders", 3)})
    return OpenTransaction("app-1", "app", 7, 4, TransactionState.ONGOING, started, timeout, None, places)


@pytest.mark.parametrize(
    ("bumped", "v2_client", "open_ms", "verdict"),
    [
        (False, False, 10, Verdict(Outcome.ABORTED)),
        (False, False, 70_000, Verdict(Outcome.ABORTED)),  # a V1 client's own abort, however late
        (True, False, 59_999, Verdict(Outcome.FENCED)),
        (True, False, 60_000, Verdict(Outcome.TIMED_OUT, LATE_FENCE_WINDOW_MS)),
        (True, True, 59_999, Verdict(Outcome.ABORTED, FENCE_WINDOW_MS)),
        (True, True, 60_000, Verdict(Outcome.TIMED_OUT, LATE_FENCE_WINDOW_MS)),
        (
            False,
            True,
            59_999,
            Verdict(Outcome.ABORTED, FENCE_WINDOW_MS),
        ),  # only a V1 client's own abort keeps the epoch
        (False, True, 60_000, Verdict(Outcome.TIMED_OUT)),
        (None, False, 10, Verdict(Outcome.ABORTED)),
        (None, False, 60_000, Verdict(Outcome.TIMED_OUT)),
    ],
)
def test_what_became_of_an_aborted_transaction(
    bumped: bool | None, v2_client: bool, open_ms: int, verdict: Verdict
) -> None:
    assert abort_verdict(bumped=bumped, v2_client=v2_client, open_ms=open_ms, timeout_ms=60_000) == verdict


@pytest.mark.parametrize(
    ("ended", "initialised", "is_fence"),
    [
        ((7, 4), (7, 5), True),
        ((7, 4), (7, 4), False),
        ((7, 4), (7, 6), False),
        ((7, 32766), (8, 0), True),
        ((7, 32767), (8, 0), True),
        ((7, 32765), (8, 0), False),
        ((7, 32766), (8, 1), False),
    ],
)
def test_whose_empty_record_it_is(ended: tuple[int, int], initialised: tuple[int, int], is_fence: bool) -> None:
    assert displaced(ended, initialised) is is_fence


def test_overdue_is_beyond_the_timeout_and_the_coordinators_scan() -> None:
    assert not is_overdue(open_since(100.0), 175.0)
    assert is_overdue(open_since(100.0), 175.1)
    assert not is_overdue(open_since(100.0, timeout=None), 1e9)
    assert not is_overdue(open_since(None), 1e9)
