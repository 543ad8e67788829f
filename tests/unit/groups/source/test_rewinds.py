"""Offsets of a group that move back: which commits count, and what ends that they are known."""

from __future__ import annotations

import pytest

from exporter.groups.source import rewinds
from exporter.groups.source.rewinds import OffsetRewinds
from exporter.kafka.log.offset_commits import EndedCommits, OffsetCommits

SINCE = 1000.0


def commit(
    own: OffsetRewinds, *offsets: int | None, producer: int = -1, at: float = SINCE + 1, group: str = "g"
) -> None:
    found = tuple(enumerate(offsets))
    records = sum(offset is not None for offset in offsets)
    own.take(OffsetCommits(group, "t", producer >= 0, records, round(at * 1000), producer, found), SINCE)


def transact(own: OffsetRewinds, *offsets: int, producer: int = 7, commits: bool = True, at: float = SINCE + 1) -> None:
    commit(own, *offsets, producer=producer, at=at)
    own.end(EndedCommits(producer, commits), SINCE)


def test_a_second_instance_that_commits_older_offsets_sets_the_group_back_each_time() -> None:
    own = OffsetRewinds()
    transact(own, 100)
    for offset in (105, 110):
        transact(own, 100, producer=8)
        transact(own, offset)
    assert own.counts == {("g", "t"): 1}, "100 after 100 is none"
    transact(own, 100, producer=8)
    assert own.counts == {("g", "t"): 2}


def test_a_commit_of_several_partitions_counts_once() -> None:
    own = OffsetRewinds()
    transact(own, 100, 200, 300)
    transact(own, 90, 190, 310)
    assert own.counts == {("g", "t"): 1}


def test_a_transaction_that_is_aborted_or_open_sets_nothing() -> None:
    own = OffsetRewinds()
    transact(own, 100)
    transact(own, 110, commits=False)
    transact(own, 105)
    commit(own, 50, producer=9)
    assert own.counts == {("g", "t"): 0}
    own.end(EndedCommits(9, True), SINCE)
    assert own.counts == {("g", "t"): 1}


def test_a_reset_outside_of_transactions_counts_for_a_group_that_commits_in_them_only() -> None:
    own = OffsetRewinds()
    commit(own, 100)
    commit(own, 10)
    assert own.counts == {}
    transact(own, 100)
    commit(own, 10)
    assert own.counts == {("g", "t"): 1}


def test_offsets_that_were_deleted_are_no_measure() -> None:
    own = OffsetRewinds()
    transact(own, 100)
    commit(own, None)
    transact(own, 5)
    assert own.counts == {("g", "t"): 0}


def test_what_was_committed_before_the_start_is_a_measure_and_does_not_count() -> None:
    own = OffsetRewinds()
    transact(own, 100, at=SINCE - 50)
    transact(own, 90, at=SINCE - 40)
    assert own.counts == {}
    transact(own, 80)
    assert own.counts == {("g", "t"): 1}


def test_names_and_transactions_without_an_end_take_a_bounded_number_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_PARTITIONS", 5), ("MOST_SERIES", 4), ("MOST_OPEN", 3)):
        monkeypatch.setattr(rewinds, name, most)
    own = OffsetRewinds()
    for number in range(20):
        commit(own, 1, producer=number, group=f"g{number}")
        own.end(EndedCommits(number, True), SINCE)
    assert (len(own._known), len(own.counts)) == (5, 4)
    for number in range(20):
        commit(own, 1, producer=number)
    assert sum(map(len, own._open.values())) == 3
