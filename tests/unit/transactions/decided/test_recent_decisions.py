"""The decisions that the tail hands on: the same as those that a read of the whole log gives."""

from __future__ import annotations

import pytest

from exporter.model import TopicPartition
from exporter.transactions.decided.recent_decisions import KEPT_SECONDS, MOST, DecisionTail
from exporter.transactions.decided.torn import DecisionLog
from exporter.transactions.machine.entries import Ended
from exporter.transactions.machine.records import Status
from exporter.transactions.machine.state_machine import StateMachine
from exporter.words import Outcome
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

TOPICS = [("orders", [0, 1])]
BEGUN = 1_000_000


def records(*, commit: bool, v2: bool, raised: int) -> list[tuple[bytes, bytes, int]]:
    """The records of one transaction with epoch 3, whose markers have a raised epoch."""
    tags = kafka_tags(0, -1, 2 if v2 else 0)
    states: tuple[tuple[Status, int, list[tuple[str, list[int]]]], ...] = (
        (Status.ONGOING, 3, TOPICS),
        (Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT, 3 + raised, TOPICS),
        (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT, 3 + raised, []),
    )
    return [
        (encode_key("pay-1"), encode_value(1, 7, epoch, 60_000, status, topics, BEGUN, BEGUN, tags), BEGUN + 10 * place)
        for place, (status, epoch, topics) in enumerate(states)
    ]


def ended(given: list[tuple[bytes, bytes, int]]) -> list[Ended]:
    machine = StateMachine(0)
    events = [event for offset, (key, value, at) in enumerate(given) for event in machine.apply(offset, at, key, value)]
    events += machine.log_time_reached(BEGUN + 3_600_000)
    return [event for event in events if isinstance(event, Ended)]


@pytest.mark.parametrize("v2", [True, False], ids=["v2", "older"])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_decision_is_that_of_the_whole_log(v2: bool, commit: bool) -> None:
    given = records(commit=commit, v2=v2, raised=int(v2))
    log, tail = DecisionLog(), DecisionTail()
    for key, value, at in given:
        log.take_record(key, value, at)
    for event in ended(given):
        tail.take(event)
    (expected,), (found,) = log.decisions(), tail.read(1.0).since(0)
    if not commit:  # an abort may be the server's, whose markers have a raised epoch
        expected = expected._replace(epochs=frozenset({3, 4}))
    assert found == expected._replace(outcome=Outcome.COMMITTED if commit else Outcome.ABORTED)
    assert found.partitions == {TopicPartition("orders", 0), TopicPartition("orders", 1)}


def test_a_transaction_whose_partitions_compaction_took_is_left_out() -> None:
    tail = DecisionTail()
    for event in ended(records(commit=True, v2=True, raised=1)[2:]):
        tail.take(event)
    assert tail.read(1.0).end == 0


def test_decisions_are_handed_on_for_a_minute_and_numbered_from_the_first() -> None:
    tail = DecisionTail()
    (event,) = ended(records(commit=True, v2=True, raised=1))
    tail.take(event)
    first = tail.read(1.0)
    assert (first.first, first.end) == (0, 1)
    assert tail.read(2.0) is first
    tail.take(event)
    both = tail.read(30.0)
    assert (both.first, both.end, len(list(both.since(1)))) == (0, 2, 1)
    later = tail.read(2.0 + KEPT_SECONDS)
    assert (later.first, later.end, len(list(later.since(0)))) == (1, 2, 1)


def test_a_burst_is_handed_on_up_to_a_number() -> None:
    tail = DecisionTail()
    (event,) = ended(records(commit=True, v2=True, raised=1))
    for _ in range(MOST + 7):
        tail.take(event)
    found = tail.read(1.0)
    assert (found.first, found.end) == (7, MOST + 7)
    for _ in range(5):
        tail.take(event)
    found = tail.read(2.0)
    assert (found.first, found.end, len(list(found.since(0)))) == (12, MOST + 12, MOST)
