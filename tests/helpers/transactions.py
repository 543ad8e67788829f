"""Transactions that ended, from the few values that a test is about."""

from __future__ import annotations

from exporter.model import TopicPartition
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome


def finished(
    transactional_id: str,
    application: str,
    outcome: Outcome | str,
    producer_id: int,
    started: float | None,
    ended: float,
    *,
    epoch: int = 1,
    prepared: float | None = None,
    version: int = 0,
    places: frozenset[TopicPartition] | None = None,
) -> Transaction:
    """A transaction that ended; ``started``, ``prepared`` and ``ended`` are Unix seconds."""
    return Transaction(
        transactional_id,
        producer_id,
        frozenset({epoch}),
        frozenset({epoch}),
        outcome == Outcome.COMMITTED,
        application,
        epoch,
        version,
        Outcome(outcome),
        -1 if started is None else round(1000 * started),
        round(1000 * (ended if prepared is None else prepared)),
        round(1000 * ended),
        60_000,
        places,
        0,
        0,
    )


def unclean_end(
    transactional_id: str,
    application: str,
    producer_id: int,
    epoch: int,
    outcome: Outcome | str,
    ended: float,
    started: float | None,
) -> Transaction:
    """A fence or a timeout."""
    return finished(transactional_id, application, outcome, producer_id, started, ended, epoch=epoch)


def decision_of(
    transactional_id: str,
    producer_id: int,
    client_epochs: frozenset[int],
    marker_epochs: frozenset[int],
    *,
    commit: bool,
    v2: bool,
    begun: float | None = None,
    at: float,
    completed: float | None = None,
    partitions: frozenset[TopicPartition] | None = None,
) -> Transaction:
    """A decision; times are Unix seconds."""
    return Transaction(
        transactional_id,
        producer_id,
        client_epochs,
        marker_epochs,
        commit,
        client_version=2 if v2 else 0,
        begun_ms=-1 if begun is None else round(1000 * begun),
        prepared_ms=round(1000 * at),
        completed_ms=None if completed is None else round(1000 * completed),
        partitions=partitions,
    )
