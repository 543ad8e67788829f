"""The rules of stalls: whether an LSO is stalled, and which transaction holds it. The rule for hanging is in
``lso.proof.evidence``.

Pure functions over data, with the present as an argument. A rule without enough input returns unknown, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from exporter.lso.dating import Anchor, Dated
from exporter.lso.facts import Blocker, Completion
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import BlockerKind, MarkerWait, TransactionState

# --- Whether an LSO is stalled ------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """An LSO below its high watermark, and the instant since when.

    ``exact`` is False when the instant is only that of the agent's first read. ``after`` is the monotonic instant of an
    earlier read that found the partition in another state: the stall is not older than that.
    """

    last_stable_offset: int
    since: Dated
    exact: bool
    after: float = float("-inf")

    @property
    def seen(self) -> float:
        """Since when, on the monotonic clock."""
        return self.since.at


def standing(
    before: Standing | None, last_stable_offset: int, high_watermark: int, now: float, *, watched: bool
) -> Standing | None:
    """For how long the LSO has not moved below the high watermark; None while it is at the high watermark or moves.

    A partition without writes is no stall: its LSO is at the high watermark. ``watched`` is whether an earlier read
    found its LSO at the high watermark or at another offset, so that the stall begins with this read.
    """
    if last_stable_offset >= high_watermark:
        return None
    if before is not None and before.last_stable_offset == last_stable_offset:
        return before
    return Standing(last_stable_offset, Dated(now), watched)


def is_stalled(state: Standing, stall_after: float, now: float) -> bool:
    """Return whether it has lasted for the threshold; ``now`` is monotonic: a jump of the wall clock makes no stall."""
    return now - state.seen >= stall_after


def stall_start(state: Standing, started: float | None, ended: float | None, anchor: Anchor) -> float:
    """The start of a stall that began before this process saw it, monotonic: the latest of three instants.

    They are its holder's start and the end of the transaction before it, both Unix seconds by the coordinators' clock,
    and the last read that found the partition in another state. The timestamps of the producer's records are not used.
    """
    known = [anchor.monotonic(instant) for instant in (started, ended) if instant is not None]
    return min(max(*known, state.after), state.seen) if known else state.seen


_MOST_NAMED = 3
"""Largest number of transactions that an explanation names."""

# --- The holder -------------------------------------------------------------------------------------------------


class LogProducer(NamedTuple):
    """A producer with an open transaction in a partition's log (DescribeProducers). No instant is derived from the
    timestamp of its newest record, which is by the producer's clock.
    """

    producer_id: int
    producer_epoch: int
    start_offset: int


class Coordinators(NamedTuple):
    """The answers of the coordinators: open transactions by producer id, and messages about missing answers.

    An absent producer id proves nothing: a coordinator that is not loaded yet, or a DENY on one id, hides it and
    returns no error. Only ``lso.proof.evidence`` shows that no coordinator has it. ``pending`` are the partitions whose
    markers the coordinators of decided transactions still wait for, by producer id, as far as they were asked; none for
    a transaction that has completed since.
    """

    by_producer: Mapping[int, OpenTransaction]
    missing: tuple[str, ...] = ()
    pending: Mapping[int, frozenset[TopicPartition]] = MappingProxyType({})

    def knows(self, partition: TopicPartition, producer_id: int) -> bool:
        """Return whether a transaction of this producer is open and writes to the partition."""
        transaction = self.by_producer.get(producer_id)
        return transaction is not None and partition in transaction.partitions

    def unmarked(self, transaction: OpenTransaction) -> frozenset[TopicPartition]:
        """The partitions that may lack the marker of a decided transaction."""
        return self.pending.get(transaction.producer_id, transaction.partitions)

    @classmethod
    def of(cls, transactions: Iterable[OpenTransaction], missing: Sequence[str] = ()) -> Coordinators:
        return cls({transaction.producer_id: transaction for transaction in transactions}, tuple(missing))


def holding_producer(producers: Iterable[LogProducer], last_stable_offset: int) -> LogProducer | None:
    """The producer whose open transaction holds the LSO: that with the lowest start at or below it.

    The LSO is the first unstable offset, or the log's start where that is higher (UnifiedLog.
    maybeIncrementFirstUnstableOffset): retention and DeleteRecords take records of open transactions, too, and the LSO
    then moves up while its holder stays. None where nothing open starts there: an ended transaction whose marker is not
    replicated holds it, too (ProducerStateManager.firstUnstableOffset).
    """
    at_or_below = (producer for producer in producers if producer.start_offset <= last_stable_offset)
    return min(at_or_below, key=lambda producer: producer.start_offset, default=None)


def decided(
    partition: TopicPartition, coordinators: Coordinators, held_by: int | None = None
) -> tuple[OpenTransaction, ...]:
    """The decided transactions that may wait for their marker in this partition, by their ids.

    With ``held_by``, the producer id whose transaction was seen to start at the LSO, only that one: while the LSO stays
    there, no other transaction holds it.
    """
    waiting = (
        transaction
        for transaction in coordinators.by_producer.values()
        if transaction.state is not TransactionState.ONGOING
        and partition in coordinators.unmarked(transaction)
        and held_by in {None, transaction.producer_id}
    )
    return tuple(sorted(waiting, key=lambda transaction: transaction.transactional_id))


class Replication(NamedTuple):
    """The replicas of a partition by Metadata; ``min_isr`` is None when the setting could not be read."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int | None


