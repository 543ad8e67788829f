"""The groups of the holder of a stalled partition: by its commits, with live members, and what is not known."""

from __future__ import annotations

from itertools import pairwise

import pytest

from exporter import catalogue
from exporter.groups.facts import HolderGroup, HolderGroups, HolderMember
from exporter.groups.source.groups import GroupsSource
from exporter.groups.source.holder_groups import AGAIN_SECONDS, MOST_MEMBERS, member_match
from exporter.kafka.requests.groups import GroupMember
from exporter.lso.facts import Blocker, Stall, Stalls
from exporter.model import TopicPartition
from exporter.transactions.facts import OffsetPartitions, TransactionUse
from exporter.words import BlockerKind, MemberMatch
from tests.helpers.batches import offset_commit
from tests.helpers.cluster import OFFSETS, FakeGroup, FakeKafka, read
from tests.helpers.scenes import held_world
from tests.helpers.sources import groups_source

UUID = "2c5ea4c0-4067-11e9-8b5d-9b1f6f1f6f1f"
HELD = Stalls(
    (Stall(TopicPartition("orders", 0), 0.0, 80, 100, 1, Blocker("pay-1", "pay", 7, 0, 80, BlockerKind.OPEN)),)
)


def held_by(producer_id: int) -> Stalls:
    return Stalls((HELD.stalls[0]._replace(blocker=HELD.stalls[0].blocker._replace(producer_id=producer_id)),))


def used(*partitions: int) -> TransactionUse:
    return TransactionUse(frozenset(), {}, {}, offset_partitions={"pay": OffsetPartitions(3, frozenset(partitions))})


def committing_world(*members: str) -> FakeKafka:
    """The holder, and another producer beside it, have committed offsets of groups; a third group did so by itself."""
    world = held_world()
    commits = [("pay-group", 7), ("other", 8), ("plain", -1)]
    world.topics[OFFSETS][0].batches = b"".join(
        offset_commit(group, "orders", producer_id, base) for base, (group, producer_id) in enumerate(commits)
    )
    world.topics[OFFSETS][0].high_watermark = len(commits)
    world.groups["pay-group"] = FakeGroup({}, members)
    return world


def group_of_holder(world: FakeKafka, source: GroupsSource, use: TransactionUse) -> HolderGroup | str:
    fact = read(world, source, HELD, use).facts[HolderGroups]
    assert isinstance(fact, HolderGroups)
    assert fact.by_producer.keys() == {7}
    found = fact.by_producer[7]
    return found if isinstance(found, str) else found[0]


def test_the_group_is_that_of_the_holders_commits_with_its_members() -> None:
    world = committing_world("pay-a@10.0.0.1", "pay-b@10.0.0.2")
    members = tuple(HolderMember(f"pay-{name}", f"10.0.0.{at}", MemberMatch.NO) for name, at in (("a", 1), ("b", 2)))
    source = groups_source(world)
    assert group_of_holder(world, source, used(0)) == HolderGroup("pay-group", members, 2)
    fetches = len(world.requests("Fetch"))
    seen = read(world, source, HELD, used(0))
    assert seen.values(catalogue.LSO_HOLDER_GROUP_MEMBERS) == {("7", "pay-group"): 2}
    assert len(world.requests("Fetch")) == fetches, "the commits are read until the group is known"


def test_a_group_without_members_is_dated_when_it_was_first_seen_so() -> None:
    world = committing_world()
    source = groups_source(world)
    first = world.time.wall
    for _ in range(2):
        own = group_of_holder(world, source, used(0))
        assert isinstance(own, HolderGroup)
        assert (own.member_count, own.missing) == (0, "")
        assert own.empty_since == pytest.approx(first, abs=1)
        world.time.pass_(30)
    world.groups["pay-group"].members = ["pay-a@10.0.0.1"]
    assert group_of_holder(world, source, used(0)) == HolderGroup(
        "pay-group", (HolderMember("pay-a", "10.0.0.1", MemberMatch.LIKELY),), 1
    ), "the only member is likely the holder"


def test_what_is_not_known_is_said_with_the_reason() -> None:
    world = committing_world("pay-a@10.0.0.1")
    assert group_of_holder(world, groups_source(world), used()) == (
        "its transactions have committed no offsets of a group since the log is read"
    )
    world.refuse["Fetch"] = 29
    assert "grant READ on Topic:__consumer_offsets" in group_of_holder(world, groups_source(world), used(0))
    world.refuse = {}
    source = groups_source(world)
    group_of_holder(world, source, used(0))
    world.refuse["DescribeGroups"] = 30
    own = group_of_holder(world, source, used(0))
    assert isinstance(own, HolderGroup)
    assert (own.members, own.empty_since) == ((), None)
    assert "DESCRIBE on Group:pay-group" in own.missing
    world.refuse = {}
    world.topics[OFFSETS][0].batches = offset_commit("other", "orders", 8)
    world.topics[OFFSETS][0].high_watermark = 1
    assert group_of_holder(world, groups_source(world), used(0)) == (
        "none of the newest offset commits is of its producer id"
    )


def test_a_holder_without_a_group_is_searched_for_seldom_and_another_one_at_once() -> None:
    world = committing_world()
    world.topics[OFFSETS][0].batches = offset_commit("other", "orders", 8)
    world.topics[OFFSETS][0].high_watermark = 1
    source = groups_source(world)
    searches = []
    for stalls in (HELD, HELD, held_by(8), HELD):
        read(world, source, stalls, used(0))
        searches.append(len(world.requests("Fetch")))
    world.time.pass_(AGAIN_SECONDS)
    read(world, source, HELD, used(0))
    searches.append(len(world.requests("Fetch")))
    assert [after - before for before, after in pairwise(searches)] == [0, 1, 1, 1]


def test_of_many_members_some_are_listed_and_all_are_counted() -> None:
    world = committing_world(*(f"c-{number}@10.0.0.{number}" for number in range(30)))
    own = group_of_holder(world, groups_source(world), used(0))
    assert isinstance(own, HolderGroup)
    assert (len(own.members), own.member_count) == (MOST_MEMBERS, 30)


@pytest.mark.parametrize(
    ("transactional_id", "client_id", "instance", "match"),
    [
        (f"flow-{UUID}-1", f"flow-{UUID}-StreamThread-1-consumer", "", MemberMatch.CERTAIN),
        ("orders-validator-7f9c-x2k", "orders-validator-7f9c-x2k", "", MemberMatch.LIKELY),
        ("orders-validator-7f9c-x2k", "consumer-orders-1", "orders-validator-7f9c-x2k", MemberMatch.LIKELY),
        ("validator-10.0.3.17-1", "consumer-orders-1", "", MemberMatch.LIKELY),
        ("orders-1", "consumer-orders-1", "", MemberMatch.NO),
        ("orders-1", "rdkafka", "", MemberMatch.NO),
        ("orders-2", "orders", "", MemberMatch.NO),
        ("", "rdkafka", "", MemberMatch.NO),
    ],
)
def test_a_member_is_matched_by_names_that_are_its_own(
    transactional_id: str, client_id: str, instance: str, match: MemberMatch
) -> None:
    assert member_match(transactional_id, "orders", GroupMember("m", client_id, "10.0.3.17", instance)) is match
