"""A coordinator is proven to have loaded its partition only when it answers that it does not know a made-up id."""

from __future__ import annotations

import pytest

from exporter.kafka.ask import coordinator_partition
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.kafka.requests.transactions import ask_coordinators, made_up_ids, probe_coordinators
from exporter.model import Deadline, Reason
from tests.helpers.cluster import FakeKafka, FakeTransaction, Partition, world_of


def led_world(*leaders: int | None) -> FakeKafka:
    world = FakeKafka(brokers={1: "k1:9092", 2: "k2:9092"})
    world.topics[TRANSACTION_STATE] = [Partition(leader) for leader in leaders]
    return world


def probes(world: FakeKafka) -> tuple[frozenset[int], dict[int, str]]:
    found = probe_coordinators(world, world.metadata(Deadline.after(5), [TRANSACTION_STATE]), Deadline.after(5))
    return found.proven, found.unproven


@pytest.mark.parametrize("count", [1, 3, 50, 97])
def test_there_is_a_made_up_id_for_every_partition(count: int) -> None:
    assert [coordinator_partition(known_id, count) for known_id in made_up_ids(count)] == list(range(count))


def test_not_found_by_the_leader_of_each_partition_proves_them_all() -> None:
    assert probes(led_world(1, 2, 1)) == (frozenset({0, 1, 2}), {})


@pytest.mark.parametrize(("code", "name"), [(14, "LOAD_IN_PROGRESS"), (15, "NOT_AVAILABLE"), (16, "NOT_COORDINATOR")])
def test_a_coordinator_that_is_not_loaded_proves_nothing_and_says_why(code: int, name: str) -> None:
    world = led_world(1, 2, 1)
    world.unloaded = {1: code}
    proven, unproven = probes(world)
    assert proven == {0, 2}
    assert name in unproven[1]


def test_silence_and_a_missing_leader_prove_nothing() -> None:
    world = led_world(1, 2, None)
    world.down = {2}
    proven, unproven = probes(world)
    assert proven == {0}
    assert "broker 2 is down" in unproven[1]
    assert "COORDINATOR_NOT_AVAILABLE" in unproven[2]


def test_a_refusal_names_the_grant() -> None:
    world = led_world(1)
    world.refuse["DescribeTransactions"] = 53
    assert "grant DESCRIBE on TransactionalId:*" in probes(world)[1][0]


def test_an_id_that_somebody_has_made_proves_nothing() -> None:
    world = led_world(1)
    world.transactions[made_up_ids(1)[0]] = FakeTransaction(7, "Empty")
    proven, unproven = probes(world)
    assert proven == frozenset()
    assert "somebody uses the made-up id" in unproven[0]


def test_no_partition_is_asked_where_there_is_no_log() -> None:
    world = world_of(log=0, orders=1)
    assert probes(world) == (frozenset(), {})


def test_that_no_broker_lists_a_transaction_is_known_only_where_all_answered() -> None:
    world = FakeKafka(brokers={1: "r1:9092", 2: "r2:9092"}, elsewhere=True)
    assert ask_coordinators(world, Deadline.after(5), str).faults == ()
    world.transactions["pay-1"] = FakeTransaction(7)
    world.down = {1}
    asked = ask_coordinators(world, Deadline.after(5), str)
    assert (asked.transactions, [fault.reason for fault in asked.faults]) == ((), [Reason.UNREACHABLE])