def completion(replication: Replication, *, written: bool) -> Completion:
    """Why a partition still waits; ``written`` is whether its leader shows the transaction as ended.

    Markers are written with acks=all: the leader refuses them while too few replicas are in sync, and a written marker
    counts once the high watermark has passed it.
    """
    wait = MarkerWait.NOT_REPLICATED if written else MarkerWait.NOT_WRITTEN
    if replication.leader is None:
        wait = MarkerWait.LEADER_AWAY
    missing = tuple(sorted(set(replication.replicas) - set(replication.isr)))
    return Completion(wait, replication.leader, tuple(sorted(replication.isr)), missing, replication.min_isr)


def name_blocker(
    partition: TopicPartition,
    last_stable_offset: int,
    producer: LogProducer | None,
    coordinators: Coordinators,
    *,
    unasked: str | None = None,
    replication: Replication | None = None,
    held_by: int | None = None,
) -> Blocker:
    """The blocker of a stalled partition: exactly one transaction.

    ``producer`` is None when DescribeProducers gave no answer or none that starts at or below the LSO. Then it is the
    decided transaction that names the partition, if there is one and no other; ``held_by`` as for ``decided``.
    A holder that no coordinator has is of kind unknown: only a proof makes it hanging. ``unasked`` is why
    DescribeProducers gave no answer; ``producer`` is then from an earlier answer. ``replication`` is None where the
    partition is not in the metadata.
    """
    known = None if producer is None else coordinators.by_producer.get(producer.producer_id)
    candidates = decided(partition, coordinators, held_by) if producer is None and unasked is None else ()
    if len(candidates) == 1:
        known = candidates[0]
    elif known is not None and partition not in known.partitions:
        known = None
    if known is not None:
        return _known(last_stable_offset, producer, known, coordinators, replication)
    if producer is None:
        nothing = (
            "no open transaction starts at or below the last stable offset, and no decided one names the partition"
        )
        if candidates:
            names = ", ".join(candidate.transactional_id for candidate in candidates[:_MOST_NAMED])
            nothing = f"{len(candidates)} decided transactions name the partition, and any may hold it: {names}"
        elif held_by is not None:
            nothing = f"the transaction of producer id {held_by} that held it has ended; the next read shows more"
        missing = (unasked,) if unasked else (nothing, *coordinators.missing)
        return Blocker("", "", None, None, last_stable_offset, BlockerKind.UNKNOWN, missing=missing)
    other = coordinators.by_producer.get(producer.producer_id)
    elsewhere = f"transactional.id {other.transactional_id!r} has this producer id open elsewhere" if other else None
    why = tuple(reason for reason in (unasked, elsewhere, *coordinators.missing) if reason)
    # A producer id belongs to one transactional.id for good (KIP-98), whatever became of this transaction.
    owner = (other.transactional_id, other.application) if other else ("", "")
    who = producer.producer_id, producer.producer_epoch
    return Blocker(*owner, *who, producer.start_offset, BlockerKind.UNKNOWN, missing=why)


def _known(
    last_stable_offset: int,
    producer: LogProducer | None,
    transaction: OpenTransaction,
    coordinators: Coordinators,
    replication: Replication | None,
) -> Blocker:
    """The blocker that a coordinator has: open, or completing with what is seen of the partition."""
    blocker = Blocker(
        transaction.transactional_id,
        transaction.application,
        transaction.producer_id,
        transaction.producer_epoch if producer is None else producer.producer_epoch,
        last_stable_offset if producer is None else producer.start_offset,
        BlockerKind.OPEN if transaction.state is TransactionState.ONGOING else BlockerKind.COMPLETING,
        transaction.state,
        transaction.started,
        transaction.timeout,
        scan_behind=transaction.scan_behind,
        scan_late=transaction.scan_late,
    )
    if blocker.kind is BlockerKind.OPEN or replication is None:
        return blocker
    waits = completion(replication, written=producer is None)
    return blocker._replace(completion=waits, unmarked=coordinators.pending.get(transaction.producer_id))
