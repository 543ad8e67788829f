"""Tests of which internal topics are not there, and of the brokers that are counted."""

from __future__ import annotations

import pytest

from exporter.core.replication import CONSUMER_OFFSETS, CREATION, TRANSACTION_STATE, UnmadeTopic
from exporter.kafka.requests.configs import unmade_topics
from exporter.model import Deadline, Fault, Reason
from tests.helpers.cluster import FakeKafka, Partition, world_of

FACTOR = CREATION[TRANSACTION_STATE].replication_factor


def look(world: FakeKafka, topic: str = TRANSACTION_STATE) -> UnmadeTopic | str | None:
    deadline = Deadline.after(1)
    client = world.cluster().client
    return unmade_topics(client, client.metadata(deadline, tuple(CREATION)), deadline).get(topic)


def without_log(factor: str = "3", brokers: int = 1) -> FakeKafka:
    world = world_of(log=0, offsets=1)
    world.brokers = {number: f"k{number}:9092" for number in range(1, brokers + 1)}
    world.settings = {str(node): {FACTOR: factor} for node in world.brokers}
    return world


def test_a_topic_that_is_there_is_not_among_them_and_nobody_is_asked() -> None:
    world = world_of(log=1, offsets=1)
    assert look(world) is None
    assert look(world, CONSUMER_OFFSETS) is None
    assert world.asked == []


@pytest.mark.parametrize(
    ("fenced", "refused", "brokers"), [(set(), {}, 1), ({2, 3}, {}, 3), ({2, 3}, {"DescribeCluster": 35}, 1)]
)
def test_brokers_that_are_down_count_where_the_cluster_shows_them(
    fenced: set[int], refused: dict[str, int], brokers: int
) -> None:
    world = without_log()
    world.fenced, world.refuse = fenced, refused
    plan = look(world)
    assert isinstance(plan, UnmadeTopic)
    assert (plan.brokers, plan.alive, bool(plan.obstacle)) == (brokers, 1, brokers < 3)
    assert [name for _, name, _ in world.asked] == ["DescribeCluster"]


def test_brokers_are_counted_only_where_too_few_serve() -> None:
    world = without_log(brokers=3)
    assert isinstance(look(world), UnmadeTopic)
    assert world.asked == []


@pytest.mark.parametrize("reason", [Reason.AUTHORIZATION, Reason.NO_LEADER])
def test_a_topic_that_is_hidden_or_being_made_is_not_absent(reason: Reason) -> None:
    world = without_log()
    world.hidden[TRANSACTION_STATE] = Fault(reason, "why")
    assert look(world) == "why"


def test_an_unknown_topic_and_one_without_partitions_are_absent() -> None:
    world = without_log(factor="1")
    world.hidden[TRANSACTION_STATE] = Fault(Reason.UNKNOWN_TOPIC, "why")
    assert isinstance(look(world), UnmadeTopic)
    world.hidden.clear()
    world.topics[TRANSACTION_STATE] = []
    assert isinstance(look(world), UnmadeTopic)
    world.topics[TRANSACTION_STATE] = [Partition()]
    assert look(world) is None
