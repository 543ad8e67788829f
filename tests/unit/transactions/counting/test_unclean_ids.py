from __future__ import annotations

import pytest

from exporter.transactions.counting.unclean_ids import MOST_IDS, UncleanIds
from exporter.transactions.facts import UncleanEnd

NOW = 1_800_000_000.0


def end(transactional_id: str, ago: float = 0.0, outcome: str = "fenced", epoch: int = 0) -> UncleanEnd:
    return UncleanEnd(transactional_id, "pay", 7, epoch, outcome, NOW - ago, None)


def rows(ids: UncleanIds, now: float = NOW) -> list[tuple[str, str, int]]:
    return [
        (unclean.newest.transactional_id, unclean.newest.outcome, unclean.ends) for unclean in ids.last_hour(now)[0]
    ]


def test_ends_of_one_id_and_outcome_are_one_row_with_the_newest_and_the_minute_of_the_first() -> None:
    ids = UncleanIds()
    for number in range(180):
        ids.note(end("loop-1", ago=3_580 - number * 20, epoch=number))
    ids.note(end("loop-1", outcome="timed_out"))
    ids.note(end("pay-1", ago=5))
    assert rows(ids) == [("loop-1", "fenced", 180), ("loop-1", "timed_out", 1), ("pay-1", "fenced", 1)]
    [loop, *_], _ = ids.last_hour(NOW)
    assert loop.newest.producer_epoch == 179
    assert loop.first == pytest.approx(NOW - 3_580, abs=60)


def test_an_end_is_counted_for_an_hour() -> None:
    ids = UncleanIds()
    ids.note(end("pay-1", ago=3_500))
    ids.note(end("pay-1"))
    assert rows(ids, NOW + 120) == [("pay-1", "fenced", 1)]
    assert rows(ids, NOW + 3_660) == []


def test_ends_read_in_another_order_keep_the_newest() -> None:
    ids = UncleanIds()
    ids.note(end("pay-1", ago=10, epoch=2))
    ids.note(end("pay-1", ago=100, epoch=1))
    assert ids.last_hour(NOW)[0][0].newest.producer_epoch == 2


def test_of_too_many_ids_the_newest_are_kept_and_the_ends_of_others_are_counted() -> None:
    ids = UncleanIds()
    for number in range(MOST_IDS + 3):
        ids.note(end(f"pay-{number}", ago=1_000 - number))
        ids.note(end(f"pay-{number}", ago=1_000 - number))
    found, others = ids.last_hour(NOW)
    assert (len(found), others) == (MOST_IDS, 6)
    assert "pay-0" not in {unclean.newest.transactional_id for unclean in found}
    assert ids.last_hour(NOW + 3_660) == ((), 0)
