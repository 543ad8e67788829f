"""What ended lately: what is handed on, and the queries about the last hour."""

from __future__ import annotations

import pytest

from exporter.model import TopicPartition
from exporter.transactions.recent import KEPT_SECONDS, MOST, MOST_IDS, RecentTransactions
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome
from tests.helpers.transactions import finished, unclean_end

NOW = 1_800_000_000.0
ENDED = finished("pay-1", "pay", Outcome.COMMITTED, 7, NOW - 1, NOW, places=frozenset({TopicPartition("orders", 0)}))


def test_transactions_are_handed_on_for_a_minute_and_numbered_from_the_first() -> None:
    recent = RecentTransactions(10)
    recent.ended.take(ENDED)
    first = recent.read(1.0)
    assert (first.ended.first, first.ended.end) == (0, 1)
    assert recent.read(2.0) is first
    recent.ended.take(ENDED)
    both = recent.read(30.0).ended
    assert (both.first, both.end, len(list(both.since(1)))) == (0, 2, 1)
    later = recent.read(2.0 + KEPT_SECONDS).ended
    assert (later.first, later.end, len(list(later.since(0)))) == (1, 2, 1)


def test_a_burst_is_handed_on_up_to_a_number() -> None:
    recent = RecentTransactions(10)
    for _ in range(MOST + 7):
        recent.ended.take(ENDED)
    found = recent.read(1.0).ended
    assert (found.first, found.end) == (7, MOST + 7)
    for _ in range(5):
        recent.ended.take(ENDED)
    found = recent.read(2.0).ended
    assert (found.first, found.end, len(list(found.since(0)))) == (12, MOST + 12, MOST)


def end(transactional_id: str, ago: float = 0.0, outcome: str = "fenced", epoch: int = 0) -> Transaction:
    return unclean_end(transactional_id, "pay", 7, epoch, outcome, NOW - ago, None)


def of(*ends: Transaction) -> RecentTransactions:
    recent = RecentTransactions(10)
    for unclean in ends:
        recent.unclean.take(unclean)
    return recent


def rows(recent: RecentTransactions, now: float = NOW) -> list[tuple[str, str, int]]:
    found = recent.unclean_ends(now).ids
    return [(unclean.newest.transactional_id, unclean.newest.outcome_word, unclean.ends) for unclean in found]


def test_ends_of_one_id_and_outcome_are_one_row_with_the_newest_and_the_minute_of_the_first() -> None:
    loops = [end("loop-1", ago=3_580 - number * 20, epoch=number) for number in range(180)]
    recent = of(*loops, end("loop-1", outcome="timed_out"), end("pay-1", ago=5))
    assert rows(recent) == [("loop-1", "fenced", 180), ("loop-1", "timed_out", 1), ("pay-1", "fenced", 1)]
    loop = recent.unclean_ends(NOW).ids[0]
    assert loop.newest.producer_epoch == 179
    assert loop.first == pytest.approx(NOW - 3_580, abs=60)


def test_an_end_is_counted_for_an_hour_also_after_others_were_read() -> None:
    recent = of(end("pay-1", ago=3_500), end("pay-1"))
    assert recent.read(1.0).unclean.end == 2
    assert rows(recent, NOW + 120) == [("pay-1", "fenced", 1)]
    assert rows(recent, NOW + 3_660) == []


def test_ends_read_in_another_order_keep_the_newest() -> None:
    recent = of(end("pay-1", ago=10, epoch=2), end("pay-1", ago=100, epoch=1))
    assert recent.unclean_ends(NOW).ids[0].newest.producer_epoch == 2
    assert [unclean.producer_epoch for unclean in recent.latest(NOW)] == [2, 1]


def test_of_too_many_ids_the_newest_are_listed_and_the_ends_of_others_are_counted() -> None:
    recent = of(*(end(f"pay-{number // 2}", ago=1_000 - number // 2) for number in range(2 * MOST_IDS + 6)))
    found = recent.unclean_ends(NOW)
    assert (len(found.ids), found.of_other_ids, len(found.ends)) == (MOST_IDS, 6, 10)
    assert "pay-0" not in {unclean.newest.transactional_id for unclean in found.ids}
    assert recent.unclean_ends(NOW + 3_660).of_other_ids == 0


def test_unclean_ends_are_handed_on_for_an_hour_and_not_more_than_a_number() -> None:
    recent = of(*[end("pay-1")] * (MOST + 3))
    found = recent.read(1.0).unclean
    assert (found.first, found.end) == (3, MOST + 3)
    assert recent.fences(NOW) == {("pay-1", "pay"): MOST}
    assert recent.read(3_602.0).unclean.reads == ()
