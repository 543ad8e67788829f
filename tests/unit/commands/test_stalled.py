from __future__ import annotations

import pytest

from exporter.commands.stalled import SeenStalls, look_twice
from exporter.config import ConfigSource
from exporter.flink.facts import FlinkTransactions
from exporter.lso.next_step import next_step
from exporter.model import Deadline, TopicPartition
from exporter.views.transactions import stall_document
from exporter.words import BlockerKind
from tests.helpers.one_broker import NOW, OneBroker

ORDERS = TopicPartition("orders", 0)
SETTINGS = ConfigSource(None, {"KAFKA_EOS_CLUSTERS__0__KAFKA__BOOTSTRAP_SERVERS": "k1:9092"}).load().clusters[0]


def look(world: OneBroker, stall_after: float = 10.0) -> SeenStalls:
    return look_twice(world.cluster(), SETTINGS, stall_after, Deadline.after(30), world.sleep, world.reader)


def test_a_partition_that_does_not_move_between_two_looks_is_stalled_by_its_owner() -> None:
    world = OneBroker(opened={ORDERS: [(5, 3, 20.0)]}, known={"pay-1": (5, frozenset({ORDERS}))})
    [stall] = look(world).found
    assert (stall.partition, stall.last_stable_offset, stall.high_watermark) == (ORDERS, 3, 10)
    assert (stall.blocker.kind, stall.blocker.transactional_id) == (BlockerKind.OPEN, "pay-1")
    assert world.slept == [10.0]


def test_one_that_is_prepared_is_completing() -> None:
    world = OneBroker({ORDERS: [(5, 3, 20.0)]}, {"pay-1": (5, frozenset({ORDERS}))}, state="PrepareCommit")
    assert [stall.blocker.kind for stall in look(world).found] == [BlockerKind.COMPLETING]


def test_one_that_the_log_does_not_have_is_hanging_with_its_line() -> None:
    world = OneBroker({ORDERS: [(5, 3, 20.0)]})
    [stall] = look(world).found
    assert stall.blocker.kind is BlockerKind.HANGING
    assert next_step(stall, "k1:9092", 0.0).command is not None
    assert world.slept == [10.0, 30.1]


def test_one_that_no_coordinator_lists_is_named_by_the_log() -> None:
    world = OneBroker({ORDERS: [(5, 3, 20.0)]}, {"pay-1": (5, frozenset({ORDERS}))}, unlisted={"pay-1"})
    [stall] = look(world).found
    assert (stall.blocker.kind, stall.blocker.transactional_id) == (BlockerKind.OPEN, "pay-1")
    assert world.slept == [10.0]


def test_an_overdue_one_has_its_line_only_by_the_log() -> None:
    known = {"pay-1": (5, frozenset({ORDERS}))}
    for read_denied, stall_after in ((False, 80.0), (True, 80.0), (False, 70.0)):
        world = OneBroker({ORDERS: [(5, 3, 20.0)]}, known, read_denied=read_denied)
        [stall] = look(world, stall_after).found
        step = next_step(stall, "k1:9092", NOW)
        assert "should have ended it" in step.text
        assert (step.command is not None) == (not read_denied and stall_after > 75)


def test_it_is_not_overdue_while_its_coordinator_was_elected_after_it_began() -> None:
    """Before the watch, or in it: a coordinator ends nothing before it was elected, and may have another clock."""
    known = {"pay-1": (5, frozenset({ORDERS}))}
    for at_first, at_last in ((1, 1), (0, 1)):
        world = OneBroker({ORDERS: [(5, 3, 20.0)]}, known, leader_epoch=at_first)

        def sleep(seconds: float, world: OneBroker = world, at_last: int = at_last) -> None:
            world.sleep(seconds)
            world.leader_epoch = at_last

        [stall] = look_twice(world.cluster(), SETTINGS, 80.0, Deadline.after(30), sleep, world.reader).found
        step = next_step(stall, "k1:9092", NOW)
        assert step.command is None
        assert "its clock is not known" in step.text


