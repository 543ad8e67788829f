"""The open transactions as samples: the same families from the log and from polling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import nsmallest

from exporter import catalogue
from exporter.lso.facts import Stalls
from exporter.model import Sample
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.outcome import OVERDUE_SLACK_SECONDS, is_overdue
from exporter.words import TransactionState

ROUNDING_SECONDS = 0.001
"""How much earlier ``first_overdue`` is, so that the rounding of sums of instants does not matter."""


def open_transaction_samples(
    cluster: str,
    transactions: Sequence[OpenTransaction],
    applications: Iterable[str],
    blockers: AbstractSet[int | None],
    most: int,
    now: float,
) -> Iterator[Sample]:
    """Counts by application, zero for those of ``applications`` with none, and the ``most`` urgent ones by id.

    The blockers of stalled partitions, by producer id, are always among them. ``now`` is Unix seconds by the
    coordinators' clock, or earlier: the instant as of which the transactions are known to be open.
    """
    counts = {application: dict.fromkeys(TransactionState, 0) for application in applications}
    overdue = dict.fromkeys(counts, 0)
    oldest: dict[str, float] = {}
    completing: dict[str, float] = {}
    for transaction in transactions:
        application, started, prepared = transaction.application, transaction.started, transaction.prepared
        if (states := counts.get(application)) is None:
            states = counts[application] = dict.fromkeys(TransactionState, 0)
            overdue[application] = 0
        states[transaction.state] += 1
        if is_overdue(transaction, now):
            overdue[application] += 1
        if started is not None and not oldest.get(application, started) < started:
            oldest[application] = started
        if prepared is not None and not completing.get(application, prepared) < prepared:
            completing[application] = prepared
    for application, states in counts.items():
        for state, count in states.items():
            yield catalogue.TRANSACTIONS_OPEN(float(count), cluster, application, state)
        yield catalogue.OVERDUE_TRANSACTIONS(float(overdue[application]), cluster, application)
    for application, instant in oldest.items():
        yield catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS(instant, cluster, application)
    for application, instant in completing.items():
        yield catalogue.OLDEST_COMPLETION_START_TIMESTAMP_SECONDS(instant, cluster, application)
    shown = _shown(transactions, blockers, most)
    for transaction in shown:
        labels = (
            transaction.transactional_id,
            str(transaction.producer_id),
            str(transaction.producer_epoch),
            transaction.state,
        )
        if transaction.started is not None:
            yield catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS(
                transaction.started, cluster, transaction.application, *labels
            )
        if transaction.timeout is not None:
            yield catalogue.OPEN_TRANSACTION_TIMEOUT_SECONDS(
                transaction.timeout, cluster, transaction.application, *labels
            )
    if len(transactions) > len(shown):
        dropped = float(len(transactions) - len(shown))
        yield catalogue.SERIES_DROPPED(dropped, catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS.name)


def _shown(
    transactions: Sequence[OpenTransaction], blockers: AbstractSet[int | None], most: int
) -> list[OpenTransaction]:
    """The most urgent, and every blocker: joined on the producer id, never on the epoch, which a Prepare raises."""
    urgent = nsmallest(
        most, transactions, key=lambda transaction: math.inf if transaction.due is None else transaction.due
    )
    shown = {transaction.transactional_id: transaction for transaction in urgent}
    if blockers:
        shown |= {
            transaction.transactional_id: transaction
            for transaction in transactions
            if transaction.producer_id in blockers
        }
    return list(shown.values())


def blocking_producers(stalls: Stalls | None) -> frozenset[int | None]:
    """The producer ids of the transactions that hold stalled partitions."""
    if stalls is None:
        return frozenset()
    return frozenset({stall.blocker.producer_id for stall in stalls.stalls})


def first_overdue(transactions: Iterable[OpenTransaction]) -> float:
    """The instant (Unix seconds) up to which none of them is overdue; infinite when none ever is."""
    instants = (
        ends + transaction.scan_late
        for transaction in transactions
        if (ends := transaction.ends) is not None and transaction.state is TransactionState.ONGOING
    )
    return min(instants, default=math.inf) + OVERDUE_SLACK_SECONDS - ROUNDING_SECONDS
