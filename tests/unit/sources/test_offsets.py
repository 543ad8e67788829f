"""Offset commits of a group that commits many times a second: every one is counted, and few instants are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from exporter.kafka.log.offset_commits import OffsetCommits
from exporter.sources.offsets import HOUR, SPACING, OffsetsSource
from tests.fakes.cluster import FakeKafka

NOW = 1_000_000.0


def source() -> OffsetsSource:
    holder = SimpleNamespace(name="demo", target="demo", shard=SimpleNamespace(holds=lambda _: True), world=FakeKafka())
    made = OffsetsSource(cast("Any", holder), 1.0)
    made._began = NOW
    return made


def commit(at: float, *, transactional: bool = False) -> OffsetCommits:
    return OffsetCommits("pay", "orders", transactional, 2, round(at * 1000))


def test_a_group_that_commits_all_the_time_is_counted_in_full_and_remembered_thinly() -> None:
    own = source()
    for number in range(20_000):
        own._take(commit(NOW + number / 10))
    times = own._fact(NOW + 2000).groups["pay"]
    assert len(times.plain) == 2000 / SPACING
    assert times.plain[-1] - times.plain[0] >= 1900
    assert [sample.value for sample in own._counters()] == [40_000.0]


def test_what_was_committed_before_the_start_is_known_and_not_counted() -> None:
    own = source()
    own._take(commit(NOW - 100, transactional=True))
    assert own._fact(NOW).groups["pay"].transactional == (NOW - 100,)
    assert list(own._counters()) == []


def test_a_group_that_committed_nothing_for_an_hour_is_forgotten() -> None:
    own = source()
    own._take(commit(NOW))
    assert own._fact(NOW + HOUR + 1).groups == {}
