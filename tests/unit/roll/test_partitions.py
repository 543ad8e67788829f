"""Tests of what the partitions of a broker lose while it is stopped."""

from __future__ import annotations

import pytest

from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, PartitionMetadata
from exporter.roll.coordination import MOST_ROWS
from exporter.roll.facts import RollAnswer, RollEvidence, RollReason, RollRow
from exporter.roll.partitions import partition_rows, roll_of

BROKERS = {1: "kafka-1:9092", 2: "kafka-2:9092", 3: "kafka-3:9092"}


def partition(replicas: list[int], isr: list[int], leader: int | None = -1) -> PartitionMetadata:
    """``leader`` is the first in sync unless it is given."""
    found = (isr[0] if isr else None) if leader == -1 else leader
    return PartitionMetadata(found, tuple(replicas), tuple(isr))


def evidence(*partitions: PartitionMetadata, topic: str = "orders", minimum: int | str = 2) -> RollEvidence:
    return RollEvidence(1000.0, BROKERS, {topic: dict(enumerate(partitions))}, {topic: minimum})


def rows(found: RollEvidence, broker: int = 3) -> list[tuple[RollAnswer, RollReason]]:
    return [(row.effect, row.reason) for row in partition_rows(found, broker)]


def only(found: RollEvidence, broker: int = 3) -> RollRow:
    (row,) = partition_rows(found, broker)
    return row


def test_a_whole_partition_of_three_replicas_has_nothing_to_say() -> None:
    assert rows(evidence(partition([1, 2, 3], [1, 2, 3]))) == []
    assert roll_of(evidence(partition([1, 2, 3], [1, 2, 3])), 3, 60).answer is RollAnswer.SAFE


@pytest.mark.parametrize("topic", ["orders", TRANSACTION_STATE, CONSUMER_OFFSETS])
def test_fewer_than_the_minimum_in_sync_says_no(topic: str) -> None:
    found = evidence(partition([1, 2, 3], [1, 3]), topic=topic)
    assert rows(found) == [(RollAnswer.NO, RollReason.BELOW_MIN_ISR)]
    assert "partition 0 has 1 in sync without it, and min.insync.replicas=2" in only(found).text


@pytest.mark.parametrize(
    ("replicas", "isr", "minimum", "said"),
    [
        ([2, 3], [2, 3], 3, "1 in sync without it, and min.insync.replicas=3, of 2 replicas"),
        ([2, 3], [2, 3], 2, "1 in sync without it, and min.insync.replicas=2:"),
    ],
)
def test_no_more_replicas_than_there_are_have_to_be_in_sync(
    replicas: list[int], isr: list[int], minimum: int, said: str
) -> None:
    found = list(partition_rows(evidence(partition(replicas, isr), minimum=minimum), 3))
    assert [row.reason for row in found] == [RollReason.BELOW_MIN_ISR, RollReason.TWO_REPLICAS]
    assert said in found[0].text


def test_the_only_replica_of_a_partition_is_not_below_a_higher_minimum() -> None:
    assert rows(evidence(partition([3], [3]), minimum=2)) == [(RollAnswer.NO, RollReason.LAST_IN_SYNC)]
    assert rows(evidence(partition([1], [1]), minimum=2)) == []


def test_a_broker_that_is_not_in_sync_takes_nothing_away_where_enough_are() -> None:
    assert rows(evidence(partition([1, 2, 3], [1, 2]))) == []


def test_a_partition_that_is_below_the_minimum_already_says_no_whichever_replica_stops() -> None:
    assert rows(evidence(partition([1, 2, 3], [1]))) == [(RollAnswer.NO, RollReason.BELOW_MIN_ISR)]


def test_the_only_copy_in_sync_says_that_a_marker_is_lost() -> None:
    row = only(evidence(partition([2, 3], [3]), minimum=1))
    assert (row.effect, row.reason) == (RollAnswer.NO, RollReason.LAST_IN_SYNC)
    assert "wait until broker 2 caught up" in row.text
    assert "loses its marker" in row.text


def test_a_topic_without_replicas_says_no() -> None:
    row = only(evidence(partition([3], [3]), partition([1], [1]), minimum=1))
    assert (row.effect, row.reason) == (RollAnswer.NO, RollReason.LAST_IN_SYNC)
    assert row.text.startswith("partition 0 has no other replica")


def test_two_replicas_are_safe_with_a_note_about_the_next_broker() -> None:
    found = evidence(partition([2, 3], [3, 2]), minimum=1)
    assert rows(found) == [(RollAnswer.SAFE, RollReason.TWO_REPLICAS)]
    assert "do not stop broker 2 before this one is in sync again" in only(found).text
    assert roll_of(found, 3, 60).answer is RollAnswer.SAFE
    assert rows(found, broker=1) == []


def test_another_replica_that_is_not_in_sync_says_no_until_it_is() -> None:
    found = evidence(partition([1, 2, 3], [2, 3]), minimum=1)
    assert rows(found) == [(RollAnswer.NO, RollReason.UNDER_REPLICATED)]
    assert "wait until broker 1 caught up" in only(found).text


def test_a_partition_without_a_leader_says_no_for_every_broker() -> None:
    found = evidence(partition([1, 2], [], None))
    assert rows(found) == rows(found, broker=1) == [(RollAnswer.NO, RollReason.OFFLINE)]


def test_an_unknown_minimum_is_unknown_and_never_safe() -> None:
    found = evidence(partition([1, 2, 3], [1, 2, 3]), minimum="grant DESCRIBE_CONFIGS on Topic:orders")
    assert rows(found) == [(RollAnswer.UNKNOWN, RollReason.NOT_READ)]
    assert roll_of(found, 3, 60).answer is RollAnswer.UNKNOWN


def test_no_comes_before_unknown() -> None:
    found = evidence(partition([3], [3]), minimum="refused")
    assert roll_of(found, 3, 60).answer is RollAnswer.NO


def test_a_broker_that_the_cluster_does_not_show_is_unknown() -> None:
    said = roll_of(evidence(partition([1, 2, 3], [1, 2, 3])), 7, 60)
    assert said.answer is RollAnswer.UNKNOWN
    assert "there are 1, 2, 3" in said.rows[0].text


def test_of_thousands_of_topics_the_first_are_named_with_the_internal_ones_before_them() -> None:
    short = {0: partition([1, 2, 3], [1, 3])}
    names = [f"Orders-{number:04}" for number in range(2_000)]
    topics = dict.fromkeys([*names, TRANSACTION_STATE], short)
    said = roll_of(RollEvidence(1000.0, BROKERS, topics, dict.fromkeys(topics, 2)), 3, 60)
    assert said.answer is RollAnswer.NO
    assert [row.subject for row in said.rows] == [TRANSACTION_STATE, *names[: MOST_ROWS - 1], "1981 more topics"]
