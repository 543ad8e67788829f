"""The evidence for a step that destroys data: pure rules, and values that only these rules can construct.

A transaction hangs when it is open in a partition's log, no transactional.id has it open, and its records were promised
to nobody. The proof consists of two rounds, each with five steps:

(a) DescribeProducers shows it open.
(b) The transaction log is read from its start to the high watermark that each of its partitions has after (a). Every
    record is understood, and no id is Ongoing, PrepareCommit or PrepareAbort with this producer id, nor with it as its
    previous or next one (an exhausted epoch rotates the producer id).
(c) The coordinator of every partition of the log proves to have loaded it: asked about a made-up id that hashes to the
    partition, it answers TRANSACTIONAL_ID_NOT_FOUND.
(d) DescribeProducers shows the same start offset of the same producer open, again. Its epoch, sequence number and
    timestamp are the same in both rounds: else it is alive.
(e) ``fate.judge`` says, from the log as (b) read it and the leader epochs of its partitions at (d), that the records
    were decided ABORT, or never: COMMIT, and what is not known, give no proof.

A coordinator writes a partition into the log before the partition takes a record of the transaction (KIP-98; for
Transactions V2 the leader asks the coordinator first, KIP-890), and writes Complete after the marker is in the
partition, or was given up. So a transaction that is open at (a) and at (d), and not in the log in between, belongs to
no coordinator: it was decided, and its marker was lost, or its records came late, or the log has lost its record. (e)
tells these apart. The second round guards against cases that this argument does not cover.

What an unclean election takes of the log after the second round is not foreseen: it may undo an abort.

A missing answer proves nothing: ``Round.gaps`` and ``lacking`` return messages about what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from exporter.lso.facts import Evidence
from exporter.model import TopicPartition
from exporter.transactions.decided.fate import Judgement
from exporter.transactions.facts import OpenTransaction, OpenTransactions
from exporter.transactions.outcome import OVERDUE_SLACK_SECONDS
from exporter.transactions.transaction import Transaction
from exporter.words import TransactionState

CONFIRM_SECONDS = 30.0
"""Seconds from the end of the first round to the start of the second, independent of ``stall_after``."""

_SHOWN = 3


class WriterState(NamedTuple):
    """The producer of an open transaction, as DescribeProducers shows it: these change with every record it writes.

    ``last_write`` is Unix seconds by the producer's clock.
    """

    epoch: int
    last_write: float | None = None
    last_sequence: int = -1


class OpenStart(NamedTuple):
    """A transaction that is open in a partition's log, as DescribeProducers shows it."""

    partition: TopicPartition
    producer_id: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class LogRead:
    """Result of one read of the transaction log. Instants are monotonic.

    The high watermarks were requested after ``asked``, and the read ended before ``ended``. ``partitions`` is how
    many the topic has by its metadata, 0 where that is not known; the mappings are by partition number: the high
    watermark, and the offset up to which every record from the start of the log on was read. ``undecodable`` names
    ids whose newest record was not understood. ``open_ids`` are the ids with a transaction that is not completed, by
    producer id, by the previous and by the next one.
    """

    asked: float
    ended: float
    partitions: int
    high_watermarks: Mapping[int, int]
    reached: Mapping[int, int]
    undecodable: tuple[str, ...]
    open_ids: Mapping[int, str]

    def gaps(self) -> Iterator[str]:
        """Messages about what was not read or not decoded."""
        if self.partitions <= 0:
            yield "the number of partitions of __transaction_state is not known"
        wanted = set(range(self.partitions))
        if unasked := sorted(wanted ^ set(self.high_watermarks)):
            yield f"the end of {_numbers(unasked)} of __transaction_state is not known"
        behind = [number for number, end in sorted(self.high_watermarks.items()) if self.reached.get(number, -1) < end]
        if behind:
            yield f"__transaction_state is not read to its end in {_numbers(behind)}"
        for text in self.undecodable[:_SHOWN]:
            yield f"a record of __transaction_state is not understood: {text}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Which coordinators have proven that they loaded their partition of the log, and the reason for the others, by
    partition.

    ``asked`` is the monotonic instant before the request.
    """

    asked: float
    proven: frozenset[int]
    unproven: Mapping[int, str]

    def gaps(self, partitions: int) -> Iterator[str]:
        """A message about the coordinators of that many partitions without the proof, with the first reason."""
        if missing := [number for number in range(partitions) if number not in self.proven]:
            yield (
                f"the coordinator of {_numbers(missing)} of __transaction_state does not prove to have loaded it:"
                f" {self.unproven.get(missing[0], 'it was not asked')}"
            )


@dataclass(frozen=True, slots=True)
class Round:
    """One round, (a) to (d). Instants are monotonic, ``wall`` is its end in Unix seconds.

    ``described`` is the instant of the answer of (a), ``asked_again`` the one before the request of (d). ``again`` is
    the transaction that (d) showed open at that start offset, None when there is none, and ``writer`` its producer.
    ``judgement`` is (e), what the log decided. ``owner`` is the id that the log's records of the producer id are of, ""
    where it has none: that it had the id last, not that it has anything open.
    """

    held: OpenStart
    described: float
    log: LogRead
    loaded: Loaded
    asked_again: float
    again: OpenStart | None
    wall: float
    writer: WriterState | None
    judgement: Judgement
    owner: str = ""

    def gaps(self) -> Iterator[str]:
        """Messages about what this round does not prove; none when it is complete."""
        yield from self.open_gaps()
        if not self.judgement.promised_to_nobody:
            yield from self.judgement.missing or ("it was committed: its records were promised to readers",)

    def open_gaps(self) -> Iterator[str]:
        """Messages about what is missing of (a) to (d): none where no coordinator has the transaction."""
        if self.log.asked < self.described or self.loaded.asked < self.described:
            yield "the transaction log was asked for its end before the partition was asked for its producers"
        yield from self.log.gaps()
        if (owner := self.log.open_ids.get(self.held.producer_id)) is not None:
            yield f"transactional.id {owner!r} has a transaction open in the log with this producer id"
        yield from self.loaded.gaps(self.log.partitions)
        if self.asked_again < self.log.ended:
            yield "the partition was asked again before the transaction log was read"
        if self.again != self.held:
            yield "the transaction was not open in the partition any more after the transaction log was read"


def lacking(first: Round, second: Round) -> Iterator[str]:
    """Messages about what two rounds leave unproven; none when they prove that the transaction hangs."""
    if first.held != second.held:
        yield "the two rounds are about two transactions"
    if second.described - first.asked_again < CONFIRM_SECONDS:
        yield f"the two rounds are less than {CONFIRM_SECONDS:.0f} s apart"
    if first.writer != second.writer:
        yield "its producer has written between the rounds: it is alive"
    if first.log.partitions != second.log.partitions:
        yield "the number of partitions of __transaction_state changed between the rounds"
    yield from dict.fromkeys((*first.gaps(), *second.gaps()))


@dataclass(frozen=True, slots=True)
class HangingProof(Evidence):
    """Proof that a transaction hangs: two complete rounds. Anything less raises ValueError."""

    first: Round
    second: Round

    def __post_init__(self) -> None:
        if problems := list(lacking(self.first, self.second)):
            raise ValueError("; ".join(problems))

    @property
    def held(self) -> OpenStart:
        return self.second.held

    @property
    def owner(self) -> str:
        """The transactional.id that had the producer id last; "" where the log does not have it any more."""
        return self.second.owner or self.first.owner


@dataclass(frozen=True, slots=True)
class Committed(Evidence):
    """Evidence that the transaction log decided COMMIT for a transaction that a partition shows open.

    ``seen`` is Unix seconds of the last read that showed it. ``marked`` and ``unmarked`` are its other partitions that
    have their marker and that lack it, without those where that is not known.
    """

    held: OpenStart
    decision: Transaction
    application: str
    seen: float
    marked: frozenset[TopicPartition] = frozenset()
    unmarked: frozenset[TopicPartition] = frozenset()

    def __post_init__(self) -> None:
        if not self.decision.commit or self.decision.producer_id != self.held.producer_id:
            raise ValueError("the decision is not a commit of this producer")


@dataclass(frozen=True, slots=True)
class OpenInLog(Evidence):
    """A transaction that the transaction log, read to its end, shows Ongoing. ``flink``: by its id it may be Flink's.

    ``timeout`` is seconds, None for two-phase commit (KIP-939). ``watched`` is for how many seconds, by one monotonic
    clock, it was seen to hold the same partition: a lower bound of its age that does not depend on other clocks.
    ``scan_behind`` and ``scan_late`` are as those of ``OpenTransaction``.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout: float | None
    watched: float
    flink: bool
    scan_behind: float | None = 0.0
    scan_late: float = 0.0

    @classmethod
    def of(cls, opened: OpenTransactions, transaction: OpenTransaction, *, watched: float, flink: bool) -> Self | None:
        """The evidence; None unless the open transactions come from the log and are complete."""
        from_log = opened.of_whole_log
        if not from_log or transaction.state is not TransactionState.ONGOING or not transaction.transactional_id:
            return None
        who = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
        scan = transaction.scan_behind, transaction.scan_late
        return cls(*who, transaction.timeout, watched, flink, *scan)


@dataclass(frozen=True, slots=True)
class Overdue:
    """Proof that a coordinator has an open transaction and did not end it at its timeout. Anything less raises
    ValueError.
    """

    opened: OpenInLog

    def __post_init__(self) -> None:
        if not self.holds(self.opened):
            raise ValueError("the transaction is not overdue, or may be one that a Flink job has precommitted")

    @staticmethod
    def holds(opened: OpenInLog) -> bool:
        """Return whether it is overdue. One without a timeout never is. One of Flink's never counts as overdue: the job
        commits a precommitted transaction when it starts from its checkpoint.
        """
        return opened.watched > Overdue.after(opened)

    @staticmethod
    def after(opened: OpenInLog) -> float:
        """For how many seconds it has to be watched before it is overdue; infinite where it never is, and while it is
        not known when its present coordinator ends it.
        """
        if opened.flink or opened.timeout is None or opened.scan_behind is None:
            return math.inf
        return opened.timeout + max(0.0, opened.scan_behind) + opened.scan_late + OVERDUE_SLACK_SECONDS


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
    return f"partition {shown}" if len(numbers) == 1 else f"{len(numbers)} partitions ({shown})"
