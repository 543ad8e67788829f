"""Tests of the ids that expired in the last hour."""

from __future__ import annotations

import pytest

from exporter.transactions.counting import id_changes
from exporter.transactions.counting.id_changes import HOUR, RecentlyExpired
from exporter.transactions.facts import ExpiredId, ExpiredIds

NOW = 1_790_000_000.0


def recent() -> RecentlyExpired:
    return RecentlyExpired(lambda name: name.partition("-")[0])


def test_expired_ids_are_listed_for_an_hour_newest_first() -> None:
    seen = recent()
    seen.note("pay-1", NOW)
    seen.note("ship-1", NOW + 10)
    assert seen.last_hour(NOW + 20).ids == (ExpiredId("ship-1", "ship", NOW + 10), ExpiredId("pay-1", "pay", NOW))
    assert seen.by_application(NOW + 20) == {"pay": 1, "ship": 1}
    assert seen.last_hour(NOW + HOUR + 5).ids == (ExpiredId("ship-1", "ship", NOW + 10),)
    assert seen.last_hour(NOW + HOUR + 11) == ExpiredIds(())
    assert seen.by_application(NOW + HOUR + 11) == {}


def test_an_id_that_a_producer_takes_again_is_nobody_s_trouble() -> None:
    seen = recent()
    seen.initialised("pay-1")
    seen.note("pay-1", NOW)
    seen.initialised("pay-1")
    assert seen.last_hour(NOW).ids == ()
    seen.note("pay-1", NOW + 5)
    assert [found.expired for found in seen.last_hour(NOW + 5).ids] == [NOW + 5]


def test_too_many_are_counted_and_not_listed_and_the_oldest_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_changes, "MOST_LISTED", 2)
    monkeypatch.setattr(id_changes, "MOST_KEPT", 3)
    seen = recent()
    for number in range(5):
        seen.note(f"pay-{number}", NOW + number)
    found = seen.last_hour(NOW + 10)
    assert ([one.transactional_id for one in found.ids], found.others) == (["pay-4", "pay-3"], 1)
    assert seen.by_application(NOW + 10) == {"pay": 3}
