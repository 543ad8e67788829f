"""Tests of what a broker coordinates, and what cannot wait for its successor."""

from __future__ import annotations

import pytest

from exporter.flink.facts import FlinkId, FlinkTransaction
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, PartitionMetadata
from exporter.model import TopicPartition
from exporter.roll.coordination import MOST_ROWS
from exporter.roll.facts import (
    BrokerRoll,
    CoordinatedGroup,
    RollAnswer,
    RollEvidence,
    RollReason,
    UnaccountedTransaction,
)
from exporter.roll.partitions import roll_of
from exporter.transactions.facts import OpenTransaction
from exporter.words import Precommit, TransactionState

NOW = 10_000.0
WHOLE = PartitionMetadata(3, (1, 2, 3), (1, 2, 3))
LEADERLESS = PartitionMetadata(None, (1, 2), ())
ELSEWHERE = PartitionMetadata(1, (1, 2, 3), (1, 2, 3))
ORDERS = TopicPartition("orders", 0)


def transaction(
    state: TransactionState = TransactionState.ONGOING,
    *,
    age: float = 1.0,
    timeout: float | None = 60.0,
    prepared: float | None = None,
    transactional_id: str = "pay-1",
) -> OpenTransaction:
    decided = None if prepared is None else NOW - prepared
    who = (transactional_id, "pay", 7, 0)
    return OpenTransaction(*who, state, NOW - age, timeout, decided, frozenset({ORDERS}))


def asked(
    *opened: OpenTransaction,
    log: PartitionMetadata = WHOLE,
    data: PartitionMetadata = WHOLE,
    flink: FlinkTransaction | None = None,
    groups: tuple[CoordinatedGroup, ...] = (),
    unaccounted: tuple[UnaccountedTransaction, ...] = (),
    not_read: tuple[str, ...] = (),
    broker: int = 3,
) -> BrokerRoll:
    topics = {TRANSACTION_STATE: {0: log}, CONSUMER_OFFSETS: {0: log}, "orders": {0: data}}
    found = RollEvidence(
        NOW,
        {1: "a:1", 2: "b:1", 3: "c:1"},
        topics,
        dict.fromkeys(topics, 2),
        opened,
        {7: flink} if flink else {},
        {3: groups},
        unaccounted,
        not_read,
    )
    return roll_of(found, broker, 60.0)


def reasons(said: BrokerRoll) -> set[RollReason]:
    return {row.reason for row in said.rows}


def test_an_age_that_is_not_known_is_not_said() -> None:
    [row] = asked(transaction()._replace(started=None)).rows
    assert row.text == "1 open: another broker takes them over"


def test_an_open_transaction_with_time_left_is_named_and_safe() -> None:
    said = asked(transaction())
    assert (said.answer, reasons(said)) == (RollAnswer.SAFE, {RollReason.OPEN_TRANSACTIONS})


@pytest.mark.parametrize(("age", "answer"), [(45.0, RollAnswer.SAFE), (45.5, RollAnswer.WAIT), (61.0, RollAnswer.WAIT)])
def test_a_transaction_that_times_out_while_its_coordinator_moves_has_to_be_waited_for(
    age: float, answer: RollAnswer
) -> None:
    said = asked(transaction(age=age))
    assert said.answer is answer
    if answer is RollAnswer.WAIT:
        assert said.seconds is not None
        assert said.seconds >= max(1.0, 60 - age)


def test_a_timeout_at_another_coordinator_is_no_reason() -> None:
    assert asked(transaction(age=59), log=ELSEWHERE).answer is RollAnswer.SAFE


def test_a_transaction_without_a_timeout_never_has_to_be_waited_for() -> None:
    assert asked(transaction(age=10_000, timeout=None)).answer is RollAnswer.SAFE


@pytest.mark.parametrize(
    ("prepared", "answer"),
    [(0.5, RollAnswer.SAFE), (2.5, RollAnswer.WAIT), (31.0, RollAnswer.NO), (None, RollAnswer.NO)],
)
def test_a_decision_that_waits_for_its_markers(prepared: float | None, answer: RollAnswer) -> None:
    said = asked(transaction(TransactionState.PREPARE_COMMIT, prepared=prepared))
    assert said.answer is answer


