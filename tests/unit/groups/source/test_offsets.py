"""Offset commits of a group that commits many times a second: every one is counted, and few instants are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from exporter import catalogue
from exporter.groups.facts import GroupCommits
from exporter.groups.source.offsets import HOUR, MOST_DROPPED, MOST_GROUPS, MOST_SERIES, SPACING, OffsetsSource
from exporter.kafka.log.offset_commits import GroupGeneration, OffsetCommits
from exporter.model import Fault, Reason
from tests.helpers.cluster import OFFSETS, FakeKafka, read, world_of

NOW = 1_000_000.0


def source() -> OffsetsSource:
    holder = SimpleNamespace(name="demo", target="demo", world=FakeKafka())
    made = OffsetsSource(cast("Any", holder), 1.0)
    made._began = NOW
    return made


def commit(at: float, *, transactional: bool = False) -> OffsetCommits:
    return OffsetCommits("pay", "orders", transactional, 2, round(at * 1000))


def last_hour(own: OffsetsSource, wall: float) -> GroupCommits:
    own._forget_silent(wall)
    return own._fact()


def test_a_group_that_commits_all_the_time_is_counted_in_full_and_remembered_thinly() -> None:
    own = source()
    for number in range(20_000):
        own._take(commit(NOW + number / 10))
    times = last_hour(own, NOW + 2000).groups["pay"]
    assert len(times.plain) == 2000 / SPACING
    assert times.plain[-1] - times.plain[0] >= 1900
    assert [sample.value for sample in own._counters()] == [40_000.0]


def test_what_was_committed_before_the_start_is_known_and_not_counted() -> None:
    own = source()
    own._take(commit(NOW - 100, transactional=True))
    assert last_hour(own, NOW).groups["pay"].transactional == (NOW - 100,)
    assert list(own._counters()) == []


def test_a_group_that_committed_nothing_for_an_hour_is_forgotten() -> None:
    own = source()
    own._take(commit(NOW))
    assert last_hour(own, NOW + HOUR + 1).groups == {}


def test_a_partition_that_cannot_be_read_for_hours_keeps_no_older_commits() -> None:
    world = world_of(log=0, offsets=2)
    own = OffsetsSource(world.cluster(), 30.0)
    read(world, own)
    world.topics[OFFSETS][1].high_watermark = 7
    world.refuse["Fetch"] = 29
    for number in range(5):
        own._take(OffsetCommits(f"g{number}", "orders", False, 1, round(world.time.wall * 1000)))
        assert read(world, own).reasons == {Reason.AUTHORIZATION}
        world.time.pass_(HOUR / 2)
    assert len(own._times) <= 3


def test_the_commits_of_the_last_hour_are_not_told_while_a_partition_is_not_read() -> None:
    world = world_of(log=0, offsets=2)
    own = OffsetsSource(world.cluster(), 30.0)
    assert GroupCommits in read(world, own).facts
    world.refuse["ListOffsets"] = 6
    assert GroupCommits not in read(world, own).facts
    world.refuse.clear()
    del world.topics[OFFSETS]
    world.hidden[OFFSETS] = Fault(Reason.AUTHORIZATION, "Metadata of topic __consumer_offsets")
    assert GroupCommits not in read(world, own).facts


def test_names_that_a_client_makes_up_take_a_bounded_number_of_places() -> None:
    own = source()
    for number in range(2 * MOST_GROUPS + MOST_SERIES + MOST_DROPPED):
        own._take(OffsetCommits(f"g{number}", "orders", False, 1, round(NOW * 1000)))
    own._take(OffsetCommits("g1", "orders", False, 1, round((NOW + SPACING) * 1000)))
    assert (len(own._times), len(own._counts), len(own._dropped)) == (2 * MOST_GROUPS, MOST_SERIES, MOST_DROPPED)
    assert len(own._fact().groups["g1"].plain) == 2


def rebalances(own: OffsetsSource) -> dict[tuple[str, ...], float]:
    return {
        counter.labels[1:]: float(cast("float", counter.value))
        for counter in own._counters()
        if counter.metric is catalogue.GROUP_REBALANCES_TOTAL
    }


def test_a_group_rebalanced_as_often_as_its_generation_grew_since_it_was_first_seen() -> None:
    own = source()
    own._reader.generations = [GroupGeneration("pay", "classic", number) for number in (40, 41, 44)]
    own._take_generations()
    assert rebalances(own) == {("pay", "classic"): 4}
    own._reader.generations = [GroupGeneration("pay", "classic", number) for number in (1, 2)]
    own._take_generations()
    assert rebalances(own) == {("pay", "classic"): 5}, "it was deleted, and made again"


def test_generations_of_made_up_groups_take_a_bounded_number_of_places() -> None:
    own = source()
    own._reader.generations = [GroupGeneration(f"g{number}", "classic", 1) for number in range(MOST_SERIES + 10)]
    own._take_generations()
    assert len(rebalances(own)) == MOST_SERIES
