"""Pure rules about what a broker coordinates, and what of it cannot wait for its successor.

The new leader of a partition of the transaction log loads it before it answers. An open transaction outlives that,
unless its timeout ends first; a decided one gets its markers from the new coordinator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from exporter.bounds.text import some
from exporter.flink.facts import FlinkTransaction, FlinkTransactions
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE
from exporter.model import Facts
from exporter.roll.facts import RollAnswer, RollEvidence, RollReason, RollRow
from exporter.transactions.facts import LoggedTransactions, OpenTransaction, OpenTransactions, TransactionUse
from exporter.words import TransactionState

NO_HOUR = "the topics that transactions write to, and Flink's deadlines: "
FRESH_SECONDS = 10.0
"""A transaction may begin and be decided since: an older state is not known to be that of the moment."""
_NOT_AT_END = "the end of the transaction log was not reached"


@dataclass(frozen=True, slots=True)
class LoggedEvidence:
    """Transactions by the log, or by the coordinators: ``topics`` they wrote to, those that are
    open, those of Flink jobs by producer id, and messages about what could not be read. ``now`` is Unix seconds by the
    coordinators' clock.
    """

    now: float
    topics: frozenset[str] = frozenset()
    opened: tuple[OpenTransaction, ...] = ()
    flink: Mapping[int, FlinkTransaction] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def _age(opened: OpenTransactions, monotonic: float) -> float:
    """Seconds since the transactions were open; those of a cluster that has none are of the last read."""
    if opened.as_of is None:
        return math.inf if opened.transactions else 0.0
    return monotonic - opened.as_of


def logged_evidence(facts: Facts, now: float, monotonic: float) -> LoggedEvidence:
    """The evidence in the facts of one cluster at this instant: Unix seconds by the coordinators' clock, and ours.

    Open transactions are by the coordinators where the log is refused.
    """
    logged, use = facts.get(LoggedTransactions), facts.get(TransactionUse)
    opened = logged.opened if logged is not None else facts.get(OpenTransactions)
    flink = facts.get(FlinkTransactions) or FlinkTransactions({})
    missing: list[str] = []
    if opened is None:
        missing.append("open transactions: not read yet")
    elif not opened.complete:
        missing += opened.missing
    elif _age(opened, monotonic) > FRESH_SECONDS:
        missing.append(f"open transactions: what was read is older than {FRESH_SECONDS:g} s")
    if logged is None or use is None:
        missing.append(f"{NO_HOUR}{_NOT_AT_END}")
    return LoggedEvidence(
        now,
        use.topics if use is not None else frozenset(),
        opened.transactions if opened is not None else (),
        flink.by_producer,
        tuple(dict.fromkeys(missing)),
    )


MOVE_SECONDS = 15.0
"""Seconds in which a coordinator moves and loads its part of the log, with a margin."""
PENDING_SECONDS = 2.0
"""A decision that waits longer for its markers is not one of the ordinary ones, which take milliseconds."""
STUCK_SECONDS = 30.0
AGAIN_SECONDS = 5.0
"""After so long a decision that waits is looked at again."""
MOST_ROWS = 20
_SHOWN = 5


def coordination_rows(evidence: RollEvidence, broker: int, outage: float) -> Iterator[RollRow]:
    """The rows about transactions, groups and Connect clusters; ``outage`` is seconds."""
    log = evidence.topics.get(TRANSACTION_STATE, {})
    led = {number for number, partition in log.items() if partition.leader == broker}
    own = [
        transaction
        for transaction in evidence.opened
        if log and coordinator_partition(transaction.transactional_id, len(log)) in led
    ]
    touched = [
        transaction
        for transaction in evidence.opened
        if transaction in own or _writes_to(evidence, transaction, broker)
    ]
    yield from limited(_pending(evidence, touched), "decisions")
    yield from limited(_timeouts(evidence, own), "open transactions")
    yield from limited(_flink(evidence, touched, outage), "transactions of Flink")
    if own:
        begun = [transaction.started for transaction in own if transaction.started is not None]
        oldest = f", the oldest since {evidence.now - min(begun):.0f} s" if begun else ""
        stuck = sum(
            not _moves(evidence, TRANSACTION_STATE, transaction.transactional_id, broker) for transaction in own
        )
        then = f"{stuck} of them cannot end before it is back" if stuck else "another broker takes them over"
        text = f"{len(own)} open{oldest}: {then}"
        yield RollRow(RollAnswer.SAFE, RollReason.OPEN_TRANSACTIONS, f"broker {broker}", text)
    yield from _groups(evidence, broker)
    for transaction in evidence.unaccounted[:MOST_ROWS]:
        text = (
            f"open from offset {transaction.start_offset} on, producer id {transaction.producer_id}, at no coordinator:"
            " the stop changes nothing for it; `transactions hanging` says what it is"
        )
        yield RollRow(RollAnswer.SAFE, RollReason.NOT_ACCOUNTED, str(transaction.partition), text)


def _writes_to(evidence: RollEvidence, transaction: OpenTransaction, broker: int) -> bool:
    """Return whether the broker leads a partition of the transaction, or nobody does: then it may have led it."""
    for topic, number in transaction.partitions:
        known = evidence.topics.get(topic, {}).get(number)
        if known is not None and known.leader in {broker, None}:
            return True
    return False


def _pending(evidence: RollEvidence, touched: list[OpenTransaction]) -> Iterator[RollRow]:
    for transaction in touched:
        if transaction.state is TransactionState.ONGOING:
            continue
        waited = evidence.now - transaction.prepared if transaction.prepared is not None else math.inf
        if waited < PENDING_SECONDS:
            continue
        word = "COMMIT" if transaction.state is TransactionState.PREPARE_COMMIT else "ABORT"
        since = "" if math.isinf(waited) else f" since {waited:.0f} s"
        leaderless = [
            str(place)
            for place in sorted(transaction.partitions)
            if (known := evidence.topics.get(place.topic, {}).get(place.partition)) is not None and known.leader is None
        ]
        if leaderless:
            text = (
                f"{word} decided{since}, {', '.join(leaderless[:_SHOWN])} without a leader: a coordinator that is moved"
                " passes over it, and the marker is lost"
            )
            yield RollRow(RollAnswer.NO, RollReason.MARKERS_PENDING, transaction.transactional_id, text)
        elif waited >= STUCK_SECONDS:
            text = f"{word} decided{since}, and its markers are not written: see `transactions stalled` first"
            yield RollRow(RollAnswer.NO, RollReason.MARKERS_PENDING, transaction.transactional_id, text)
        else:
            text = f"{word} decided{since}, its markers are being written"
            yield RollRow(
                RollAnswer.WAIT, RollReason.MARKERS_PENDING, transaction.transactional_id, text, AGAIN_SECONDS
            )


def _timeouts(evidence: RollEvidence, own: list[OpenTransaction]) -> Iterator[RollRow]:
    for transaction in own:
        started, due = transaction.started, transaction.due
        if transaction.state is not TransactionState.ONGOING or started is None or due is None:
            continue
        left = due - evidence.now
        if left < MOVE_SECONDS:
            text = (
                f"open since {evidence.now - started:.0f} s, its timeout of {transaction.timeout:g} s"
                f" ends in {max(0.0, left):.0f} s: it cannot be committed while its coordinator moves"
            )
            # A coordinator looks for timeouts every 10 s.
            seconds = max(1.0, math.ceil(left) + 10.0)
            yield RollRow(RollAnswer.WAIT, RollReason.TIMEOUT_NEAR, transaction.transactional_id, text, seconds)


def _flink(evidence: RollEvidence, touched: list[OpenTransaction], outage: float) -> Iterator[RollRow]:
    for transaction in touched:
        known = evidence.flink.get(transaction.producer_id)
        if known is None or known.deadline is None:
            continue
        left = known.deadline - evidence.now
        if left >= outage + MOVE_SECONDS:
            continue
        text = (
            f"a transaction of the Flink job {known.id.prefix!r} that is lost if it is not committed within"
            f" {max(0.0, left):.0f} s; the outage takes {outage:g} s"
        )
        if known.at_risk or known.interval is None:
            text += ": bring the job to its next checkpoint first"
            yield RollRow(RollAnswer.NO, RollReason.FLINK_DEADLINE, transaction.transactional_id, text)
        else:
            text += f": its next checkpoint, every {known.interval:.0f} s, commits it"
            yield RollRow(
                RollAnswer.WAIT, RollReason.FLINK_DEADLINE, transaction.transactional_id, text, known.interval
            )


def _groups(evidence: RollEvidence, broker: int) -> Iterator[RollRow]:
    groups = evidence.groups.get(broker, ())
    for moves, then in ((True, "find another coordinator"), (False, "have no coordinator before it is back")):
        found = [group for group in groups if _moves(evidence, CONSUMER_OFFSETS, group.name, broker) is moves]
        workers = sorted(group.name for group in found if group.protocol == "connect")
        others = sorted(group.name for group in found if group.protocol != "connect")
        if others:
            text = f"{len(others)} groups {then}: {some(others, _SHOWN)}"
            yield RollRow(RollAnswer.SAFE, RollReason.GROUPS, f"broker {broker}", text)
        if workers:
            text = f"{len(workers)} Connect clusters {then}: {some(workers, _SHOWN)}"
            yield RollRow(RollAnswer.SAFE, RollReason.CONNECT, f"broker {broker}", text)


def _moves(evidence: RollEvidence, topic: str, name: str, broker: int) -> bool:
    """Return whether another replica in sync can coordinate what this internal topic has of a group or an id."""
    partitions = evidence.topics.get(topic, {})
    known = partitions.get(coordinator_partition(name, len(partitions))) if partitions else None
    return known is not None and set(known.isr) != {broker}


def limited(rows: Iterable[RollRow], what: str) -> Iterator[RollRow]:
    """The first ``MOST_ROWS``, the worst of the others summed up in one."""
    found = list(rows)
    yield from found[:MOST_ROWS]
    if rest := found[MOST_ROWS:]:
        worst = min(rest, key=lambda row: ORDER[row.effect])
        seconds = max((row.seconds for row in rest if row.seconds is not None), default=None)
        yield RollRow(worst.effect, worst.reason, f"{len(rest)} more {what}", "as those above", seconds)


ORDER = {RollAnswer.NO: 0, RollAnswer.WAIT: 1, RollAnswer.UNKNOWN: 2, RollAnswer.SAFE: 3}
"""The worst first: an answer that is certain before one that is not known."""
