"""Decisions compared with markers as they come: what is reported, when, and what ends it."""

from __future__ import annotations

from exporter.kafka.log.control import Marker
from exporter.model import TopicPartition
from exporter.transactions.decided.marker_watch import CONFIRM_SECONDS, HOUR, KEPT_MS, WAIT_SECONDS, MarkerWatch
from exporter.transactions.decided.recent_decisions import RecentDecisions
from exporter.transactions.decided.torn import Decision
from exporter.words import FoundMarker

A, B = TopicPartition("orders", 0), TopicPartition("payments", 1)
BEGUN = 1_000_000


class WatchedPartitions:
    """A watch, the decisions that the tail hands over, and the markers that are written."""

    def __init__(self) -> None:
        self.watch = MarkerWatch()
        self.now = 100.0
        self.decided: list[Decision] = []
        self.offset = 0
        for place in (A, B):
            self.watch.follow(place, 0, 0, cut=False)

    def decide(self, epoch: int, *places: TopicPartition, commit: bool = True, at: int = 0) -> Decision:
        """A transaction of Transactions V2, whose records have this epoch, and its markers the next one."""
        begun = BEGUN + at
        times = begun, begun + 10, begun + 20
        one = Decision(
            "pay-1", 7, commit, frozenset({epoch + 1}), frozenset({epoch}), *times, frozenset(places), v2=True
        )
        self.decided.append(one)
        return one

    def mark(self, place: TopicPartition, epoch: int, *, commit: bool = True, at: int = 0) -> None:
        self.offset += 1
        self.watch.followed[place].markers.append(Marker(self.offset, BEGUN + at + 15, 7, epoch, commit, 1))

    def read(self, *reached: TopicPartition, later: float = 10.0) -> list[tuple[str, TopicPartition, FoundMarker]]:
        self.now += later
        self.watch.note(RecentDecisions(0, (self.decided,)), self.now, lambda _: True)
        self.watch.compare(frozenset(reached or (A, B)), self.now)
        return [(torn.torn.decision.transactional_id, torn.torn.partition, torn.found) for torn in self.watch.found]


def test_a_marker_in_every_partition_is_no_finding_and_counted_as_compared() -> None:
    world = WatchedPartitions()
    world.decide(3, A, B)
    world.mark(A, 4)
    world.mark(B, 4)
    assert world.read() == []
    assert (world.watch.compared, world.watch.not_compared) == (1, 0)
    assert world.watch.wanted() == {}


def test_a_lost_marker_is_found_at_the_second_read_and_followed_until_the_next_commit_releases_it() -> None:
    world = WatchedPartitions()
    world.decide(3, A, B)
    world.mark(B, 4)
    assert world.read() == []
    assert world.read(later=CONFIRM_SECONDS) == [("pay-1", A, FoundMarker.NOTHING)]
    assert list(world.watch.wanted()) == [A]
    assert world.read(later=2 * HOUR) == [("pay-1", A, FoundMarker.NOTHING)]
    world.mark(A, 5, at=60_000)
    assert world.read() == []


def test_a_marker_that_comes_between_two_reads_is_no_finding() -> None:
    world = WatchedPartitions()
    world.decide(3, A)
    assert world.read() == []
    world.mark(A, 4)
    assert world.read(later=CONFIRM_SECONDS) == []
    assert world.watch.compared == 1


def test_a_lost_marker_that_the_next_commit_made_up_for_before_the_read_is_no_finding() -> None:
    world = WatchedPartitions()
    world.decide(3, A)
    world.decide(4, A, at=100)
    world.mark(A, 5, at=100)
    assert world.read() == []
    assert world.read(later=CONFIRM_SECONDS) == []


def test_a_lost_commit_whose_records_the_next_abort_ended_is_found_for_an_hour() -> None:
    world = WatchedPartitions()
    world.decide(3, A)
    world.decide(4, A, commit=False, at=100)
    world.mark(A, 5, commit=False, at=100)
    assert world.read() == [("pay-1", A, FoundMarker.ABORT)]
    assert world.read(later=HOUR - 20) == [("pay-1", A, FoundMarker.ABORT)]
    assert world.read(later=100) == []


def test_an_abort_by_hand_into_an_open_transaction_that_commits_is_found() -> None:
    world = WatchedPartitions()
    world.decide(3, A)
    world.mark(A, 3, commit=False)
    world.mark(A, 4)
    assert world.read() == []
    assert world.read(later=CONFIRM_SECONDS) == [("pay-1", A, FoundMarker.ABORT)]


def test_the_abort_of_the_transaction_before_it_is_no_finding_though_that_one_is_not_known() -> None:
    world = WatchedPartitions()
    world.mark(A, 3, commit=False, at=-5_000)
    world.decide(3, A)
    world.mark(A, 4)
    assert world.read() == []
    assert world.read(later=CONFIRM_SECONDS) == []


def test_a_decision_whose_partition_is_not_read_is_given_up_and_counted() -> None:
    world = WatchedPartitions()
    world.decide(3, A, B)
    world.mark(B, 4)
    assert world.read(B) == []
    assert world.read(B, later=WAIT_SECONDS + 1) == []
    assert (world.watch.compared, world.watch.not_compared) == (0, 1)


def test_partitions_of_topics_that_are_not_watched_are_left_out() -> None:
    watch = MarkerWatch()
    one = frozenset({4})
    decision = Decision("pay-1", 7, True, one, one, BEGUN, BEGUN, BEGUN, frozenset({A, B}), True)
    watch.note(RecentDecisions(0, ((decision,),)), 1.0, lambda topic: topic == "orders")
    assert list(watch.wanted()) == [A]


def test_decisions_that_came_too_fast_to_be_handed_on_count_as_not_compared() -> None:
    world = WatchedPartitions()
    world.read()
    world.watch.note(RecentDecisions(40, ()), world.now, lambda _: True)
    assert world.watch.not_compared == 40


def test_a_transaction_from_before_the_markers_that_are_kept_is_not_compared() -> None:
    world = WatchedPartitions()
    world.decide(3, A, B)
    world.mark(A, 4)
    world.mark(B, 4)
    world.decide(9, B, at=KEPT_MS + 10_000)
    world.mark(B, 10, at=KEPT_MS + 10_000)
    assert world.read(B) == []
    assert world.read(later=CONFIRM_SECONDS) == []
    assert world.read(later=CONFIRM_SECONDS) == []
    assert (world.watch.compared, world.watch.not_compared) == (1, 1)


def test_a_partition_is_read_again_for_a_transaction_from_before_it_was_followed() -> None:
    world = WatchedPartitions()
    world.watch.follow(A, 5, BEGUN + 60_000, cut=False)
    world.decide(3, A)
    assert world.read(B) == []
    assert A not in world.watch.followed
    assert world.watch.wanted() == {A: BEGUN}


def test_a_partition_that_was_not_read_for_an_hour_takes_no_memory() -> None:
    world = WatchedPartitions()
    world.watch.read_at = {A: world.now, B: world.now + HOUR}
    world.read(B, later=HOUR + 1)
    assert set(world.watch.followed) == set(world.watch.read_at) == {B}
