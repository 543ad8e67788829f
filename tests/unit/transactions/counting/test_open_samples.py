"""The open transactions as samples: counts that are whole, and the most urgent ones by id."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter import catalogue
from exporter.lso.facts import Blocker, Stall, Stalls
from exporter.model import Sample, TopicPartition
from exporter.transactions.counting.open_samples import blocking_producers, open_transaction_samples
from exporter.transactions.facts import OpenTransaction
from exporter.words import BlockerKind, TransactionState

NOW = 10_000.0

transactions = st.lists(
    st.builds(
        OpenTransaction,
        st.integers(0, 10**6).map(lambda number: f"app-{number}"),
        st.sampled_from(["app", "etl"]),
        st.integers(0, 1000),
        st.integers(0, 100),
        st.sampled_from(TransactionState),
        st.none() | st.floats(0, NOW),
        st.none() | st.floats(1, 900),
        st.none() | st.floats(0, NOW),
        st.just(frozenset[TopicPartition]()),
    ),
    max_size=30,
    unique_by=lambda transaction: transaction.transactional_id,
)


def stalls_of(*producer_ids: int) -> Stalls:
    return Stalls(
        tuple(
            # The epoch that the partition has is not the one that a prepared transaction has.
            Stall(TopicPartition("t", 0), 0.0, 1, 2, 1, Blocker("", "", known_id, 999, 1, BlockerKind.OPEN))
            for known_id in producer_ids
        )
    )


def samples_of(found: list[OpenTransaction], stalls: Stalls | None, most: int) -> list[Sample]:
    return list(open_transaction_samples("prod", found, ["app", "idle"], blocking_producers(stalls), most, NOW))


@given(transactions, st.integers(0, 5), st.lists(st.integers(0, 1000), max_size=3))
def test_counts_are_whole_and_blockers_are_always_among_those_shown(
    found: list[OpenTransaction], most: int, blockers: list[int]
) -> None:
    given_ = samples_of(found, stalls_of(*blockers), most)
    keys = [(sample.metric.name, sample.labels) for sample in given_]
    assert len(keys) == len(set(keys))
    counts = {sample.labels[1:]: sample.value for sample in given_ if sample.metric is catalogue.TRANSACTIONS_OPEN}
    assert sum(float(str(value)) for value in counts.values()) == len(found)
    assert {(name, state.value) for name in ("app", "idle") for state in TransactionState} <= counts.keys()
    starts = {
        sample.labels[2] for sample in given_ if sample.metric is catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS
    }
    held = {
        transaction.transactional_id
        for transaction in found
        if transaction.producer_id in blockers and transaction.started is not None
    }
    assert held <= starts
    assert len(starts) <= most + sum(transaction.producer_id in blockers for transaction in found)
    dropped = [sample.value for sample in given_ if sample.metric is catalogue.SERIES_DROPPED]
    shown = {transaction.transactional_id for transaction in found if transaction.producer_id in blockers}
    assert sum(float(str(sample)) for sample in dropped) <= len(found) - len(shown)


def test_the_most_urgent_are_shown_and_two_phase_commit_has_no_timeout() -> None:
    def one(name: str, started: float, timeout: float | None) -> OpenTransaction:
        return OpenTransaction(name, "app", 7, 1, TransactionState.ONGOING, started, timeout, None, frozenset())

    found = [one("young", NOW - 5, 60), one("late", NOW - 100, 60), one("later", NOW - 500, 60), one("2pc", 0, None)]
    given_ = samples_of(found, None, 2)
    starts = {
        sample.labels[2]: sample.value
        for sample in given_
        if sample.metric is catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS
    }
    assert starts == {"late": NOW - 100, "later": NOW - 500}
    values = {(sample.metric, sample.labels[1:]): sample.value for sample in given_}
    assert values[catalogue.OVERDUE_TRANSACTIONS, ("app",)] == 2
    assert values[catalogue.OVERDUE_TRANSACTIONS, ("idle",)] == 0
    assert values[catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, ("app",)] == 0
    assert (catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, ("idle",)) not in values
    shown = samples_of([one("2pc", 0, None)], None, 2)
    assert not [sample for sample in shown if sample.metric is catalogue.OPEN_TRANSACTION_TIMEOUT_SECONDS]
