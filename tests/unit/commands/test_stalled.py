from __future__ import annotations

from exporter.commands.report import ClusterReport
from exporter.commands.stalled import look_twice
from exporter.config import ConfigSource
from exporter.model import BlockerKind, Deadline, Stall, TopicPartition
from tests.fakes.one_broker import World

ORDERS = TopicPartition("orders", 0)
SETTINGS = ConfigSource(None, {"KAFKA_EOS_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": "k1:9092"}).load().clusters[0]


def look(world: World) -> ClusterReport[Stall]:
    return look_twice(world.cluster(), SETTINGS, 10.0, Deadline.after(30), world.sleep)


def test_a_partition_that_stands_still_between_two_looks_is_stalled_by_its_owner() -> None:
    world = World(opened={ORDERS: [(5, 3, 20.0)]}, known={"pay-1": (5, frozenset({ORDERS}))})
    [stall] = look(world).found
    assert (stall.partition, stall.last_stable_offset, stall.high_watermark) == (ORDERS, 3, 10)
    assert (stall.blocker.kind, stall.blocker.transactional_id) == (BlockerKind.OPEN, "pay-1")
    assert world.slept == [10.0]


def test_one_that_is_prepared_is_completing() -> None:
    world = World({ORDERS: [(5, 3, 20.0)]}, {"pay-1": (5, frozenset({ORDERS}))}, state="PrepareCommit")
    assert [stall.blocker.kind for stall in look(world).found] == [BlockerKind.COMPLETING]


def test_one_that_nobody_knows_in_both_looks_is_hanging() -> None:
    assert [stall.blocker.kind for stall in look(World({ORDERS: [(5, 3, 20.0)]})).found] == [BlockerKind.HANGING]


def test_one_of_which_nothing_may_be_asked_is_unknown() -> None:
    seen = look(World({ORDERS: [(5, 3, 20.0)]}, describe_denied=True))
    assert [stall.blocker.kind for stall in seen.found] == [BlockerKind.UNKNOWN]
    assert seen.not_asked


def test_an_lso_that_moves_in_between_is_not_stalled() -> None:
    world = World(opened={ORDERS: [(5, 3, 20.0)]}, known={"pay-1": (5, frozenset({ORDERS}))})

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        world.opened[ORDERS] = [(5, 7, 0.0)]

    assert look_twice(world.cluster(), SETTINGS, 10.0, Deadline.after(30), sleep).found == ()


def test_without_an_open_transaction_one_look_is_enough() -> None:
    world = World()
    assert look(world).found == ()
    assert world.slept == []
