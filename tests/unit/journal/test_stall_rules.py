"""Stalls as events: begun, named, proven, ended and how; and what a reading does not know."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporter.core.source_state import SourceState
from exporter.groups.facts import GroupsHeld
from exporter.journal.documents import EventDocument
from exporter.journal.facts import MOST_PARTITIONS, Event, LastReads
from exporter.journal.stall_rules import SETTLE_SECONDS, StallRules
from exporter.lso.facts import Blocker, Stall, Stalls, StallWatch
from exporter.model import Fact, TopicPartition
from exporter.transactions.facts import CoordinatorTime
from exporter.transactions.recent import Newest, Recent
from exporter.words import BlockerKind, EventKind, Outcome, StallEnd
from tests.helpers.calls import calls_of
from tests.helpers.journal_events import read_back
from tests.helpers.transactions import decision_of

NOW = 1_795_255_200.0
ORDERS = TopicPartition("orders", 7)
HOLDER = Blocker("pay-3", "pay", 4711, 5, 100, BlockerKind.OPEN, started=NOW - 60)
STALL = Stall(ORDERS, NOW - 30, 100, 142, 2, HOLDER)
NOBODY = Blocker("", "", None, None, 100, BlockerKind.UNKNOWN)


def reading(*facts: Fact, wall: float = NOW, up: bool = True) -> LastReads:
    """One read of ``lso``, complete unless said otherwise, and of the log."""
    lso = tuple(fact for fact in facts if isinstance(fact, Stalls))
    log = tuple(fact for fact in facts if not isinstance(fact, Stalls))
    return LastReads(
        wall,
        NOW - 1000,
        (
            SourceState("lso", "prod", "prod", up=up, facts=lso),
            SourceState("txnlog", "prod", "prod", up=True, facts=log),
        ),
    )


def decided(*, commit: bool, completed: float, producer_id: int = 4711, begun: float = NOW - 60) -> Recent:
    made = decision_of(
        *("pay-3", producer_id, frozenset({5}), frozenset({6})),
        commit=commit,
        v2=True,
        begun=begun,
        at=completed - 0.005,
        completed=completed,
        partitions=frozenset({ORDERS}),
    )
    return Recent(Newest(0, ((made,),)))


def kinds(events: Sequence[Event]) -> list[EventKind]:
    return [event.kind for event in events]


def begun(stall: Stall = STALL) -> StallRules:
    rules = StallRules()
    assert kinds(list(rules.events(reading(Stalls((stall,))))))[0] is EventKind.STALL_BEGUN
    return rules


def test_a_stall_begins_when_its_offset_stopped_with_its_holder_and_the_groups_that_wait() -> None:
    held = GroupsHeld({ORDERS: ("billing",)})
    (event,) = StallRules().events(reading(Stalls((STALL,)), held))
    assert (event.kind, event.at) == (EventKind.STALL_BEGUN, NOW - 30)
    assert event.subject.transactional_id == "pay-3"
    assert event.partitions[0].records == 42
    assert event.evidence["waiting_groups"] == "billing"
    assert event.what == "orders-7 is stalled, transaction of pay-3"


def test_the_same_stall_is_told_once() -> None:
    rules = begun()
    assert list(rules.events(reading(Stalls((STALL,)), wall=NOW + 5))) == []


def test_a_look_that_finds_no_new_read_compares_no_stall() -> None:
    stalls = Stalls(tuple(STALL._replace(partition=TopicPartition("orders", number)) for number in range(100)))
    log = decided(commit=True, completed=NOW - 60.4, begun=NOW - 60.6)
    rules = StallRules()
    for seconds in (0, 2):
        list(rules.events(reading(stalls, log, wall=NOW + seconds)))
    found = calls_of(lambda: list(rules.events(reading(stalls, log, wall=NOW + 4))))
    assert found.total() < 40, found
    assert calls_of(lambda: list(rules.events(reading(Stalls(()), log, wall=NOW + 6)))).total() > 100


def test_a_holder_that_becomes_known_is_an_event() -> None:
    rules = begun(STALL._replace(blocker=NOBODY))
    (event,) = rules.events(reading(Stalls((STALL,)), wall=NOW + 5))
    assert (event.kind, event.subject.transactional_id) == (EventKind.STALL_NAMED, "pay-3")


def test_a_holder_that_cannot_be_asked_for_any_more_stays_named() -> None:
    rules = begun()
    assert list(rules.events(reading(Stalls((STALL._replace(blocker=NOBODY),)), wall=NOW + 5))) == []
    assert [event.subject.transactional_id for event in rules.open(NOW)] == ["pay-3"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [(BlockerKind.HANGING, EventKind.HANGING_PROVEN), (BlockerKind.UNMARKED, EventKind.UNMARKED_COMMIT)],
)
def test_a_proof_about_the_holder_is_an_event(kind: BlockerKind, told: EventKind) -> None:
    rules = begun()
    proven = STALL._replace(blocker=HOLDER._replace(kind=kind))
    assert kinds(list(rules.events(reading(Stalls((proven,)), wall=NOW + 30)))) == [told]


@pytest.mark.parametrize(
    ("outcome", "how"),
    [
        (Outcome.COMMITTED, StallEnd.COMMITTED),
        (Outcome.ABORTED, StallEnd.ABORTED),
        (Outcome.TIMED_OUT, StallEnd.TIMED_OUT),
        (Outcome.FENCED, StallEnd.PRODUCER_BACK),
    ],
)
def test_how_a_stall_ended_is_what_the_log_decided(outcome: Outcome, how: StallEnd) -> None:
    (decision,) = decided(commit=outcome is Outcome.COMMITTED, completed=NOW + 3).ended.since(0)
    log = Recent(Newest(0, ((decision._replace(outcome=outcome),),)))
    (event,) = begun().events(reading(Stalls(()), log, wall=NOW + 5))
    assert (event.kind, event.how, event.at) == (EventKind.STALL_ENDED, how, NOW + 3)
    assert event.duration == pytest.approx(33)


def test_a_fence_that_decides_with_the_next_epoch_ends_the_stall_of_the_same_begin() -> None:
    (fenced,) = decided(commit=False, completed=NOW + 3).ended.since(0)
    log = Recent(Newest(0, ((fenced._replace(client_epochs=frozenset({6}), client_version=0),),)))
    (event,) = begun().events(reading(Stalls(()), log, wall=NOW + 5))
    assert (event.how, event.at) == (StallEnd.ABORTED, NOW + 3)


def test_the_decision_of_the_transaction_after_says_nothing_of_how_a_stall_ended() -> None:
    log = decided(commit=True, completed=NOW + 3, begun=NOW + 2)
    rules = begun()
    assert list(rules.events(reading(Stalls(()), log, wall=NOW + 5))) == []
    (event,) = rules.events(reading(Stalls(()), log, wall=NOW + 6 + SETTLE_SECONDS))
    assert event.how is StallEnd.UNKNOWN


def test_the_decision_of_the_transaction_before_does_not_end_a_stall() -> None:
    log = decided(commit=True, completed=NOW - 60.4, begun=NOW - 60.6)
    rules = begun()
    assert list(rules.events(reading(Stalls(()), log, wall=NOW + 5))) == []


def test_an_end_without_a_decision_is_unknown_after_a_while_and_not_before() -> None:
    rules = begun()
    assert list(rules.events(reading(Stalls(()), wall=NOW + 5))) == []
    (event,) = rules.events(reading(Stalls(()), wall=NOW + 6 + SETTLE_SECONDS))
    assert (event.how, event.at) == (StallEnd.UNKNOWN, NOW + 5)
    assert "missing" in event.evidence


def test_a_hanging_transaction_that_its_producer_s_next_one_ended_is_a_producer_that_is_back() -> None:
    rules = begun(STALL._replace(blocker=HOLDER._replace(kind=BlockerKind.HANGING, transactional_id="")))
    (event,) = rules.events(reading(Stalls(()), decided(commit=True, completed=NOW + 3, begun=NOW + 1), wall=NOW + 5))
    assert event.how is StallEnd.PRODUCER_BACK


def test_a_decision_after_which_the_partition_stood_on_did_not_end_its_stall() -> None:
    rules = begun()
    log = decided(commit=True, completed=NOW + 1)
    assert list(rules.events(reading(Stalls((STALL,)), log, wall=NOW + 10))) == []
    assert list(rules.events(reading(Stalls((STALL,)), log, wall=NOW + 20))) == []
    assert list(rules.events(reading(Stalls(()), log, wall=NOW + 60))) == []
    (event,) = rules.events(reading(Stalls(()), log, wall=NOW + 61 + SETTLE_SECONDS))
    assert (event.how, event.at) == (StallEnd.UNKNOWN, NOW + 60)


def test_a_later_decision_that_differs_may_have_ended_the_stall_of_a_holder_that_no_coordinator_had() -> None:
    """The marker of its own was dropped while the partition had no leader: chaos run, seed 31."""
    unknown = STALL._replace(blocker=HOLDER._replace(kind=BlockerKind.UNKNOWN, started=None))
    for later, how in ((True, StallEnd.UNKNOWN), (False, StallEnd.ABORTED)):
        rules = begun(unknown)
        own = decided(commit=False, completed=NOW + 3)
        (other,) = decided(commit=later, completed=NOW + 3.2, begun=NOW + 3.1).ended.since(0)
        both = Recent(Newest(0, (*own.ended.reads, (other._replace(client_epochs=frozenset({11})),))))
        first = list(rules.events(reading(Stalls(()), both, wall=NOW + 5)))
        assert len(first) == (not later)
        [event] = first or rules.events(reading(Stalls(()), both, wall=NOW + 6 + SETTLE_SECONDS))
        assert event.how is how


def test_a_clock_that_is_ahead_of_the_coordinators_dates_no_end_by_itself() -> None:
    ahead = CoordinatorTime(100.0, 100.0)
    rules = begun()
    assert list(rules.events(reading(Stalls((STALL,)), ahead, wall=NOW + 102))) == []
    (event,) = rules.events(reading(Stalls(()), ahead, decided(commit=True, completed=NOW + 3), wall=NOW + 105))
    assert (event.how, event.at) == (StallEnd.COMMITTED, NOW + 3)
    assert event.duration == pytest.approx(33)


@pytest.mark.parametrize("off", [-90, 90])
def test_a_stall_that_was_dated_by_a_wrong_clock_is_dated_again_when_its_distance_is_known(off: float) -> None:
    rules = begun(STALL._replace(since=STALL.since + off))
    log = CoordinatorTime(off, off), decided(commit=True, completed=NOW + 3)
    assert list(rules.events(reading(Stalls((STALL,)), wall=NOW + off + 2))) == []
    (event,) = rules.events(reading(Stalls(()), *log, wall=NOW + off + 5))
    (held,) = event.partitions
    assert held.since == STALL.since
    assert held.seconds == pytest.approx(33, abs=2), "the time between two looks"


def test_a_stall_is_not_younger_than_the_process_before_knew() -> None:
    rules = StallRules()
    rules.restore(saved(begun()))
    list(rules.events(reading(Stalls((STALL._replace(since=NOW - 5),)))))
    assert [held.since for event in rules.open(NOW) for held in event.partitions] == [STALL.since]


def test_a_commit_that_lacks_its_marker_ends_with_the_next_transaction_of_its_producer() -> None:
    rules = begun(STALL._replace(blocker=HOLDER._replace(kind=BlockerKind.UNMARKED)))
    own = decided(commit=True, completed=NOW + 1)
    assert list(rules.events(reading(Stalls(()), own, wall=NOW + 5))) == []
    (next_one,) = decided(commit=False, completed=NOW + 4, begun=NOW + 2).ended.since(0)
    both = Recent(Newest(0, (*own.ended.reads, (next_one,))))
    (event,) = rules.events(reading(Stalls(()), both, wall=NOW + 6))
    assert (event.how, event.at) == (StallEnd.PRODUCER_BACK, NOW + 4)


def test_a_partition_whose_leader_does_not_answer_has_not_ended() -> None:
    rules = begun()
    assert list(rules.events(reading(Stalls(()), wall=NOW + 5, up=False))) == []
    assert list(rules.events(reading(wall=NOW + 100, up=False))) == []
    assert [held[:3] for event in rules.open(NOW) for held in event.partitions] == [("orders", 7, 100)]
    assert list(rules.events(reading(Stalls((STALL,)), wall=NOW + 110))) == []  # it is the same one


def test_a_decided_transaction_ends_its_stall_while_another_broker_does_not_answer() -> None:
    log = decided(commit=True, completed=NOW + 3)
    (event,) = begun().events(reading(Stalls(()), log, wall=NOW + 5, up=False))
    assert event.how is StallEnd.COMMITTED


def test_a_decided_transaction_whose_marker_was_dropped_ends_no_stall_while_its_partition_does_not_answer() -> None:
    log = decided(commit=True, completed=NOW + 3)
    rules = begun()
    away = Stalls((), unread=frozenset({ORDERS}))
    assert list(rules.events(reading(away, log, wall=NOW + 5, up=False))) == []
    assert list(rules.events(reading(away, log, wall=NOW + 20, up=False))) == []
    assert list(rules.events(reading(Stalls((STALL,)), log, wall=NOW + 30))) == []  # it stands as before
    assert list(rules.events(reading(Stalls(()), log, wall=NOW + 35))) == []
    (event,) = rules.events(reading(Stalls(()), log, wall=NOW + 36 + SETTLE_SECONDS))
    assert (event.kind, event.at, event.how) == (EventKind.STALL_ENDED, NOW + 35, StallEnd.UNKNOWN)


def test_partitions_of_one_holder_are_one_event_up_to_a_limit() -> None:
    several = tuple(STALL._replace(partition=TopicPartition("orders", number)) for number in range(MOST_PARTITIONS + 1))
    events = list(StallRules().events(reading(Stalls(several))))
    assert [len(event.partitions) for event in events] == [MOST_PARTITIONS, 1]
    assert events[0].what == f"orders-0 and {MOST_PARTITIONS - 1} more partitions are stalled, transaction of pay-3"


# --- Over a restart ---


def saved(rules: StallRules) -> list[EventDocument]:
    return read_back(rules.open(NOW))


def test_a_stall_that_goes_on_over_a_restart_is_not_told_again() -> None:
    rules = StallRules()
    rules.restore(saved(begun()))
    assert list(rules.events(reading(Stalls((STALL,)), wall=NOW + 60))) == []
    (event,) = rules.events(reading(Stalls(()), decided(commit=True, completed=NOW + 70), wall=NOW + 75))
    assert event.how is StallEnd.COMMITTED
    assert event.duration == pytest.approx(100)


def test_a_stall_that_ended_while_no_agent_looked_says_so() -> None:
    rules = StallRules()
    rules.restore(saved(begun()))
    assert list(rules.events(reading(wall=NOW + 60))) == []  # not before the first complete read
    watch = StallWatch(NOW + 60, 30.0)
    assert list(rules.events(reading(Stalls(()), watch, wall=NOW + 65))) == []  # it may be too early to know it again
    (event,) = rules.events(reading(Stalls(()), watch, wall=NOW + 61 + 30 + SETTLE_SECONDS))
    assert event.how is StallEnd.UNKNOWN
    assert event.evidence["end_seen"] is False


def test_a_stop_tells_the_ends_that_were_waited_for_and_leaves_open_stalls_open() -> None:
    other = STALL._replace(partition=TopicPartition("orders", 8))
    rules = StallRules()
    list(rules.events(reading(Stalls((STALL, other)))))
    list(rules.events(reading(Stalls((other,)), wall=NOW + 5)))
    (event,) = rules.close(LastReads(NOW + 6, NOW, ()))
    assert (event.how, event.partitions[0].partition) == (StallEnd.UNKNOWN, 7)
    assert [held.partition for event in rules.open(NOW) for held in event.partitions] == [8]


def test_an_event_of_another_kind_opens_no_stall() -> None:
    events = [{**event, "kind": "of_a_later_version"} for event in saved(begun())]
    assert StallRules().restore(events) == 0  # type: ignore[arg-type]  # a kind that is not known here