def test_the_next_transaction_of_an_orphans_producer_is_not_overdue_when_it_began_in_the_watch() -> None:
    world = OneBroker({ORDERS: [(5, 3, 20.0)]})

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        world.known["pay-1"] = (5, frozenset({ORDERS}))

    [stall] = look_twice(world.cluster(), SETTINGS, 80.0, Deadline.after(30), sleep, world.reader).found
    assert (stall.blocker.kind, stall.blocker.transactional_id) == (BlockerKind.OPEN, "pay-1")
    assert next_step(stall, "k1:9092", NOW).command is None


def test_one_of_which_nothing_may_be_asked_is_unknown() -> None:
    for denied in ({"describe_denied": True}, {"read_denied": True}, {"unloaded": True}):
        seen = look(OneBroker({ORDERS: [(5, 3, 20.0)]}, **denied))  # type: ignore[arg-type]
        assert [stall.blocker.kind for stall in seen.found] == [BlockerKind.UNKNOWN], denied
        assert seen.found[0].blocker.missing
        assert next_step(seen.found[0], "k1:9092", NOW).command is None


def test_an_lso_that_moves_in_between_is_not_stalled() -> None:
    world = OneBroker(opened={ORDERS: [(5, 3, 20.0)]}, known={"pay-1": (5, frozenset({ORDERS}))})

    def sleep(seconds: float) -> None:
        world.sleep(seconds)
        world.opened[ORDERS] = [(5, 7, 0.0)]

    assert look_twice(world.cluster(), SETTINGS, 10.0, Deadline.after(30), sleep, world.reader).found == ()


def test_one_that_ends_while_the_log_is_read_is_not_stalled() -> None:
    for released in (False, True):
        world = OneBroker(opened={ORDERS: [(5, 3, 20.0)]}, known={"job-0-17": (5, frozenset({ORDERS}))})

        def rhythm(
            *_: object, world: OneBroker = world, released: bool = released
        ) -> tuple[FlinkTransactions, tuple[str, ...]]:
            if released:
                world.opened[ORDERS] = [(6, 7, 0.0)]
            return FlinkTransactions({}), ()

        seen = look_twice(world.cluster(), SETTINGS, 10.0, Deadline.after(30), world.sleep, world.reader, rhythm)
        assert len(seen.found) == (not released)
        assert seen.not_asked == ()


def test_without_an_open_transaction_one_look_is_enough() -> None:
    world = OneBroker()
    assert look(world).found == ()
    assert world.slept == []


def test_topics_that_may_not_be_described_are_not_without_a_stall() -> None:
    (text,) = look(OneBroker(topics_denied=True)).not_asked
    assert "grant READ on Topic:*" in text


def test_a_transaction_after_which_nothing_was_logged_has_no_age_of_zero() -> None:
    """It began 100 s ago by our clock, and its own record is the newest of the log."""
    known = {"pay-1": (5, frozenset({ORDERS}))}
    seen = look(OneBroker({ORDERS: [(5, 3, 20.0)]}, known, newest_ago=110.0))
    text = stall_document(seen.found[0], "k1:9092", NOW + 10.0, seen.time)["next_step"]["text"]
    assert "It is open since " in text
    assert "by its coordinator's clock" in text
    assert "at least" not in text


def test_a_step_is_made_by_the_coordinators_clock_and_not_by_one_that_is_ahead_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It began 100 s ago by our clock, and its timeout is 60 s."""
    known = {"pay-1": (5, frozenset({ORDERS}))}
    for newest_ago, late in ((95.0, False), (0.0, True)):
        seen = look(OneBroker({ORDERS: [(5, 3, 20.0)]}, known, newest_ago=newest_ago))
        text = stall_document(seen.found[0], "k1:9092", NOW + 10.0, seen.time)["next_step"]["text"]
        assert ("should have ended it" in text) is late
        assert ("It is open for at least 15s." in text) is not late
        assert ("in at most 55s" in text) is not late
        assert ("by this machine's clock" in capsys.readouterr().err) is not late
