"""How old the oldest record is that read_committed readers are not given."""

from __future__ import annotations

import pytest

from exporter.lso.dating import Dated
from exporter.lso.rules import Coordinators, LogProducer, Standing
from exporter.lso.topic_series import earliest_starts, withheld_since
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import TransactionState

ORDERS, REFUNDS = TopicPartition("orders", 0), TopicPartition("refunds", 0)
NOW = 1000.0


def transaction(producer_id: int, started: float | None, *partitions: TopicPartition) -> OpenTransaction:
    state = TransactionState.ONGOING
    return OpenTransaction("pay-1", "pay", producer_id, 3, state, started, 60.0, None, frozenset(partitions))


def producer(producer_id: int, start_offset: int) -> LogProducer:
    return LogProducer(producer_id, 3, start_offset)


def ages(
    transactions: list[OpenTransaction],
    standing: dict[TopicPartition, float],
    producers: tuple[LogProducer, ...] = (),
) -> dict[str, float]:
    states = {partition: Standing(10, Dated(seen), exact=True) for partition, seen in standing.items()}
    coordinators, earliest = Coordinators.of(transactions), earliest_starts(transactions)
    found = withheld_since(states, lambda _: producers, coordinators, earliest)
    return {topic: since.age(NOW, lambda unix: unix) for topic, since in found.items()}


def test_a_record_is_as_old_as_its_transaction_though_the_lso_came_to_it_later() -> None:
    assert ages([transaction(7, 700.0, ORDERS)], {ORDERS: 950.0}) == {"orders": 300.0}


def test_a_record_is_no_younger_than_the_lso_has_stayed_there() -> None:
    assert ages([transaction(7, 990.0, ORDERS)], {ORDERS: 950.0}) == {"orders": 50.0}


def test_without_a_known_transaction_it_is_as_old_as_the_stall() -> None:
    assert ages([], {ORDERS: 950.0}) == {"orders": 50.0}
    assert ages([transaction(7, None, ORDERS)], {ORDERS: 950.0}) == {"orders": 50.0}


def test_of_several_open_transactions_the_one_that_holds_the_lso_decides_where_it_is_known() -> None:
    both = [transaction(7, 700.0, ORDERS), transaction(8, 900.0, ORDERS)]
    assert ages(both, {ORDERS: 950.0}) == {"orders": 300.0}
    assert ages(both, {ORDERS: 950.0}, (producer(8, 10), producer(7, 20))) == {"orders": 100.0}


def test_a_transaction_above_a_holder_that_no_coordinator_has_says_nothing_of_its_record() -> None:
    held = (producer(9, 10), producer(7, 20))
    assert ages([transaction(7, 700.0, ORDERS)], {ORDERS: 950.0}, held) == {"orders": 50.0}


def test_a_transaction_of_another_partition_says_nothing() -> None:
    assert ages([transaction(7, 700.0, REFUNDS)], {ORDERS: 950.0}) == {"orders": 50.0}


@pytest.mark.parametrize(("first", "second"), [(600.0, 900.0), (900.0, 600.0)])
def test_a_topic_is_as_late_as_its_latest_partition(first: float, second: float) -> None:
    standing = {ORDERS: first, TopicPartition("orders", 1): second, REFUNDS: 990.0}
    assert ages([], standing) == {"orders": 400.0, "refunds": 10.0}


def test_a_topic_without_withheld_records_has_no_age() -> None:
    assert ages([transaction(7, 700.0, ORDERS)], {}) == {}
