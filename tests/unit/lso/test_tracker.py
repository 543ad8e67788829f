"""The state between two reads, in cases that the source's tests do not reach."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.lso.facts import Stall
from exporter.lso.rules import Coordinators, LogProducer, Replication
from exporter.lso.stalled import StalledPartitions
from exporter.lso.tracker import StallTracker
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import BlockerKind, TransactionState

PLACE = TopicPartition("orders", 3)
NOBODY = Coordinators({})
NOW, WALL = 1000.0, 1_790_000_000.0


def watching(monotonic: float = NOW, wall: float = WALL) -> StallTracker:
    watch = StallTracker(30.0)
    watch.date(monotonic, wall)
    return watch


def test_what_is_remembered_comes_back_as_it_was() -> None:
    watch = watching()
    watch.look(PLACE, 5, 9, NOW)
    again = watching(10.0, WALL + 60)
    again.remember(watch.memory())
    assert watch.memory()["orders"] == {"3": [5, WALL, ""]}
    assert again.memory()["orders"] == {"3": [5, WALL, "", True]}  # without a boot it is known as Unix time only
    again.look(PLACE, 5, 9, 10.0)
    (stall,) = StalledPartitions(again).of(NOBODY, None, {})
    assert (stall.since, stall.blocker.kind) == (WALL, BlockerKind.UNKNOWN)


documents = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=3) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.dictionaries(st.text(max_size=3), documents))
def test_whatever_the_state_holds_nothing_breaks(document: dict[str, object]) -> None:
    watch = watching()
    watch.remember(document)
    watch.look(PLACE, 5, 9, NOW)
    assert PLACE in watch.standing


def test_a_remembered_stall_is_unread_until_its_partition_answers() -> None:
    watch = watching()
    watch.remember({"orders": {"3": [4, WALL - 600, ""]}})
    assert watch.unread == {PLACE}
    watch.look(PLACE, 4, 9, NOW)
    assert not watch.unread


def test_a_remembered_stall_of_an_lso_that_moved_is_forgotten() -> None:
    watch = watching()
    watch.remember({"orders": {"3": [4, WALL - 600, ""]}})
    watch.look(PLACE, 5, 9, NOW)
    assert list(StalledPartitions(watch).of(NOBODY, None, {})) == []
    assert watch.memory()["orders"] == {"3": [5, WALL, ""]}


@pytest.mark.parametrize("moved", [(6, 9), (9, 9)])
def test_when_the_lso_moves_what_was_known_of_its_holder_goes(moved: tuple[int, int]) -> None:
    watch = watching()
    watch.look(PLACE, 5, 9, NOW)
    watch.described(PLACE, (LogProducer(7, 0, 5),))
    watch.look(PLACE, *moved, NOW + 40)
    assert watch.unknown_to(NOBODY) == {}


def test_all_open_transactions_of_a_partition_without_a_coordinator_are_given_and_one_is_named() -> None:
    watch = watching()
    producers = (LogProducer(7, 0, 5), LogProducer(8, 0, 7))
    for now in (NOW, NOW + 30):
        watch.look(PLACE, 5, 9, now)
        watch.described(PLACE, producers)
    assert watch.unknown_to(NOBODY) == {PLACE: producers}
    (stall,) = StalledPartitions(watch).of(NOBODY, None, {PLACE: Replication(2, (1, 2), (1, 2), None)})
    assert (stall.blocker.producer_id, stall.blocker.kind, stall.leader) == (7, BlockerKind.UNKNOWN, 2)


def test_a_description_that_comes_too_late_is_dropped() -> None:
    watch = watching()
    watch.described(PLACE, (LogProducer(7, 0, 5),))
    assert watch.unknown_to(NOBODY) == {}


def test_a_partition_that_gave_no_answer_this_time_is_unasked_and_says_why() -> None:
    watch = watching()
    for now, producers in ((NOW, (LogProducer(7, 0, 5),)), (NOW + 30, None)):
        watch.look(PLACE, 5, 9, now)
        watch.described(PLACE, producers, None if producers else "READ is refused")
    assert watch.producers.unasked() == {PLACE}
    (stall,) = StalledPartitions(watch).of(NOBODY, None, {})
    assert (stall.blocker.kind, stall.blocker.missing) == (BlockerKind.UNKNOWN, ("READ is refused",))


HELD = LogProducer(7, 0, 5)


def stall_of(watch: StallTracker, coordinators: Coordinators = NOBODY) -> Stall:
    (stall,) = StalledPartitions(watch).of(coordinators, None, {})
    return stall


def test_a_holder_whose_records_are_deleted_holds_since_it_was_first_seen_wherever_the_lso_goes() -> None:
    watch = watching()
    for turn, lso in enumerate((5, 5, 8, 20, 20, 33)):
        now = NOW + 20 * turn
        watch.look(PLACE, lso, 40, now)
        watch.described(PLACE, (LogProducer(9, 0, 34), HELD))
    stall = stall_of(watch)
    assert (stall.since, stall.last_stable_offset, stall.blocker.start_offset) == (WALL, 33, 5)
    assert stall.blocker.producer_id == 7


def test_an_lso_that_moves_to_another_holder_stands_since_then() -> None:
    watch = watching()
    watch.look(PLACE, 5, 40, NOW)
    watch.described(PLACE, (HELD,))
    watch.look(PLACE, 8, 40, NOW + 40)
    watch.described(PLACE, (LogProducer(7, 0, 8),))
    assert list(StalledPartitions(watch).of(NOBODY, None, {})) == []
    watch.look(PLACE, 8, 40, NOW + 70)
    assert stall_of(watch).since == WALL + 40


def test_until_the_producers_are_asked_again_a_moved_lso_is_no_stall_and_nothing_of_its_holder_is_lost() -> None:
    watch = watching()
    for now in (NOW, NOW + 30):
        watch.look(PLACE, 5, 40, now)
        watch.described(PLACE, (HELD,))
    watch.look(PLACE, 8, 40, NOW + 35)
    watch.described(PLACE, None, "the broker is down")
    assert watch.unknown_to(NOBODY) == {}
    assert list(StalledPartitions(watch).of(NOBODY, None, {})) == []
    watch.look(PLACE, 8, 40, NOW + 40)
    watch.described(PLACE, (HELD,))
    assert (stall_of(watch).since, stall_of(watch).blocker.producer_id) == (WALL, 7)


def test_a_holder_is_known_again_after_a_restart_though_the_lso_moved_meanwhile() -> None:
    watch = watching()
    watch.identify({"orders": "id-1"})
    watch.look(PLACE, 5, 40, NOW)
    watch.described(PLACE, (HELD,))
    assert watch.memory()["orders"] == {"3": [5, WALL, "id-1", 7, 5]}
    again = watching(10.0, WALL + 600)
    again.identify({"orders": "id-1"})
    again.remember(json.loads(json.dumps(watch.memory())))
    again.look(PLACE, 12, 40, 10.0)
    assert PLACE in again.to_describe({PLACE}, NOBODY)
    again.described(PLACE, (HELD,))
    assert stall_of(again).since == WALL


@pytest.mark.parametrize(("before", "now", "inherits"), [("a", "b", False), ("a", "a", True), ("", "b", True)])
def test_a_topic_made_again_at_the_same_lso_does_not_inherit_a_stall_over_a_restart(
    before: str, now: str, *, inherits: bool
) -> None:
    watch = watching()
    watch.remember({"orders": {"3": [5, WALL - 600, before, 7, 5]}})
    watch.identify({"orders": now})
    watch.look(PLACE, 5, 9, NOW)
    watch.described(PLACE, (HELD,))
    assert (len(list(StalledPartitions(watch).of(NOBODY, None, {}))) == 1) == inherits


def test_a_topic_made_again_begins_anew_while_it_is_watched() -> None:
    watch = watching()
    watch.identify({"orders": "a", "other": "x"})
    watch.look(PLACE, 5, 9, NOW)
    watch.described(PLACE, (HELD,))
    assert watch.identify({"orders": "b"}) == {PLACE}
    watch.look(PLACE, 5, 9, NOW + 60)
    watch.described(PLACE, (HELD,))
    assert list(StalledPartitions(watch).of(NOBODY, None, {})) == []


def test_a_stall_that_is_dated_by_its_holder_keeps_that_date_over_a_restart_and_when_the_holder_is_unknown() -> None:
    watch = watching()
    for now in (NOW, NOW + 30):
        watch.look(PLACE, 5, 9, now)
        watch.described(PLACE, (LogProducer(7, 0, 5),))
    opened = OpenTransaction("pay-1", "pay", 7, 0, TransactionState.ONGOING, WALL - 50, 60.0, None, frozenset({PLACE}))
    (told,) = StalledPartitions(watch).of(Coordinators({7: opened}), None, {})
    assert told.since == WALL - 50
    (unknown,) = StalledPartitions(watch).of(NOBODY, None, {})
    assert unknown.since == WALL - 50
    again = watching(NOW + 40, WALL + 40)
    again.remember(watch.memory())
    again.look(PLACE, 5, 9, NOW + 40)
    (after,) = StalledPartitions(again).of(NOBODY, None, {})
    assert (after.since, after.blocker.kind) == (WALL - 50, BlockerKind.UNKNOWN)


def test_a_stall_that_a_process_with_a_wrong_clock_dated_by_its_holder_is_as_old_as_its_holder() -> None:
    wrong = StallTracker(30.0)
    wrong.date(NOW, WALL + 67, boot="b")
    for now in (NOW, NOW + 30):
        wrong.look(PLACE, 5, 9, now)
        wrong.described(PLACE, (LogProducer(7, 0, 5),))
    opened = OpenTransaction("pay-1", "pay", 7, 0, TransactionState.ONGOING, WALL - 5, 60.0, None, frozenset({PLACE}))
    list(StalledPartitions(wrong).of(Coordinators({7: opened}), None, {}))
    right = StallTracker(30.0)
    right.date(NOW + 40, WALL + 40, boot="b")
    right.remember(wrong.memory())
    right.look(PLACE, 5, 9, NOW + 40)
    (after,) = StalledPartitions(right).of(NOBODY, None, {})
    assert after.since == WALL - 5


def test_the_next_transaction_of_its_producer_does_not_make_a_stall_begin_again() -> None:
    """The marker of the transaction that holds the partition was dropped, and an older client keeps its epoch."""
    watch = watching()
    for now in (NOW, NOW + 30):
        watch.look(PLACE, 5, 9, now)
        watch.described(PLACE, (HELD,))
    opened = OpenTransaction("pay-1", "pay", 7, 0, TransactionState.ONGOING, WALL - 50, 60.0, None, frozenset({PLACE}))
    stalls = StalledPartitions(watch)
    (told,) = stalls.of(Coordinators({7: opened}), None, {})
    watch.look(PLACE, 5, 12, NOW + 40)
    (after,) = stalls.of(Coordinators({7: opened._replace(started=WALL + 35)}), None, {})
    assert told.since == after.since == WALL - 50


def test_a_stall_that_was_saved_by_a_clock_that_was_never_checked_is_as_old_as_its_holder() -> None:
    watch = watching(wall=WALL - 67)
    watch.look(PLACE, 5, 9, NOW)
    again = watching(10.0, WALL + 60)
    again.remember(watch.memory())
    for now in (10.0, 40.0):
        again.look(PLACE, 5, 9, now)
        again.described(PLACE, (HELD,))
    opened = OpenTransaction("pay-1", "pay", 7, 0, TransactionState.ONGOING, WALL - 5, 60.0, None, frozenset({PLACE}))
    assert stall_of(again, Coordinators({7: opened})).since == WALL - 5


def test_a_stall_that_is_dated_by_its_holder_keeps_that_date_when_records_are_deleted() -> None:
    watch = watching()
    opened = OpenTransaction("pay-1", "pay", 7, 0, TransactionState.ONGOING, WALL - 50, 60.0, None, frozenset({PLACE}))
    since = []
    for now, offset in ((NOW, 5), (NOW + 30, 5), (NOW + 31, 6)):
        watch.look(PLACE, offset, 9, now)
        watch.described(PLACE, (LogProducer(7, 0, 5),))
        since += [stall.since for stall in StalledPartitions(watch).of(Coordinators({7: opened}), None, {})]
    assert since == [WALL - 50] * 2


def test_a_partition_whose_holder_has_ended_is_described_no_earlier_than_one_that_had_none() -> None:
    watch, other = watching(), PLACE._replace(partition=4)
    watch.look(PLACE, 5, 9, NOW)
    watch.described(PLACE, (HELD,))
    for end, now in ((10, NOW + 5), (12, NOW + 10)):
        for place in (PLACE, other):
            watch.look(place, 10, end, now)
    assert watch.to_describe({PLACE, other}, NOBODY) == []


def test_a_holder_is_asked_for_again_while_its_end_is_decided_and_not_while_it_is_open() -> None:
    watch = watching()
    watch.look(PLACE, 5, 9, NOW)
    watch.described(PLACE, (HELD,))
    for state in TransactionState:
        who = OpenTransaction("app-7", "app", 7, 0, state, WALL, 60.0, None, frozenset({PLACE}))
        asked = watch.to_describe(set(), Coordinators.of([who]))
        assert bool(asked) == (state is not TransactionState.ONGOING)


def stall_after_an_outage(before: tuple[int, int], started: float) -> Stall:
    """Return the stall of a partition that was read at NOW, was lost, and has an LSO of 5 again from NOW + 60 on."""
    watch = watching()
    watch.look(PLACE, *before, NOW)
    watch.lose([PLACE])
    watch.lose([PLACE])
    for now in (NOW + 60, NOW + 100):
        watch.look(PLACE, 5, 9, now)
        watch.described(PLACE, (LogProducer(7, 0, 5),))
    opened = OpenTransaction("app-1", "app", 7, 0, TransactionState.ONGOING, started, 60.0, None, frozenset({PLACE}))
    (stall,) = StalledPartitions(watch).of(Coordinators({7: opened}), None, {})
    return stall


@pytest.mark.parametrize("before", [(3, 4), (3, 3), (5, 5)])
def test_a_stall_of_an_outage_is_no_older_than_the_last_read_that_found_the_partition_otherwise(
    before: tuple[int, int],
) -> None:
    assert stall_after_an_outage(before, WALL - 600).since == WALL
    assert stall_after_an_outage(before, WALL + 20).since == WALL + 20


def test_a_stall_that_an_outage_interrupts_is_as_old_as_it_was() -> None:
    assert stall_after_an_outage((5, 8), WALL + 0.0).since == WALL


# --- What is made again ---

PLACES = tuple(TopicPartition("orders", number) for number in range(3))
OWNERS = tuple(
    Coordinators.of(
        (
            OpenTransaction(
                "pay-1", "pay", 7, 0, TransactionState.ONGOING, started, 60.0, None, frozenset((*PLACES, PLACE))
            ),
        )
    )
    for started in (None, WALL - 5.0, WALL + 25.0)
)
turns = st.lists(
    st.tuples(
        st.sampled_from((5.0, 5.0, 31.0)),
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.booleans()), min_size=3, max_size=3),
        st.sampled_from(("", "", "", "describe", "refuse", "lose", "forget", "clock")),
        st.integers(0, 3),
    ),
    max_size=14,
)


@given(turns)
def test_stalls_that_are_kept_are_those_that_would_be_made(
    script: list[tuple[float, list[tuple[int, int, bool]], str, int]],
) -> None:
    """Two trackers see the same; one makes its stalls anew at each read."""
    kept, anew = watching(), watching()
    stalled = StalledPartitions(kept)
    now, wall = NOW, WALL
    ends = {place: [0, 0] for place in PLACES}
    replication: dict[TopicPartition, Replication] = {}
    for seconds, moves, event, owner in script:
        now, wall = now + seconds, wall + seconds + (3.0 if event == "clock" else 0.0)
        for place, (stable, more, _) in zip(PLACES, moves, strict=True):
            ends[place][1] += more
            ends[place][0] = min(ends[place][1], ends[place][0] + stable)
        answered = [place for place, (*_, answers) in zip(PLACES, moves, strict=True) if answers]
        for watch in (kept, anew):
            watch.date(now, wall, ahead=0.0)
            if event in ("lose", "forget"):
                getattr(watch, event)([PLACES[0]])
            stable_ends, high = ({place: ends[place][which] for place in answered} for which in (0, 1))
            watch.look_at_all(stable_ends, high, now, now - 0.1)
            if event in ("describe", "refuse"):
                holding = LogProducer(7, 0, ends[PLACES[1]][0])
                watch.described(PLACES[1], (holding,) if event == "describe" else None, "refused")
        coordinators = NOBODY if owner == len(OWNERS) else OWNERS[owner]
        made = StalledPartitions(anew).of(coordinators, None, replication)
        assert stalled.of(coordinators, None, replication) == made
        assert kept.standing == anew.standing
        instants = [state.seen + 30.0 for state in kept.standing.values()]
        expected = max((instant for instant in instants if now < instant <= now + 40.0), default=None)
        assert kept.due(now, now + 40.0) == pytest.approx(expected)


def test_stalls_are_the_same_list_until_one_more_is_due() -> None:
    watch, replication = watching(), dict[TopicPartition, Replication]()
    stalled = StalledPartitions(watch)
    other = PLACE._replace(partition=4)

    def read(after: float, high: int = 9) -> list[Stall]:
        watch.look_at_all({PLACE: 5, other: 7}, {PLACE: high, other: 9}, NOW + after, NOW + after)
        return stalled.of(OWNERS[0], None, replication)

    watch.look(PLACE, 5, 9, NOW)
    watch.look(other, 6, 9, NOW)
    assert read(5.0) == []
    first = read(30.0)
    assert [stall.partition for stall in first] == [PLACE]
    assert read(34.0) is first
    assert [stall.partition for stall in read(35.0)] == [PLACE, other]
    assert [stall.high_watermark for stall in read(36.0, high=12)] == [12, 9]
    watch.described(PLACE, (HELD,))
    assert read(37.0, high=12)[0].blocker.kind is BlockerKind.OPEN
    assert stalled.of(NOBODY, None, replication)[0].blocker.kind is BlockerKind.UNKNOWN
    assert read(38.0, high=12)[0].blocker.kind is BlockerKind.OPEN


def test_a_stall_that_is_made_again_and_equal_is_the_same_object() -> None:
    watch, replication = watching(), dict[TopicPartition, Replication]()
    stalled = StalledPartitions(watch)
    watch.look(PLACE, 5, 9, NOW)
    watch.look_at_all({PLACE: 5}, {PLACE: 9}, NOW + 30.0, NOW + 30.0)
    (first,) = stalled.of(NOBODY, None, replication)
    watch.described(PLACE, None, "refused")
    (second,) = stalled.of(NOBODY, None, replication)
    assert second != first
    watch.described(PLACE, None, "refused")
    assert stalled.of(NOBODY, None, replication)[0] is second
