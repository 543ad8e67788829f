"""The rules of stalls: whether an LSO is stalled, who holds it, and whether that transaction hangs.

Pure functions over data, with the present as an argument. A rule that cannot know says unknown, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.model import (
    Blocker,
    BlockerKind,
    OpenTransaction,
    TopicPartition,
    TransactionState,
)

# --- Whether an LSO is stalled ------------------------------------------------------------------------------------


class Standing(NamedTuple):
    """An LSO below its high watermark, and since when: ``seen`` on the monotonic clock, ``since`` in Unix seconds.

    ``exact`` is False when the agent's own first look is all that ``since`` rests on.
    """

    last_stable_offset: int
    seen: float
    since: float
    exact: bool


def standing(
    before: Standing | None, last_stable_offset: int, high_watermark: int, now: float, wall: float, *, watched: bool
) -> Standing | None:
    """How long the LSO has stood still below the high watermark; None while it does not.

    A quiet partition is no stall: its LSO stands still at the high watermark. ``watched`` says that the partition was
    read before and its LSO was then at the high watermark or elsewhere, so that the standing began just now.
    """
    if last_stable_offset >= high_watermark:
        return None
    if before is not None and before.last_stable_offset == last_stable_offset:
        return before
    return Standing(last_stable_offset, now, wall, watched)


def remembered(state: Standing, since: float, now: float, wall: float) -> Standing:
    """The standing of an LSO that was seen at this offset before a gap or a restart, ``since`` then."""
    return state._replace(seen=now - max(0.0, wall - since), since=since, exact=True)


def is_stalled(state: Standing, stall_after: float, now: float) -> bool:
    """Whether it has stood for the threshold; ``now`` is monotonic: a wall clock that jumps stalls nothing."""
    return now - state.seen >= stall_after


# --- Who holds it, and does that transaction hang -----------------------------------------------------------------


class LogProducer(NamedTuple):
    """A producer with an open transaction in a partition's log (DescribeProducers)."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    last_timestamp: float | None


class Coordinators(NamedTuple):
    """What the coordinators say: the open transactions by producer id, and what could not be asked.

    ``missing`` is empty only when every coordinator answered, and DESCRIBE on all transactional ids is proven or the
    tail of the log is current: only then does an absent producer id mean that no coordinator knows it.
    """

    by_producer: Mapping[int, OpenTransaction]
    missing: tuple[str, ...] = ()

    def knows(self, partition: TopicPartition, producer_id: int) -> bool:
        """Whether a transaction of this producer is open and writes to the partition."""
        transaction = self.by_producer.get(producer_id)
        return transaction is not None and partition in transaction.partitions

    @classmethod
    def of(cls, transactions: Iterable[OpenTransaction], missing: Sequence[str] = ()) -> Coordinators:
        return cls({transaction.producer_id: transaction for transaction in transactions}, tuple(missing))


class Suspicion(NamedTuple):
    """An open start offset that no coordinator knew when it was first asked, at ``asked`` on the monotonic clock."""

    producer_id: int
    start_offset: int
    asked: float


def suspect(
    before: Suspicion | None, partition: TopicPartition, producer: LogProducer, coordinators: Coordinators, now: float
) -> Suspicion | None:
    """Since when a transaction in the log is unknown to its coordinator; None when it is known or cannot be asked.

    A read that could not ask proves nothing, in either direction: an older suspicion stands and is not confirmed by it.
    """
    if coordinators.knows(partition, producer.producer_id):
        return None
    same = before is not None and (before.producer_id, before.start_offset) == (
        producer.producer_id,
        producer.start_offset,
    )
    if same:
        return before
    return None if coordinators.missing else Suspicion(producer.producer_id, producer.start_offset, now)


def is_hanging(suspicion: Suspicion | None, coordinators: Coordinators, wait: float, now: float) -> bool:
    """Whether two full answers, at least ``wait`` seconds apart, found the same offset open and unknown.

    The cross-check of Kafka's TransactionsCommand find-hanging, with a second read in place of its 15-minute age: a
    marker that was on its way has arrived by then.
    """
    return suspicion is not None and not coordinators.missing and now - suspicion.asked >= wait


def holder(producers: Iterable[LogProducer], last_stable_offset: int) -> LogProducer | None:
    """The producer whose open transaction starts at the LSO, which is what holds it there (ProducerStateManager)."""
    for producer in producers:
        if producer.start_offset == last_stable_offset:
            return producer
    return None


def name_blocker(
    partition: TopicPartition,
    last_stable_offset: int,
    producer: LogProducer | None,
    coordinators: Coordinators,
    *,
    hanging: bool,
    unasked: str | None = None,
) -> Blocker:
    """Exactly one transaction for a stalled partition.

    ``producer`` is None when DescribeProducers gave no answer or none that starts at the LSO: the LSO moved on between
    the reads. Then, and whenever hanging is not proven and no coordinator knows it, it is unknown. ``unasked`` says why
    DescribeProducers gave no answer; ``producer`` is then that of an earlier one.
    """
    if producer is None:
        missing = unasked or "no open transaction starts at the last stable offset any more: it is moving"
        return Blocker("", "", None, None, last_stable_offset, BlockerKind.UNKNOWN, missing=(missing,))
    if coordinators.knows(partition, producer.producer_id):
        transaction = coordinators.by_producer[producer.producer_id]
        kind = BlockerKind.OPEN if transaction.state is TransactionState.ONGOING else BlockerKind.COMPLETING
        return Blocker(
            transaction.transactional_id,
            transaction.application,
            producer.producer_id,
            producer.producer_epoch,
            producer.start_offset,
            kind,
            transaction.state,
            transaction.started,
            transaction.timeout,
        )
    kind = BlockerKind.HANGING if hanging else BlockerKind.UNKNOWN
    why: tuple[str, ...] = ()
    if not hanging:
        first = "no coordinator knows it in the first of two reads: a marker may be on its way"
        why = tuple(each for each in (unasked, *coordinators.missing) if each) or (first,)
    return Blocker(
        "",
        "",
        producer.producer_id,
        producer.producer_epoch,
        producer.start_offset,
        kind,
        started=None,
        missing=why,
    )
