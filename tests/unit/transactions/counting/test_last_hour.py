"""The last hour by minute: nothing from before the start, nothing lost, nothing that grows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from exporter import catalogue
from exporter.model import Clock, Sample
from exporter.transactions.counting.last_hour import MOST_APPLICATIONS, FenceStorm, LastHour, Minutes
from exporter.words import Outcome


@dataclass
class HourClock:
    now: float = 6000.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now)


def note(hour: LastHour, *fences: Sample, **counted: dict[Outcome, int]) -> None:
    hour.note(counted, fences)


def committed_so_far(count: int) -> dict[Outcome, int]:
    return {Outcome.COMMITTED: count}


def committed(hour: LastHour) -> list[int]:
    view = hour.view()
    assert view is not None
    return list(view.together.counts[Outcome.COMMITTED])


def test_nothing_is_known_before_the_first_counters() -> None:
    assert LastHour(HourClock().clock()).view() is None


def test_what_was_counted_before_the_start_is_not_of_this_hour() -> None:
    time = HourClock()
    hour = LastHour(time.clock())
    note(hour, pay=committed_so_far(1000))
    note(hour, pay=committed_so_far(1003))
    assert committed(hour) == [3]


def test_each_minute_has_its_own_count_and_the_hour_moves_on() -> None:
    time = HourClock()
    hour = LastHour(time.clock())
    note(hour, pay={})
    note(hour, pay=committed_so_far(5))
    time.now += 60
    note(hour, pay=committed_so_far(7))
    time.now += 120
    assert committed(hour) == [5, 2, 0, 0]
    time.now += 57 * 60
    assert committed(hour) == [2, *[0] * 59]
    time.now += 3600
    assert committed(hour) == [0] * 60


def test_an_application_that_comes_later_counts_from_zero() -> None:
    hour = LastHour(HourClock().clock())
    note(hour, pay=committed_so_far(9))
    note(hour, pay=committed_so_far(9), bill={Outcome.FENCED: 4})
    view = hour.view()
    assert view is not None
    assert view.applications["bill"].total(Outcome.FENCED) == 4
    assert "pay" not in view.applications


def test_an_application_that_was_gone_and_comes_back_counts_from_zero() -> None:
    hour = LastHour(HourClock().clock())
    note(hour, pay=committed_so_far(9), bill=committed_so_far(1))
    note(hour, bill=committed_so_far(1))
    note(hour, pay=committed_so_far(3), bill=committed_so_far(1))
    assert committed(hour) == [3]


def test_a_counter_that_goes_back_takes_nothing_away() -> None:
    hour = LastHour(HourClock().clock())
    note(hour, pay=committed_so_far(9))
    note(hour, pay=committed_so_far(2))
    note(hour, pay=committed_so_far(3))
    assert committed(hour) == [1]


def test_beyond_the_most_applications_all_together_stays_true() -> None:
    hour = LastHour(HourClock().clock())
    note(hour, pay={})
    names = [f"app-{number}" for number in range(MOST_APPLICATIONS + 50)]
    note(hour, **dict.fromkeys(names, committed_so_far(1)))
    view = hour.view()
    assert view is not None
    assert len(view.applications) == MOST_APPLICATIONS
    assert view.left_out == 50
    assert view.together.total(Outcome.COMMITTED) == len(names)


def test_three_fences_of_one_id_are_a_storm_and_two_are_none() -> None:
    hour = LastHour(HourClock().clock())
    fences = [
        catalogue.RECENT_PRODUCER_FENCES(3.0, "prod", "pay", "pay-1"),
        catalogue.RECENT_PRODUCER_FENCES(2.0, "prod", "pay", "pay-2"),
    ]
    note(hour, *fences, pay={})
    view = hour.view()
    assert view is not None
    assert view.storms == (FenceStorm("pay", "pay-1", 3),)


@pytest.mark.parametrize(
    ("commits", "stopped"),
    [
        ([1] * 40 + [0] * 13, 13),
        ([1] * 40 + [0] * 12, None),  # twice the pause of a minute, and ten
        ([1, 0, 0, 0, 0] * 6 + [0] * 17, 21),
        ([1, 0, 0, 0, 0] * 6 + [0] * 16, None),
        ([1] * 4 + [0] * 50, None),  # its rhythm is not known
        ([0] * 60, None),
    ],
)
def test_an_application_has_stopped_after_twice_its_longest_pause_and_ten_minutes(
    commits: list[int], stopped: int | None
) -> None:
    found = Minutes(
        {outcome: commits if outcome is Outcome.COMMITTED else [0] * len(commits) for outcome in Outcome}
    ).stopped()
    assert found == stopped
