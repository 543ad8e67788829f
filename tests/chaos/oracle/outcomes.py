"""The outcome of every transaction, from the whole log of its id.

Read with hindsight: a record that was written again because its append timed out, or because the coordinator moved, is
the same step. The rules for an abort:

1. A client before Transactions V2 keeps its epoch when it aborts, and the server never does: the client's own. Either
   may be in the log although its append failed for the coordinator, which then took the other one: where the first
   Prepare record or the Complete record has the epoch of the data, the client had aborted.
2. Decided when it was open for its timeout or longer: timed out, but fenced when the next step is the Empty record of
   the next incarnation, appended within one second: its InitProducerId came before the coordinator's scan.
3. The epoch of a client before Transactions V2 was raised before the timeout: only an InitProducerId does that. Fenced.
4. A Transactions V2 client, and the next step is the Empty record of the next incarnation, appended within five
   seconds: fenced. Otherwise its own abort.

The next incarnation has the next epoch of the same producer id, or a new producer id when the epochs are used up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.oracle.transaction_log import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    State,
)

FENCE_MS = 5000
LATE_FENCE_MS = 1000
LAST_EPOCH = 32766
V2 = 2
OUTCOMES = ("committed", "aborted", "timed_out", "fenced")


class OracleTransaction(NamedTuple):
    """One transaction. ``decided`` and ``completed`` are append times, 0 while it is not; ``epoch`` wrote its data.

    ``prepared_at`` is the offset of the first Prepare record, -1 where there is none.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    client_version: int
    started: int
    timeout: int
    decided: int
    completed: int
    outcome: str
    partitions: frozenset[tuple[str, int]]
    log_partition: int
    offset: int
    prepared_at: int = -1

    @property
    def application(self) -> str:
        return self.transactional_id.rpartition("-")[0]


@dataclass
class _OpenTransaction:
    first: State
    ongoing: State | None
    prepared: State | None = None
    partitions: set[tuple[str, int]] = field(default_factory=set)


@dataclass
class IdHistory:
    """All that the log says of one id."""

    transactions: list[OracleTransaction] = field(default_factory=list)
    open: OracleTransaction | None = None
    inits: int = 0
    producer_ids: set[int] = field(default_factory=set)


def history(records: Iterable[State]) -> IdHistory:
    """The history of one id from its records, in offset order."""
    steps = [record for record in records if record.status is not None]
    found = IdHistory()
    now: _OpenTransaction | None = None
    last_init: tuple[int, int] | None = None
    last_done: State | None = None
    for number, record in enumerate(steps):
        found.producer_ids.add(record.producer_id)
        if record.status == EMPTY:
            if (record.producer_id, record.epoch) != last_init:
                found.inits += 1
                last_init = (record.producer_id, record.epoch)
        elif record.status in (COMPLETE_COMMIT, COMPLETE_ABORT):
            again = last_done is not None and _same(last_done, record)
            if not again:
                now = now or _OpenTransaction(record, None)
                found.transactions.append(_finished(now, record, steps[number + 1 :]))
                last_done, now = record, None
        else:
            if now is None or now.first.started != record.started:
                now = _OpenTransaction(record, None)
            if record.status == ONGOING:
                now.ongoing = record
            elif now.prepared is None or now.prepared.status != record.status:
                now.prepared = record
            now.partitions |= record.partitions
    if now is not None:
        found.open = _transaction(now, "", 0, now.prepared.appended if now.prepared else 0, now.prepared or now.first)
    return found


def _same(one: State, other: State) -> bool:
    return (one.status, one.started, one.updated, one.producer_id, one.epoch) == (
        other.status,
        other.started,
        other.updated,
        other.producer_id,
        other.epoch,
    )


def _finished(now: _OpenTransaction, done: State, after: list[State]) -> OracleTransaction:
    decided = now.prepared.appended if now.prepared is not None else done.updated
    outcome = "committed" if done.status == COMPLETE_COMMIT else _abort(now, done, after)
    return _transaction(now, outcome, done.appended, decided, done)


def _transaction(now: _OpenTransaction, outcome: str, completed: int, decided: int, last: State) -> OracleTransaction:
    origin = now.ongoing or now.first
    return OracleTransaction(
        last.transactional_id,
        origin.producer_id,
        origin.epoch,
        origin.client_version,
        now.first.started,
        origin.timeout,
        decided,
        completed,
        outcome,
        frozenset(now.partitions),
        last.log_partition,
        last.offset,
        now.prepared.offset if now.prepared is not None else -1,
    )


def _abort(now: _OpenTransaction, done: State, after: list[State]) -> str:
    origin = now.ongoing or now.first
    v2 = origin.client_version >= V2
    prepared = now.prepared or done
    kept = (origin.producer_id, origin.epoch) in {(state.producer_id, state.epoch) for state in (prepared, done)}
    if not v2 and kept:
        return "aborted"
    # By the coordinator's clock, whichever wrote the begin: it is what TransactionStateManager compares.
    if prepared.updated + prepared.shift - origin.started - origin.started_shift >= origin.timeout:
        return "fenced" if _displaced(done, after, LATE_FENCE_MS) else "timed_out"
    return "fenced" if not v2 or _displaced(done, after, FENCE_MS) else "aborted"


def _displaced(done: State, after: list[State], within_ms: int) -> bool:
    """Whether the next incarnation's Empty record follows a Complete record within this time."""
    following = next((state for state in after if not _same(done, state)), None)
    if following is None or following.status != EMPTY or following.appended - done.appended > within_ms:
        return False
    if following.producer_id == done.producer_id:
        return following.epoch == done.epoch + 1
    return following.epoch == 0 and done.epoch >= LAST_EPOCH


def histories(records: Iterable[State]) -> dict[str, IdHistory]:
    """The history of every id."""
    by_id: dict[str, list[State]] = {}
    for record in records:
        by_id.setdefault(record.transactional_id, []).append(record)
    return {transactional_id: history(records) for transactional_id, records in by_id.items()}


__all__ = ["OUTCOMES", "PREPARE_ABORT", "PREPARE_COMMIT", "IdHistory", "OracleTransaction", "histories", "history"]
