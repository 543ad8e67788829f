"""The rules, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.lso.dating import Dated
from exporter.lso.facts import Completion
from exporter.lso.rules import (
    Coordinators,
    LogProducer,
    Replication,
    Standing,
    decided,
    holding_producer,
    is_stalled,
    name_blocker,
    standing,
)
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import BlockerKind, MarkerWait, TransactionState

PLACE = TopicPartition("orders", 3)


def transaction(
    *, state: TransactionState = TransactionState.ONGOING, started: float | None = 100.0, timeout: float | None = 60.0
) -> OpenTransaction:
    return OpenTransaction("app-1", "app", 7, 4, state, started, timeout, None, frozenset({PLACE}))


@given(st.integers(0, 50), st.integers(0, 50), st.booleans())
def test_an_lso_at_or_above_the_high_watermark_never_stands(stable: int, end: int, watched: bool) -> None:
    state = standing(None, stable, end, 10.0, watched=watched)
    assert (state is None) == (stable >= end)


def test_an_lso_that_stands_keeps_its_first_instant_and_one_that_moves_begins_anew() -> None:
    first = standing(None, 5, 9, 10.0, watched=True)
    assert first == Standing(5, Dated(10.0), exact=True)
    assert standing(first, 5, 12, 40.0, watched=True) is first
    assert standing(first, 6, 12, 40.0, watched=True) == Standing(6, Dated(40.0), exact=True)


def test_an_lso_is_stalled_when_it_has_stood_for_the_threshold() -> None:
    state = Standing(5, Dated(10.0), exact=False)
    assert not is_stalled(state, 30.0, 39.9)
    assert is_stalled(state, 30.0, 40.0)


def test_the_holder_is_the_producer_with_the_lowest_open_start_at_or_below_the_lso() -> None:
    first, second = LogProducer(7, 0, 5), LogProducer(8, 0, 9)
    assert holding_producer([second, first], 5) is first
    assert holding_producer([second, first], 6) is first
    assert holding_producer([second, first], 4) is None


REPLICAS = Replication(1, (1, 2), (1,), 2)


def test_where_nothing_is_open_at_the_lso_the_decided_transaction_that_names_the_partition_holds_it() -> None:
    prepared = transaction(state=TransactionState.PREPARE_COMMIT)
    blocker = name_blocker(PLACE, 5, None, Coordinators.of([prepared]), replication=REPLICAS)
    assert (blocker.kind, blocker.producer_id, blocker.start_offset) == (BlockerKind.COMPLETING, 7, 5)
    assert blocker.completion == Completion(MarkerWait.NOT_REPLICATED, 1, (1,), (2,), 2)


def test_a_marker_that_the_leader_shows_as_open_is_not_written_yet() -> None:
    prepared = transaction(state=TransactionState.PREPARE_ABORT)
    producer = LogProducer(7, 4, 3)
    blocker = name_blocker(PLACE, 5, producer, Coordinators.of([prepared]), replication=REPLICAS)
    assert (blocker.kind, blocker.start_offset) == (BlockerKind.COMPLETING, 3)
    assert blocker.completion is not None
    assert blocker.completion.wait is MarkerWait.NOT_WRITTEN
    away = name_blocker(PLACE, 5, producer, Coordinators.of([prepared]), replication=REPLICAS._replace(leader=None))
    assert away.completion is not None
    assert away.completion.wait is MarkerWait.LEADER_AWAY


def test_of_several_decided_transactions_the_one_that_was_seen_at_the_lso_holds_it_and_else_none_is_named() -> None:
    """Seen on three brokers, two of them cut off from each other: another id was named than the one that held it."""
    first = transaction(state=TransactionState.PREPARE_COMMIT)
    second = first._replace(transactional_id="app-2", producer_id=8)
    coordinators = Coordinators.of([first, second])
    seen = name_blocker(PLACE, 5, None, coordinators, replication=REPLICAS, held_by=8)
    assert (seen.kind, seen.transactional_id, seen.producer_id) == (BlockerKind.COMPLETING, "app-2", 8)
    unseen = name_blocker(PLACE, 5, None, coordinators, replication=REPLICAS)
    assert (unseen.kind, unseen.producer_id) == (BlockerKind.UNKNOWN, None)
    assert unseen.missing == ("2 decided transactions name the partition, and any may hold it: app-1, app-2",)


def test_a_holder_that_has_completed_is_not_replaced_while_the_lso_is_where_it_was() -> None:
    other = transaction(state=TransactionState.PREPARE_COMMIT)._replace(producer_id=8)
    blocker = name_blocker(PLACE, 5, None, Coordinators.of([other]), held_by=7)
    assert (blocker.kind, blocker.producer_id) == (BlockerKind.UNKNOWN, None)
    assert blocker.missing == ("the transaction of producer id 7 that held it has ended; the next read shows more",)


@pytest.mark.parametrize("unmarked", [frozenset(), frozenset({TopicPartition("orders", 4)})])
def test_a_decided_transaction_whose_marker_here_is_acknowledged_holds_nothing(
    unmarked: frozenset[TopicPartition],
) -> None:
    prepared = transaction(state=TransactionState.PREPARE_COMMIT)
    coordinators = Coordinators.of([prepared])._replace(pending={prepared.producer_id: unmarked})
    assert not decided(PLACE, coordinators)
    assert name_blocker(PLACE, 5, None, coordinators).kind is BlockerKind.UNKNOWN


def test_an_open_transaction_and_an_unasked_partition_are_no_reason_to_call_it_completing() -> None:
    assert name_blocker(PLACE, 5, None, Coordinators.of([transaction()])).kind is BlockerKind.UNKNOWN
    prepared = Coordinators.of([transaction(state=TransactionState.PREPARE_COMMIT)])
    unasked = name_blocker(PLACE, 5, None, prepared, unasked="READ is refused")
    assert unasked.kind is BlockerKind.UNKNOWN


def test_a_transaction_that_does_not_write_here_is_not_the_one_that_holds_it() -> None:
    assert not Coordinators.of([transaction()]).knows(TopicPartition("orders", 4), 7)
    assert Coordinators.of([transaction()]).knows(PLACE, 7)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (TransactionState.ONGOING, BlockerKind.OPEN),
        (TransactionState.PREPARE_COMMIT, BlockerKind.COMPLETING),
        (TransactionState.PREPARE_ABORT, BlockerKind.COMPLETING),
    ],
)
def test_what_a_coordinator_has_is_open_or_completing(state: TransactionState, kind: BlockerKind) -> None:
    known = Coordinators.of([transaction(state=state)])
    assert name_blocker(PLACE, 5, LogProducer(7, 4, 5), known).kind is kind


def test_an_unknown_blocker_says_what_could_not_be_asked() -> None:
    producer, nobody = LogProducer(7, 4, 5), Coordinators({})
    moving = name_blocker(PLACE, 5, None, nobody)
    assert (moving.kind, moving.producer_id) == (BlockerKind.UNKNOWN, None)
    assert "no open transaction starts at or below the last stable offset" in moving.missing[0]
    assert name_blocker(PLACE, 5, None, nobody, unasked="READ is refused").missing == ("READ is refused",)
    partly = name_blocker(PLACE, 5, producer, Coordinators({}, ("broker 2 is down",)), unasked="late")
    assert partly.missing == ("late", "broker 2 is down")


def test_what_no_coordinator_is_known_to_know_is_unknown_and_hangs_by_a_proof_only() -> None:
    producer = LogProducer(7, 4, 5)
    assert name_blocker(PLACE, 5, producer, Coordinators({})).kind is BlockerKind.UNKNOWN
    elsewhere = name_blocker(TopicPartition("orders", 4), 5, producer, Coordinators.of([transaction()]))
    assert (elsewhere.kind, elsewhere.transactional_id) == (BlockerKind.UNKNOWN, "app-1")
    assert elsewhere.missing == ("transactional.id 'app-1' has this producer id open elsewhere",)
