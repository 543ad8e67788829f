"""Stalled partitions and the transactions that hold them: values that other rooms take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from exporter.flink.facts import FlinkTransaction
from exporter.model import Fact, TopicPartition
from exporter.words import BlockerKind, MarkerWait, TransactionState


class Completion(NamedTuple):
    """State of a partition that waits for the marker of a decided transaction.

    ``missing`` are the replicas that are not in sync, by broker id; ``min_isr`` is None when it could not be asked.
    """

    wait: MarkerWait
    leader: int | None
    isr: tuple[int, ...]
    missing: tuple[int, ...]
    min_isr: int | None


class Evidence:
    """Evidence for a step that destroys data. ``lso.proof.evidence`` has its kinds, and the rules to construct them."""

    __slots__ = ()


class Blocker(NamedTuple):
    """The transaction that holds the LSO of a stalled partition: the one with the lowest open start at or below it.

    ``transactional_id`` is "" when no coordinator has it (hanging) or it could not be asked (unknown).
    ``producer_id`` and ``producer_epoch`` are None when DescribeProducers could not be asked. ``start_offset`` is the
    LSO itself where no start is known. ``started`` is Unix seconds, None when unknown. ``missing`` says what could not
    be asked, for kind unknown; ``completion`` what it waits for, for kind completing. ``unmarked`` are the partitions
    whose marker the coordinator still waits for, None when it could not be asked. ``evidence`` is the proof that it
    hangs, or that the transaction log has it open; without it no step ends the transaction. ``flink`` says that by its
    id it may be a Flink job's, ``checkpoint`` what it is there, where the job is known by its behaviour.
    ``scan_behind`` and ``scan_late`` are as those of ``OpenTransaction``.
    """

    transactional_id: str
    application: str
    producer_id: int | None
    producer_epoch: int | None
    start_offset: int
    kind: BlockerKind
    state: TransactionState | None = None
    started: float | None = None
    timeout: float | None = None
    missing: tuple[str, ...] = ()
    completion: Completion | None = None
    unmarked: frozenset[TopicPartition] | None = None
    evidence: Evidence | None = None
    flink: bool = False
    checkpoint: FlinkTransaction | None = None
    scan_behind: float | None = 0.0
    scan_late: float = 0.0


class Stall(NamedTuple):
    """A partition whose LSO has not moved below its high watermark; ``since`` is Unix seconds."""

    partition: TopicPartition
    since: float
    last_stable_offset: int
    high_watermark: int
    leader: int | None
    blocker: Blocker


@dataclass(frozen=True, slots=True)
class Stalls(Fact):
    """The stalled partitions of one cluster, longest first.

    ``unread`` are partitions that do not answer: whether they still stand is not known.
    """

    stalls: tuple[Stall, ...]
    unread: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class StallWatch(Fact):
    """Since when this process reads last stable offsets, Unix seconds, and after how many seconds one is stalled."""

    since: float
    stall_after: float
