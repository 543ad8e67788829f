"""The coordinators' time, by the arrival of what they have stamped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.transactions.clock import (
    ALONE_SECONDS,
    ENOUGH,
    LIVE_WINDOW,
    WINDOW,
    CoordinatorClock,
    CoordinatorClocks,
)
from exporter.transactions.facts import CoordinatorTime

THEIRS = 1_790_000_000.0  # the coordinators' clock at monotonic 0

arrivals = st.lists(st.tuples(st.floats(0, 300), st.floats(0, 100), st.booleans()), min_size=1)


def clock_of(*records: tuple[float, float, bool]) -> CoordinatorClock:
    """Records as they arrived: ``(when, with what delay, new)``."""
    clock = CoordinatorClock()
    for at, delay, live in sorted(records):
        clock.stamped(THEIRS + at - delay, at, live=live)
    return clock


@given(arrivals, st.floats(-7200, 7200))
def test_the_earliest_time_is_never_later_than_the_coordinators(
    records: list[tuple[float, float, bool]], skew: float
) -> None:
    now = 301.0
    time = clock_of(*records).time(now).beside(THEIRS + skew)
    earliest = time.earliest(THEIRS + now + skew)
    assert earliest is not None
    assert earliest <= THEIRS + now + 1e-3
    assert time.ahead is None or time.ahead >= skew - 1e-3


@pytest.mark.parametrize("skew", [80.0, -80.0, 0.0])
def test_the_distance_is_that_of_the_record_that_was_delayed_least(skew: float) -> None:
    clock = clock_of((10.0, 3.0, True), (11.0, 0.04, True), (12.0, 0.2, True))
    time = clock.time(13.0).beside(THEIRS + skew)
    assert time.ahead == pytest.approx(skew + 0.04)
    assert time.now(THEIRS + 13.0 + skew) == pytest.approx(THEIRS + 13.0 - 0.04)


def test_records_that_are_read_late_say_nothing_of_the_distance_and_bound_the_time_all_the_same() -> None:
    clock = clock_of((10.0, 3000.0, False))
    wall = THEIRS + 10.0
    time = clock.time(10.0).beside(THEIRS)
    assert (time.ahead, time.now(wall)) == (None, wall)
    assert time.earliest(wall) == time.advising(wall) == pytest.approx(wall - 3000.0)


def test_one_new_record_that_was_long_on_its_way_says_nothing_of_the_distance() -> None:
    assert clock_of(*[(10.0, 30.0, True)] * (ENOUGH - 1)).time(11.0).ahead is None
    assert clock_of(*[(10.0, 30.0, True)] * (ENOUGH - 1), (12.0, 0.1, True)).time(13.0).ahead == pytest.approx(
        0.1 - THEIRS
    )


def test_our_clock_may_be_set_at_any_time() -> None:
    clock = clock_of((10.0, 0.0, True))
    for wall in (THEIRS + 50.0, THEIRS + 5000.0, THEIRS - 5000.0):
        assert clock.time(50.0).beside(wall - 50.0).earliest(wall) == pytest.approx(THEIRS + 50.0)


def test_what_is_long_ago_bounds_nothing_any_more() -> None:
    clock = clock_of(*[(10.0, 0.0, True)] * ENOUGH)
    assert clock.time(10.0 + LIVE_WINDOW).ahead is not None
    assert clock.time(11.0 + LIVE_WINDOW).ahead is None
    assert clock.time(10.0 + WINDOW).at_most is not None
    assert clock.time(11.0 + WINDOW).at_most is None


def test_where_nothing_was_read_nothing_is_known() -> None:
    assert CoordinatorClock().time(1.0).beside(THEIRS) == CoordinatorTime()
    assert CoordinatorTime().earliest(THEIRS) is None
    assert CoordinatorTime().advising(THEIRS) == THEIRS


# --- Brokers with clocks of their own ---


def two_clocks(apart: float) -> CoordinatorClocks:
    """The clock of broker 2 is so many seconds ahead of that of broker 1, which is ours."""
    clocks = CoordinatorClocks()
    for at in range(10):
        clocks.stamped(1, THEIRS + at, at + 0.01, live=True)
        clocks.stamped(2, THEIRS + apart + at, at + 0.01, live=True)
    return clocks


def test_each_broker_has_the_distance_of_its_own_clock() -> None:
    skews = two_clocks(90.0).skews(20.0, THEIRS + 20.0)
    assert {broker: round(skew) for broker, skew in skews.items()} == {1: 0, 2: -90}


def test_a_broker_that_leads_no_part_of_the_log_any_more_has_no_distance() -> None:
    clocks = two_clocks(90.0)
    clocks.leaders = frozenset({1})
    assert {broker: round(skew) for broker, skew in clocks.skews(20.0, THEIRS + 20.0).items()} == {1: 0}
    time = clocks.time(20.0, THEIRS + 20.0)
    assert round(time.beside(THEIRS).distance or 0.0) == 0


def test_clocks_are_apart_while_the_last_minutes_are_dated_by_one_that_leads_no_more() -> None:
    clocks = two_clocks(90.0)
    clocks.leaders = frozenset({1})
    assert round(clocks.apart(20.0, THEIRS + 20.0)) == 90
    assert round(clocks.apart(300.0, THEIRS + 300.0)) == 0


def test_clocks_are_apart_while_what_is_decided_is_dated_by_ours_and_not_by_its_coordinators() -> None:
    clocks = two_clocks(90.0)
    clocks.leaders = frozenset({2})
    assert round(clocks.apart(300.0, THEIRS + 300.0)) == 90


def test_a_timestamp_is_moved_by_the_distance_of_the_broker_that_wrote_it() -> None:
    clocks = two_clocks(90.4)
    ours = 20.0, THEIRS + 20.0
    assert clocks.ahead(1, *ours) == 0.0
    assert clocks.ahead(2, *ours) == pytest.approx(90.4, abs=0.1)
    assert clocks.ahead(3, *ours) is clocks.ahead(None, *ours) is None, "no record of it shows its clock"
    time = clocks.time(*ours)
    assert (time.beside(THEIRS).ahead, round(time.beside(THEIRS).distance or 0)) == (0.0, -90), (
        "no two agree: it is ours"
    )


@pytest.mark.parametrize("jump", [3600.0, -86_400.0])
def test_our_clock_that_is_set_moves_no_timestamp(jump: float) -> None:
    clocks = two_clocks(90.0)
    before, reference = clocks.ahead(2, 20.0, THEIRS + 20.0), clocks.time(20.0, THEIRS + 20.0)
    assert clocks.ahead(2, 30.0, THEIRS + 30.0 + jump) == before
    assert clocks.time(30.0, THEIRS + 30.0 + jump) == reference


def test_clocks_that_agree_date_by_their_own_time_and_move_nothing() -> None:
    clocks = two_clocks(1.5)
    for broker in (1, 2, 3, None):
        assert clocks.ahead(broker, 20.0, THEIRS + 87.0) == 0.0
    assert clocks.time(20.0, THEIRS + 87.0).beside(THEIRS + 67.0).ahead == pytest.approx(65.5, abs=0.1)


def test_where_most_brokers_agree_their_clock_counts_and_not_ours() -> None:
    clocks = two_clocks(90.0)
    for at in range(ENOUGH):
        clocks.stamped(3, THEIRS + at, float(at), live=True)
    ours = 20.0, THEIRS + 87.0  # 67 s ahead
    assert clocks.time(*ours).beside(THEIRS + 67.0).ahead == pytest.approx(67.0, abs=0.1)
    assert [round(clocks.ahead(broker, *ours) or 0) for broker in (1, 2, 3)] == [0, 90, 0]


@pytest.mark.parametrize("spaced", [0.1, 1.0])
def test_records_that_waited_together_show_no_clock(spaced: float) -> None:
    """As those that were replicated at last, ten seconds after they were stamped."""
    clocks = CoordinatorClocks()
    for number in range(ENOUGH):
        clocks.stamped(1, THEIRS + number, float(number), live=True)
        clocks.stamped(2, THEIRS - 10.0 + number * spaced, number * spaced, live=True)
    assert (clocks.ahead(2, 3.0, THEIRS + 3.0) != 0.0) is (spaced == 1.0)
    assert clocks.time(3.0, THEIRS + 3.0).ahead is None or spaced == 1.0, "which of the two it is is not known yet"


def test_the_only_known_clock_is_not_at_once_that_of_the_other_coordinators() -> None:
    clocks = CoordinatorClocks()
    clocks.leaders = frozenset({1, 2})
    for at in range(ENOUGH):
        clocks.stamped(1, THEIRS + 90.0 + at, float(at), live=True)
    assert clocks.time(3.0, THEIRS).ahead is None
    assert clocks.time(3.0 + ALONE_SECONDS, THEIRS).ahead is not None
    clocks.leaders = frozenset({1})
    assert clocks.time(3.0, THEIRS).ahead is not None


def test_a_later_process_goes_on_from_the_known_distances() -> None:
    before, after = two_clocks(90.0), CoordinatorClocks()
    after.restore(before.known, 30.0)
    assert after.ahead(2, 30.0, THEIRS + 30.0) == pytest.approx(90.0, abs=0.1)


def test_a_coordinator_is_behind_as_far_as_a_record_of_its_own_shows() -> None:
    clocks = CoordinatorClocks()
    ours = 1.0, THEIRS + 1.0
    clocks.stamped(1, THEIRS - 90.0, 0.0, live=False)
    clocks.stamped(2, THEIRS, 0.0, live=False)
    assert clocks.skews(*ours) == {}
    assert [clocks.behind(broker, *ours) for broker in (1, 2, 3)] == [90.0, 0.0, None]