def test_a_decision_of_another_coordinator_counts_where_this_broker_leads_its_partition() -> None:
    waiting = transaction(TransactionState.PREPARE_ABORT, prepared=5)
    assert asked(waiting, log=ELSEWHERE).answer is RollAnswer.WAIT
    assert asked(waiting, log=ELSEWHERE, data=ELSEWHERE).answer is RollAnswer.SAFE


def test_a_decision_with_a_partition_without_a_leader_says_that_its_marker_is_lost() -> None:
    said = asked(transaction(TransactionState.PREPARE_COMMIT, prepared=5), data=LEADERLESS)
    assert said.answer is RollAnswer.NO
    assert any("orders-0 without a leader" in row.text for row in said.rows if row.reason is RollReason.MARKERS_PENDING)


def flink(*, left: float, interval: float | None = 10.0, at_risk: bool = False) -> FlinkTransaction:
    return FlinkTransaction(
        FlinkId("sink", 0, 1), interval, Precommit.PROVEN, NOW - 5, True, at_risk, NOW + left, False, None
    )


def test_a_flink_deadline_within_the_outage_waits_for_the_next_checkpoint() -> None:
    opened = transaction(timeout=900)
    assert asked(opened, flink=flink(left=800)).answer is RollAnswer.SAFE
    said = asked(opened, flink=flink(left=70))
    assert (said.answer, said.seconds) == (RollAnswer.WAIT, 10.0)


@pytest.mark.parametrize("job", [flink(left=70, at_risk=True), flink(left=70, interval=None)])
def test_a_flink_job_that_does_not_go_on_says_no(job: FlinkTransaction) -> None:
    assert asked(transaction(timeout=900), flink=job).answer is RollAnswer.NO


def test_the_longest_wait_is_the_answer_and_its_row_is_the_first() -> None:
    said = asked(
        transaction(TransactionState.PREPARE_COMMIT, prepared=5), transaction(age=50, transactional_id="pay-2")
    )
    assert (said.answer, said.seconds) == (RollAnswer.WAIT, 20.0)
    assert said.rows[0].subject == "pay-2"


def test_groups_and_connect_clusters_are_named() -> None:
    said = asked(groups=(CoordinatedGroup("readers", "consumer"), CoordinatedGroup("etl", "connect")))
    assert said.answer is RollAnswer.SAFE
    texts = {row.reason: row.text for row in said.rows}
    assert texts[RollReason.GROUPS] == "1 groups find another coordinator: readers"
    assert texts[RollReason.CONNECT] == "1 Connect clusters find another coordinator: etl"


def test_what_a_broker_with_the_only_copy_coordinates_is_not_said_to_move() -> None:
    groups = (CoordinatedGroup("readers", "consumer"), CoordinatedGroup("etl", "connect"))
    said = asked(transaction(), log=PartitionMetadata(3, (3,), (3,)), groups=groups)
    texts = {row.reason: row.text for row in said.rows if row.effect is RollAnswer.SAFE}
    assert texts[RollReason.OPEN_TRANSACTIONS].endswith("1 of them cannot end before it is back")
    assert texts[RollReason.GROUPS] == "1 groups have no coordinator before it is back: readers"
    assert texts[RollReason.CONNECT] == "1 Connect clusters have no coordinator before it is back: etl"


def test_a_transaction_at_no_coordinator_is_a_note() -> None:
    said = asked(unaccounted=(UnaccountedTransaction(ORDERS, 9, 5),))
    assert (said.answer, reasons(said)) == (RollAnswer.SAFE, {RollReason.NOT_ACCOUNTED})


def test_what_was_not_read_is_unknown() -> None:
    said = asked(not_read=("grant READ on Topic:__transaction_state",))
    assert (said.answer, said.seconds) == (RollAnswer.UNKNOWN, None)


def test_many_transactions_are_summed_up_after_the_first() -> None:
    many = [transaction(age=55, transactional_id=f"pay-{number}") for number in range(MOST_ROWS + 5)]
    said = asked(*many)
    assert len([row for row in said.rows if row.reason is RollReason.TIMEOUT_NEAR]) == MOST_ROWS + 1
    assert any(row.subject == "5 more open transactions" for row in said.rows)
