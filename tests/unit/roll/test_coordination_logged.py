"""Tests of what the facts of the tail say before a broker is stopped, and what is not known then."""

from __future__ import annotations

import pytest

from exporter.model import Fact, Facts, TopicPartition
from exporter.roll.coordination import FRESH_SECONDS, logged_evidence
from exporter.transactions.facts import (
    CoordinatorTime,
    LoggedTransactions,
    OpenTransaction,
    OpenTransactions,
    TransactionUse,
)
from exporter.words import TransactionState

ONE = OpenTransaction(
    "pay-1", "pay", 7, 0, TransactionState.ONGOING, 90.0, 60.0, None, frozenset({TopicPartition("orders", 0)})
)
USE = TransactionUse(frozenset({"orders"}), {}, {})


def facts(*found: Fact) -> Facts:
    return Facts({type(fact): fact for fact in found})


def logged(
    *transactions: OpenTransaction, complete: bool = True, as_of: float | None = 50.0, missing: tuple[str, ...] = ()
) -> LoggedTransactions:
    return LoggedTransactions(OpenTransactions("txnlog", transactions, complete, missing, as_of), CoordinatorTime())


def test_a_tail_at_its_end_leaves_nothing_unknown() -> None:
    found = logged_evidence(facts(logged(ONE), USE), 100.0, 50.0 + FRESH_SECONDS)
    assert (found.now, found.topics, found.opened, found.missing) == (100.0, frozenset({"orders"}), (ONE,), ())


def test_a_cluster_without_a_transaction_is_known() -> None:
    assert logged_evidence(facts(logged(as_of=None), USE), 100.0, 50.0).missing == ()


@pytest.mark.parametrize(
    ("found", "monotonic", "missing"),
    [
        ((), 50.0, "open transactions: not read yet"),
        ((logged(ONE),), 50.0, "the topics that transactions write to, and Flink's deadlines: "),
        ((logged(ONE, complete=False, missing=("the tail is behind its end",)), USE), 50.0, "the tail is behind"),
        ((logged(ONE), USE), 50.5 + FRESH_SECONDS, "open transactions: what was read is older than "),
        ((logged(ONE, as_of=None), USE), 50.0, "open transactions: what was read is older than "),
        ((OpenTransactions("transactions", (ONE,), True, (), 50.0), USE), 50.0, "the topics that transactions write"),
    ],
)
def test_what_the_tail_does_not_know_is_said(found: tuple[Fact, ...], monotonic: float, missing: str) -> None:
    assert any(text.startswith(missing) for text in logged_evidence(facts(*found), 100.0, monotonic).missing)
