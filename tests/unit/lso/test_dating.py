"""Instants over wrong clocks and restarts: what two processes say of one instant."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.lso.dating import Anchor, Dated, anchor_document, anchored, read_anchor, restored
from exporter.transactions.facts import NOTICEABLE_SECONDS

TRUE = 1_790_000_000.0
"""The coordinators' Unix time when the monotonic clock of the first boot shows 0."""
errors = st.floats(-200_000, 200_000)
instants = st.floats(0, 100_000)
CLOSE = NOTICEABLE_SECONDS + 2.0


def life(boot: str, at: float, error: float, began: float = 0.0, *, known: bool) -> Anchor:
    """The anchor of a process whose clock is wrong; its boot began ``began`` seconds after the first one."""
    return anchored(None, boot, at - began, TRUE + at + error, error if known else None)


@given(errors, errors, instants, st.booleans(), st.booleans())
def test_on_one_boot_an_instant_is_the_same_whatever_the_clocks_say(
    first: float, second: float, at: float, before: bool, after: bool
) -> None:
    saved = life("a", at, first, known=before)
    now = life("a", at + 60, second, known=after)
    document = json.loads(json.dumps(anchor_document(saved)))
    found = restored(round(saved.unix(at), 3), read_anchor(document), now)
    assert found.at == pytest.approx(at, abs=0.01)
    assert not found.by_unix


@given(errors, errors, instants, instants)
def test_over_a_boot_the_coordinators_time_tells_where_both_know_it(
    first: float, second: float, at: float, later: float
) -> None:
    saved = life("a", at, first, known=True)
    now = life("b", at + later, second, began=at + 1, known=True)
    found = restored(saved.unix(at), read_anchor(anchor_document(saved)), now)
    assert found.at == pytest.approx(-1.0, abs=1.0)
    assert found.by_unix


@given(errors, instants)
def test_what_rests_on_an_unknown_clock_moves_when_the_clock_gets_known(second: float, later: float) -> None:
    saved = life("a", 500.0, 0.0, known=True)
    unsure = life("b", 500.0 + later, second, known=False)
    sure = anchored(unsure, "b", 500.0 + later + 10, TRUE + 510.0 + later + second, second)
    found = restored(saved.unix(400.0), saved, unsure).moved(unsure, sure)
    assert sure.unix(found.at) == pytest.approx(TRUE + 400.0, abs=CLOSE)
    seen = Dated(7.0)
    assert seen.moved(unsure, sure) is seen


@given(errors, st.lists(st.tuples(st.floats(1, 900), st.floats(-0.4, 0.4)), max_size=20))
def test_what_is_shown_is_calm_while_no_clock_is_set(error: float, turns: list[tuple[float, float]]) -> None:
    anchor = first = life("a", 0.0, error, known=True)
    at = 0.0
    for seconds, noise in turns:
        at += seconds
        anchor = anchored(anchor, "a", at, TRUE + at + error, error + noise)
    step = 0.0 if abs(abs(error) - NOTICEABLE_SECONDS) > 1.0 else CLOSE
    assert anchor.zero == pytest.approx(first.zero, abs=step)


def test_a_coordinators_anchor_stays_when_our_clock_is_set_and_they_are_silent() -> None:
    anchor = anchored(None, "a", 10.0, TRUE + 90.0, 80.0)
    assert anchored(anchor, "a", 700.0, TRUE + 5_000.0, None) == anchor


@pytest.mark.parametrize(("ahead", "zero"), [(None, 80.0), (4.9, 80.0), (-4.9, 80.0), (80.0, 0.0), (5.0, 75.0)])
def test_the_coordinators_clock_is_taken_from_a_distance_on_that_people_notice(
    ahead: float | None, zero: float
) -> None:
    assert anchored(None, "", 10.0, TRUE + 90.0, ahead).zero == TRUE + zero


@pytest.mark.parametrize("ahead", [3.0, -3.0, 80.0, -80.0])
def test_an_instant_of_the_coordinators_is_found_on_our_clock(ahead: float) -> None:
    anchor = life("a", 10.0, ahead, known=True)
    assert anchor.monotonic(TRUE + 10.0) == pytest.approx(10.0)


@pytest.mark.parametrize(
    "document", [None, [], {}, {"boot": 1, "zero": 1.0, "ahead": None}, {"boot": "a", "zero": "x"}]
)
def test_what_is_no_anchor_is_none(document: object) -> None:
    assert read_anchor(document) is None


def test_without_an_anchor_the_clock_is_believed_until_a_better_one_is_known() -> None:
    now = life("a", 100.0, 0.0, known=False)
    assert restored(TRUE + 40.0, None, now) == Dated(40.0, by_unix=True, unchecked=True)
