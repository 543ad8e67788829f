"""The fate of a transaction that a partition shows open and no coordinator has: pure functions.

A transaction is decided by its Prepare record in the transaction log. From then on its coordinator sends a marker to
every partition that the record names, and answers the client's EndTxn with success at once
(TransactionCoordinator.endTransaction). A marker can be lost: a partition without a leader is passed over
(TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue), and an unclean election takes the last records of a
partition. The partition then shows a transaction open that nobody has open any more.

What is open in a partition are all records of a producer id since its last marker there (ProducerAppendInfo), of one
transaction or of several. ``judge`` looks for the decisions that these records may belong to:

- The producer epoch never falls in a partition: records have an epoch from that of the first open record to the last.
- In Transactions V2 each transaction has an epoch of its own, so that an epoch names its decision (KIP-890). In older
  clients transactions share an epoch, and their order shows which one it is.
- A transaction decided before the first open record was written has no open record: a client ends a transaction after
  its records are written. The order of the log and of the partition is known from a marker in the partition below the
  open records, or from a process that read the log, and the end of the partition after that.

That no COMMIT is in the log proves nothing where the log may have lost one: compaction and expiry take records, and an
unclean election takes the newest. A client of an older protocol is then even told that its commit succeeded while no
decision is written: its coordinator has CompleteCommit of the transaction before. So "never decided" needs a part of
the log without a gap and without an election, from a decision known to be older than the open records, or from the
log's first record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from exporter.model import Fact, TopicPartition, Word
from exporter.transactions.transaction import Transaction

if TYPE_CHECKING:  # it imports kafka-python, which the page does not need
    from exporter.kafka.log.batches import Marker

CLOCK_SLACK_SECONDS = 5.0
"""Allowed difference of two brokers' clocks, for the order of a decision and a marker."""


