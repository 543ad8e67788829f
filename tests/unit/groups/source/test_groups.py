"""Consumer groups against the last stable offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter import catalogue
from exporter.bounds.patterns import BoundedPattern
from exporter.groups.facts import (
    Blocked,
    BlockedGroup,
    BlockedGroups,
    GroupsHeld,
)
from exporter.groups.source.groups import REFUSALS_KEPT, choose, group_samples
from exporter.kafka.log.unread_records import MOST_PIECES
from exporter.lso.facts import Blocker, Stall, Stalls
from exporter.model import Notes, Reason, TopicPartition
from exporter.words import BlockerKind
from tests.helpers.batches import data, marker
from tests.helpers.cluster import OFFSETS, FakeGroup, FakeKafka, Partition, read
from tests.helpers.scenes import held_world
from tests.helpers.sources import groups_source

LAG = catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS
BLOCKED = catalogue.GROUP_BLOCKED_OFFSETS
RECORDS = catalogue.GROUP_READ_COMMITTED_LAG_RECORDS


def test_lag_is_measured_to_the_last_stable_offset_and_what_is_blocked_behind_it_apart() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 70, ("orders", 1): 80})
    seen = read(world, groups_source(world))
    assert not seen.faults
    assert seen.values(LAG) == {("billing", "orders"): 10}
    assert seen.values(BLOCKED) == {("billing", "orders"): 40}


def test_the_groups_that_a_stalled_partition_withholds_records_from_are_named_and_others_are_not() -> None:
    world = held_world(3)
    world.groups["behind"] = FakeGroup({("orders", 0): 70, ("orders", 1): 70})
    world.groups["waiting"] = FakeGroup({("orders", 0): 80})
    world.groups["uncommitted"] = FakeGroup({("orders", 0): 95})
    stalls = Stalls(
        tuple(
            Stall(TopicPartition("orders", number), 0.0, 80, 100, 1, Blocker("", "", 7, 0, 80, BlockerKind.OPEN))
            for number in (0, 2)
        )
    )
    seen = read(world, groups_source(world), stalls)
    both = Blocked((BlockedGroup("behind", 20), BlockedGroup("waiting", 20)), 2)
    assert seen.facts[BlockedGroups] == BlockedGroups(
        {TopicPartition("orders", 0): both, TopicPartition("orders", 2): Blocked((), 0)}
    )
    world.refuse["DescribeGroups"] = 30
    seen = read(world, groups_source(world), stalls)
    assert seen.facts[BlockedGroups] == BlockedGroups({TopicPartition("orders", 0): both})


def test_of_many_groups_those_with_most_withheld_everywhere_are_named_and_all_are_counted() -> None:
    world = held_world()
    for number in range(20):
        world.groups[f"g-{number:02}"] = FakeGroup({("orders", 0): 80})
    world.groups["z"] = FakeGroup({("orders", 0): 80, ("orders", 1): 80})
    stalls = Stalls(
        tuple(
            Stall(TopicPartition("orders", number), 0.0, 80, 100, 1, Blocker("", "", 7, 0, 80, BlockerKind.OPEN))
            for number in (0, 1)
        )
    )
    found = read(world, groups_source(world), stalls).facts[BlockedGroups]
    assert isinstance(found, BlockedGroups)
    first = found.by_partition[TopicPartition("orders", 0)]
    assert ([group.group for group in first.worst], first.total) == (["z", "g-00", "g-01", "g-02", "g-03"], 21)


def test_a_topic_that_was_read_to_its_end_has_no_lag_in_records_whatever_ends_it() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 79, ("orders", 1): 80})
    world.topics["orders"][0].batches = marker(79, 7)
    source = groups_source(world)
    seen = read(world, source)
    assert seen.values(LAG) == {("billing", "orders"): 1}
    assert seen.values(RECORDS) == {("billing", "orders"): 0}
    asked = sum(name == "Fetch" for _, name, _ in world.asked)
    assert read(world, source).values(RECORDS) == {("billing", "orders"): 0}
    assert sum(name == "Fetch" for _, name, _ in world.asked) == asked == 1


def test_the_lag_in_records_is_absent_where_one_partition_does_not_show_it() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 70, ("orders", 1): 80})
    world.groups["far"] = FakeGroup({("orders", 1): -30})
    world.topics["orders"][0].batches = data(70, 4, 7) + data(74, 5, 8) + marker(79, 8)
    world.topics["orders"][0].aborted = [(8, 74)]
    seen = read(world, groups_source(world))
    assert seen.values(RECORDS) == {("billing", "orders"): 4}
    world.topics["orders"][0].batches = b""
    assert read(world, groups_source(world)).values(RECORDS) == {}


def test_a_topic_that_may_not_be_read_is_no_fault_and_the_grant_is_named() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 79})
    world.refuse["Fetch"] = 29
    source = groups_source(world)
    for _ in range(2):
        seen = read(world, source)
        assert not seen.faults
        assert seen.values(RECORDS) == {}
        note = seen.facts[Notes]
        assert isinstance(note, Notes)
        assert "grant READ on Topic:orders" in note.notes[0]
    assert sum(name == "Fetch" for _, name, _ in world.asked) == 1
    world.refuse.clear()
    world.topics["orders"][0].batches = marker(79, 7)
    for _ in range(REFUSALS_KEPT):
        read(world, source)
    assert read(world, source).values(RECORDS) == {("billing", "orders"): 0}


def test_a_commit_beyond_the_last_stable_offset_is_no_negative_lag() -> None:
    world = held_world()
    world.groups["reader"] = FakeGroup({("orders", 0): 95, ("orders", 1): 70})
    assert read(world, groups_source(world)).values(LAG) == {("reader", "orders"): 10}


def test_offsets_of_topics_that_are_long_gone_are_no_fault_and_no_sample() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 80, ("gone", 0): 5})
    seen = read(world, groups_source(world))
    assert not seen.faults
    assert set(seen.values(LAG)) == {("billing", "orders")}


def test_a_topic_of_which_a_partition_did_not_answer_is_absent_not_smaller() -> None:
    world = held_world()
    world.topics["orders"][1].leader = None
    world.groups["billing"] = FakeGroup({("orders", 0): 80, ("orders", 1): 80})
    seen = read(world, groups_source(world))
    assert seen.reasons == {Reason.NO_LEADER}
    assert not seen.values(LAG)


def test_without_describe_on_groups_what_is_seen_is_given_and_the_grant_is_named() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 80})
    world.refuse["DescribeGroups"] = 30
    seen = read(world, groups_source(world))
    assert seen.reasons == {Reason.AUTHORIZATION}
    assert "DESCRIBE on Group:*" in seen.faults[0].detail
    assert set(seen.values(LAG)) == {("billing", "orders")}


def test_a_coordinator_that_is_loading_is_a_fault_and_it_recovers() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 80})
    world.refuse["OffsetFetch"] = 14
    source = groups_source(world)
    seen = read(world, source)
    assert seen.reasons == {Reason.COORDINATOR}
    assert not seen.values(LAG)
    world.refuse.clear()
    assert set(read(world, source).values(LAG)) == {("billing", "orders")}


def test_a_cluster_that_is_down_is_one_fault() -> None:
    world = held_world()
    world.down = {1}
    seen = read(world, groups_source(world))
    assert [fault.reason for fault in seen.faults] == [Reason.UNREACHABLE]
    assert seen.samples == []


def test_an_empty_cluster_has_no_groups_and_no_fault() -> None:
    assert read(FakeKafka(), groups_source(FakeKafka())).faults == []


def test_above_the_limit_only_included_groups_are_measured_and_the_others_counted() -> None:
    world = held_world()
    for number in range(6):
        world.groups[f"g-{number}"] = FakeGroup({("orders", 0): 80})
    seen = read(world, groups_source(world, include=("^g-1",), limit=5))
    assert set(seen.values(LAG)) == {("g-1", "orders")}
    assert {sample.labels: sample.value for sample in seen.samples if sample.metric is catalogue.SERIES_DROPPED} == {
        (LAG.name,): 5.0
    }


def test_no_group_is_said_to_wait_for_nothing_while_some_are_not_measured() -> None:
    world = held_world(3)
    world.groups["billing"] = FakeGroup({("orders", 2): 80})
    world.groups["other"] = FakeGroup({("orders", 0): 95})
    blocker = Blocker("", "", 7, 0, 80, BlockerKind.OPEN)
    stalls = Stalls((Stall(TopicPartition("orders", 2), 0.0, 80, 100, 1, blocker),))
    for limit, known in ((2, True), (1, False)):
        fact = read(world, groups_source(world, include=("^other",), limit=limit), stalls).facts[BlockedGroups]
        assert isinstance(fact, BlockedGroups)
        assert bool(fact.by_partition) is known


def test_ranges_that_are_too_long_to_count_do_not_keep_the_others_from_being_counted() -> None:
    world = held_world()
    world.topics["busy"] = [Partition(high_watermark=1000) for _ in range(MOST_PIECES)]
    world.groups["behind"] = FakeGroup({("busy", number): 0 for number in range(MOST_PIECES)})
    world.groups["billing"] = FakeGroup({("orders", 0): 79, ("orders", 1): 80})
    world.topics["orders"][0].batches = marker(79, 7)
    assert read(world, groups_source(world)).values(RECORDS) == {("billing", "orders"): 0}


@given(st.sets(st.text("abc-", min_size=1, max_size=4)), st.integers(0, 6))
def test_every_group_that_is_meant_is_chosen_or_counted(groups: set[str], limit: int) -> None:
    include, exclude = [BoundedPattern("a", "groups.include")], [BoundedPattern("c", "groups.exclude")]
    chosen, dropped = choose(sorted(groups), limit, include, exclude)
    meant = {group for group in groups if "c" not in group}
    assert set(chosen) <= meant
    assert len(chosen) + dropped == len(meant)
    assert len(meant) > limit or set(chosen) == meant


places = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 3))
offsets = st.dictionaries(places, st.integers(0, 50))


@given(offsets, offsets, offsets)
def test_sums_hold_over_whole_topics_only(
    committed: dict[TopicPartition, int], stable: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> None:
    ends = {partition: end for partition, end in ends.items() if partition in stable}
    given_ = {
        (sample.metric, sample.labels[2]): sample.value for sample in group_samples("c", "g", committed, stable, ends)
    }
    whole = {partition.topic for partition in committed} - {
        partition.topic for partition in committed if partition not in ends
    }
    assert {topic for _, topic in given_} == whole
    for topic in whole:
        mine = [partition for partition in committed if partition.topic == topic]
        assert given_[LAG, topic] == sum(max(0, stable[place] - committed[place]) for place in mine)
        assert given_[BLOCKED, topic] == sum(max(0, ends[place] - stable[place]) for place in mine)


def stalled(topic: str, partition: int) -> Stalls:
    blocker = Blocker("pay-1", "pay", 7, 0, 5, BlockerKind.OPEN)
    return Stalls((Stall(TopicPartition(topic, partition), 0.0, 5, 9, 1, blocker),))


def test_groups_wait_for_the_transaction_over_their_own_offsets_and_others_of_the_partition_do_not() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 70, ("orders", 1): 80}, unstable={("orders", 1)})
    world.groups["other"] = FakeGroup({("orders", 0): 70})
    seen = read(world, groups_source(world), stalled(OFFSETS, 0))
    assert not seen.faults
    assert seen.values(catalogue.GROUP_UNSTABLE_OFFSET_PARTITIONS) == {("billing", "orders"): 1}
    assert seen.facts[GroupsHeld] == GroupsHeld({TopicPartition(OFFSETS, 0): ("billing",)})


def test_no_group_is_asked_where_no_partition_of_the_offsets_topic_is_stalled() -> None:
    world = held_world()
    world.groups["billing"] = FakeGroup({("orders", 0): 70}, unstable={("orders", 0)})
    for facts in ((), (stalled("orders", 0),), (stalled(OFFSETS, 1),)):
        seen = read(world, groups_source(world), *facts)
        assert seen.values(catalogue.GROUP_UNSTABLE_OFFSET_PARTITIONS) == {}
        assert seen.facts[GroupsHeld] == GroupsHeld({})
    assert not any(request.require_stable for request in world.requests("OffsetFetch"))


# --- Kinds of groups ---


def world_with_each_kind() -> FakeKafka:
    world = held_world()
    world.groups = {
        "billing": FakeGroup({("orders", 0): 70}, {"b"}),
        "new": FakeGroup({("orders", 0): 80}, {"n1", "n2"}, "Consumer", ["orders"]),
        "flow": FakeGroup({}, {"f"}, "Streams"),
        "workers": FakeGroup({}, {"w1", "w2", "w3"}, "Share", ["orders", "jobs"]),
    }
    return world


def test_members_of_groups_of_the_newer_protocols_are_counted_by_kind() -> None:
    world = world_with_each_kind()
    seen = read(world, groups_source(world))
    assert not seen.faults
    assert seen.values(catalogue.GROUP_MEMBERS) == {
        ("new", "consumer"): 2,
        ("flow", "streams"): 1,
        ("workers", "share"): 3,
    }
    asked = [group.group_id for request in world.requests("OffsetFetch") for group in request.groups]
    assert "workers" not in asked  # a share group keeps no committed offsets


def test_a_kind_of_group_that_cannot_be_described_costs_the_others_nothing() -> None:
    world = world_with_each_kind()
    world.refuse["ShareGroupDescribe"] = 30
    seen = read(world, groups_source(world))
    assert seen.reasons == {Reason.AUTHORIZATION}
    assert set(seen.values(catalogue.GROUP_MEMBERS)) == {("new", "consumer"), ("flow", "streams")}
