"""Tests of the groups whose offsets wait in stalled partitions of ``__consumer_offsets``."""

from __future__ import annotations

from exporter.commands.stalled import look_twice
from exporter.commands.waiting_groups import OwnOffsets, groups_of_offsets
from exporter.kafka.ask import coordinator_partition
from exporter.model import Deadline, TopicPartition
from tests.helpers.cluster import OFFSETS, FakeGroup, FakeKafka, world_of
from tests.helpers.one_broker import OneBroker
from tests.unit.commands.test_stalled import SETTINGS

PARTITIONS = 8
NAMES = ("billing", "search", "mail", "audit", "stock")


def world() -> FakeKafka:
    """Groups of which every second has an offset in an open transaction."""
    found = world_of(log=1, offsets=PARTITIONS)
    for number, name in enumerate(NAMES):
        committed = {("orders", 0): 5}
        found.groups[name] = FakeGroup(committed, unstable=[("orders", 0)] if number % 2 == 0 else [])
    return found


def place_of(name: str) -> TopicPartition:
    return TopicPartition(OFFSETS, coordinator_partition(name, PARTITIONS))


def ask(kafka: FakeKafka, *places: TopicPartition) -> OwnOffsets:
    return groups_of_offsets(kafka.cluster(), set(places), Deadline.after(5))


def test_groups_whose_offsets_are_in_an_open_transaction_are_named_by_their_partition() -> None:
    kafka = world()
    found = ask(kafka, *(TopicPartition(OFFSETS, number) for number in range(PARTITIONS)))
    assert found.missing == ()
    named = {(place, name) for place, names in found.groups.items() for name in names}
    assert named == {(place_of(name), name) for name in NAMES[::2]}


def test_only_the_partitions_that_stand_are_asked_about() -> None:
    kafka = world()
    found = ask(kafka, place_of("billing"), TopicPartition("orders", 0))
    assert "billing" in found.groups[place_of("billing")]
    assert found.groups.keys() == {place_of("billing")}
    kafka.asked.clear()
    assert ask(kafka, TopicPartition("orders", 0)) == OwnOffsets({})
    assert kafka.asked == []


def test_what_could_not_be_asked_is_said() -> None:
    kafka = world()
    kafka.down = {1}
    assert ask(kafka, place_of("billing")) == OwnOffsets({}, ("no broker answers",))


def test_a_stall_of_a_data_topic_asks_no_group() -> None:
    orders = TopicPartition("orders", 0)
    one = OneBroker(opened={orders: [(5, 3, 20.0)]}, known={"pay-1": (5, frozenset({orders}))})
    report = look_twice(one.cluster(), SETTINGS, 10.0, Deadline.after(30), one.sleep, one.reader)
    assert len(report.found) == 1
    assert report.groups == {}