class Fate(Word):
    """The fate of a transaction by the transaction log."""

    COMMITTED = "committed"
    """Decided COMMIT: its records were promised to readers."""
    ABORTED = "aborted"
    """Decided ABORT: its records were promised to nobody."""
    NEVER = "never"
    """Proven to be decided by nobody: nobody was told that it is committed."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ClocksApart(Fact):
    """The whole seconds between the clocks that are furthest apart of those that date what was decided in the last
    minutes, and the coordinators of now whose clocks are known.
    """

    seconds: int
    brokers: frozenset[int] = frozenset()

    @property
    def far(self) -> bool:
        """Return whether times of two brokers say nothing of an order."""
        return self.seconds >= CLOCK_SLACK_SECONDS


class Judgement(NamedTuple):
    """The fate of a transaction in one partition.

    ``decision`` is the decision that its records belong to, for committed and aborted. ``missing`` are messages about
    what would have to be known, and how to find out, for unknown; none for any other fate. ``gap``: no decision that is
    known may be that of its records, and one may be missing.
    """

    fate: Fate
    decision: Transaction | None = None
    missing: tuple[str, ...] = ()
    gap: bool = False

    @property
    def promised_to_nobody(self) -> bool:
        """Return whether it is proven that no client was told that it is committed, nor will be."""
        return self.fate in {Fate.ABORTED, Fate.NEVER}


class OpenRecords(NamedTuple):
    """The open records of one producer in one partition, and what the partition's log shows of it.

    ``last_epoch`` is that of DescribeProducers, ``first_epoch`` that of the first open record, None where it was not
    read. ``marker`` is the last marker of the producer below them, as far as the partition was read; ``unmarked`` says
    that it was read from its offset 0 and has none. ``ended`` is the log offset of the newest decision whose own marker
    is below them, -1 where none of the known ones has it there; None where it is not known.
    """

    partition: TopicPartition
    producer_id: int
    last_epoch: int
    first_epoch: int | None = None
    marker: Marker | None = None
    unmarked: bool = False
    ended: int | None = None


class ProducerLog(NamedTuple):
    """The known part of the transaction log of one producer id, in the order of the log.

    From offset ``whole_from`` on, every record that was written to the log is known, and no election can have taken
    one; 0 for all since the log began, None for no such offset. ``gaps`` say why not. ``passed``: everything below this
    offset was in the log before the first open record was in its partition.
    """

    decisions: tuple[Transaction, ...] = ()
    whole_from: int | None = None
    passed: int = -1
    gaps: tuple[str, ...] = ()


def judge(records: OpenRecords, log: ProducerLog) -> Judgement:
    """Judge the open records. Precondition: no coordinator has a transaction of this producer open.

    1. A COMMIT that may be theirs: committed where its records are known to be among them, else unknown.
    2. ABORT of the only transaction that they can belong to: aborted.
    3. A log without a gap since before them, and no COMMIT in it: aborted or never.
    """
    marked = _marked(records, log)
    before = max(
        (decision.offset for decision in log.decisions if _is_before(decision, records, log, marked)), default=-1
    )
    # The transactions of one id come one after the other: with one decision all earlier ones are before.
    later = [
        decision for decision in log.decisions if decision.offset > before and not _is_below(decision, records, marked)
    ]
    candidates = [decision for decision in later if _may_own(decision, records)]
    commits = [candidate for candidate in candidates if candidate.commit]
    if (owner := next((commit for commit in commits if _owns(commit, records)), None)) is not None:
        return Judgement(Fate.COMMITTED, owner)
    if commits:
        return Judgement(Fate.UNKNOWN, None, (_ambiguous(commits[-1], records),))
    aborts = [candidate for candidate in candidates if not candidate.commit]
    if (only := next((abort for abort in aborts if _is_only(abort, records)), None)) is not None:
        return Judgement(Fate.ABORTED, only)
    if log.whole_from is not None and log.whole_from <= max(0, log.passed, before):
        return Judgement(Fate.ABORTED, aborts[-1]) if aborts else Judgement(Fate.NEVER)
    return Judgement(Fate.UNKNOWN, None, (*(log.gaps or (NO_ANCHOR,)), _how_to_find_out(log)), gap=True)


NO_ANCHOR = (
    "the transaction log does not reach back without a gap to before this transaction: a commit of it may be missing"
)


def _how_to_find_out(log: ProducerLog) -> str:
    """Whom to ask: a producer id belongs to one transactional.id."""
    owner = f"of {log.decisions[-1].transactional_id!r}" if log.decisions else "of the producer"
    return (
        f"ask the owner {owner} whether its commit succeeded, and compare with `audit markers`; an agent that has"
        " followed the log from before the transaction knows by itself"
    )


def _ambiguous(commit: Transaction, records: OpenRecords) -> str:
    return (
        f"a commit of {commit.transactional_id!r} may be that of these records: it is not known whether"
        f" {records.partition} has its marker before them"
    )


def _may_own(decision: Transaction, records: OpenRecords) -> bool:
    """Return whether open records may be of this transaction, by epoch and partition."""
    if min(decision.client_epochs) > records.last_epoch:
        return False
    if records.first_epoch is not None and max(decision.client_epochs) < records.first_epoch:
        return False
    # In V2 a leader adds its partition before it takes a record. The record of the log that names it may be lost.
    named = decision.partitions is None or records.partition in decision.partitions
    return named or (decision.v2 and bool(decision.client_epochs & _ends(records)))


def _owns(decision: Transaction, records: OpenRecords) -> bool:
    """Return whether open records are known to be of this transaction, which may own them."""
    if decision.v2 and decision.client_epochs & _ends(records):
        return True
    if decision.partitions is None or records.partition not in decision.partitions:
        return False
    # A marker of a transaction between the first and the last one would have ended the records before it.
    if records.unmarked or (decision.v2 and records.first_epoch is not None):
        return True
    if records.ended is not None:
        return decision.offset > records.ended
    # The last marker is older than the decision, whose own is not there: it would have ended the records.
    marker = records.marker
    return marker is not None and marker.timestamp_ms / 1000 + CLOCK_SLACK_SECONDS < decision.decided_at


def _is_only(decision: Transaction, records: OpenRecords) -> bool:
    """Return whether all open records are of this transaction, and no other decision about it was lost."""
    return decision.v2 and decision.sure and decision.client_epochs == {records.first_epoch} == {records.last_epoch}


def _ends(records: OpenRecords) -> frozenset[int]:
    """The epochs that open records are known to have."""
    return frozenset(epoch for epoch in (records.first_epoch, records.last_epoch) if epoch is not None)


def _marked(records: OpenRecords, log: ProducerLog) -> int:
    """Return the log offset of the first decision whose own the marker below the open records may be, -1 for none.

    The partition's leader stamps the marker, and the coordinator the decision. Where no decision is as old as the
    marker, the clocks of the two differ, and times say nothing of their order.
    """
    marker = records.marker
    if marker is None:
        return -1
    at, slack = marker.timestamp_ms / 1000, CLOCK_SLACK_SECONDS
    return min(
        (
            decision.offset
            for decision in log.decisions
            if decision.commit is marker.commit
            and marker.producer_epoch in decision.marker_epochs
            and (decision.partitions is None or records.partition in decision.partitions)
            and decision.decided_at - slack <= at
            and at <= decision.ended + slack
        ),
        default=-1,
    )


def _is_below(decision: Transaction, records: OpenRecords, marked: int) -> bool:
    """Return whether the records of the transaction are before a marker below the open records, by epoch or time."""
    marker = records.marker
    if marker is None:
        return False
    higher = marker.producer_epoch > max(decision.client_epochs)
    by_time = marker.timestamp_ms / 1000 >= decision.decided_at + CLOCK_SLACK_SECONDS
    return higher or (decision.offset <= marked and by_time)


def _is_before(decision: Transaction, records: OpenRecords, log: ProducerLog, marked: int) -> bool:
    """Return whether the decision was made before the first open record was written.

    It was, where the last marker below that record is its own or a later one's. A marker is from before the decision
    where its coordinator has a lower epoch: that is the leader epoch of the log. Else the order is that of the epochs
    in V2, of a COMMIT after the begin of the transaction, about as old as the decision or newer (an ABORT may be
    written by hand at any time), or of time, as far as ``marked``.
    """
    if decision.offset < log.passed:
        return True
    marker = records.marker
    if marker is None or not decision.sure or marker.coordinator_epoch < decision.leader_epoch:
        return False
    if marker.producer_epoch >= max(decision.marker_epochs) + (0 if decision.v2 else 1):
        return True
    if decision.offset > marked:
        return False
    at, slack = marker.timestamp_ms / 1000, CLOCK_SLACK_SECONDS
    if not marker.commit or decision.started is None:
        return at - slack >= decision.decided_at
    return at - slack > decision.started and at + slack >= decision.decided_at
