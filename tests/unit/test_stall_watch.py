"""The memory between two looks, in cases that the source's tests do not reach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.lso.rules import Coordinators, LogProducer
from exporter.lso.tracker import StallWatch
from exporter.model import BlockerKind, TopicPartition

PLACE = TopicPartition("orders", 3)
NOBODY = Coordinators({})
NOW, WALL = 1000.0, 1_790_000_000.0


def test_what_is_remembered_comes_back_as_it_was() -> None:
    watch = StallWatch(30.0)
    watch.look(PLACE, 5, 9, NOW, WALL)
    again = StallWatch(30.0)
    again.remember(watch.memory())
    assert again.memory() == watch.memory() == {"orders": {"3": [5, WALL]}}
    again.look(PLACE, 5, 9, 10.0, WALL + 60)
    (stall,) = again.stalls(NOBODY, None, {})
    assert (stall.since, stall.blocker.kind) == (WALL, BlockerKind.UNKNOWN)


documents = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=3) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.dictionaries(st.text(max_size=3), documents))
def test_whatever_the_state_holds_nothing_breaks(document: dict[str, object]) -> None:
    watch = StallWatch(30.0)
    watch.remember(document)
    watch.look(PLACE, 5, 9, NOW, WALL)
    assert PLACE in watch.standing


def test_a_remembered_stall_of_an_lso_that_moved_is_forgotten() -> None:
    watch = StallWatch(30.0)
    watch.remember({"orders": {"3": [4, WALL - 600]}})
    watch.look(PLACE, 5, 9, NOW, WALL)
    assert list(watch.stalls(NOBODY, None, {})) == []
    assert watch.memory() == {"orders": {"3": [5, WALL]}}


@pytest.mark.parametrize("moved", [(6, 9), (9, 9)])
def test_when_the_lso_moves_what_was_known_of_its_holder_goes(moved: tuple[int, int]) -> None:
    watch = StallWatch(30.0)
    watch.look(PLACE, 5, 9, NOW, WALL)
    watch.described(PLACE, (LogProducer(7, 0, 5, None),))
    watch.cross_check(NOBODY)
    watch.look(PLACE, *moved, NOW + 40, WALL + 40)
    assert watch.strangers(NOBODY) == set()
    assert watch.hanging(PLACE, NOBODY) == frozenset()


def test_several_hanging_transactions_of_one_partition_are_all_counted_and_one_is_named() -> None:
    watch = StallWatch(30.0)
    producers = (LogProducer(7, 0, 5, None), LogProducer(8, 0, 7, None))
    for now in (NOW, NOW + 30):
        watch.look(PLACE, 5, 9, now, WALL + now - NOW)
        watch.described(PLACE, producers)
        watch.cross_check(NOBODY)
    assert watch.hanging(PLACE, NOBODY) == {7, 8}
    (stall,) = watch.stalls(NOBODY, None, {PLACE: 2})
    assert (stall.blocker.producer_id, stall.blocker.kind, stall.leader) == (7, BlockerKind.HANGING, 2)


def test_a_description_that_comes_too_late_is_dropped() -> None:
    watch = StallWatch(30.0)
    watch.described(PLACE, (LogProducer(7, 0, 5, None),))
    assert watch.strangers(NOBODY) == set()


def test_what_hung_is_not_claimed_to_hang_where_the_producers_gave_no_answer_this_time() -> None:
    watch = StallWatch(30.0)
    for now, producers in ((NOW, (LogProducer(7, 0, 5, None),)), (NOW + 30, None)):
        watch.look(PLACE, 5, 9, now, WALL + now - NOW)
        watch.described(PLACE, producers, None if producers else "READ is refused")
        watch.cross_check(NOBODY)
    assert watch.hanging(PLACE, NOBODY) == frozenset()
    assert not watch.answerable(PLACE, NOBODY)
    (stall,) = watch.stalls(NOBODY, None, {})
    assert (stall.blocker.kind, stall.blocker.missing) == (BlockerKind.UNKNOWN, ("READ is refused",))
