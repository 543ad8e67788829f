"""Evidence for tests that are about something else: whole rounds, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from exporter.lso.facts import Blocker, Stall
from exporter.lso.proof.evidence import (
    CONFIRM_SECONDS,
    Committed,
    HangingProof,
    Loaded,
    LogRead,
    OpenInLog,
    OpenStart,
    Round,
    WriterState,
)
from exporter.model import TopicPartition
from exporter.transactions.decided.fate import Fate, Judgement
from tests.helpers.transactions import decision_of

LOG_PARTITIONS = 3
PLACE = TopicPartition("orders", 7)


def log_read(asked: float, ended: float, ends: Mapping[int, int] | None = None) -> LogRead:
    ends = dict.fromkeys(range(LOG_PARTITIONS), 10) if ends is None else ends
    return LogRead(asked, ended, len(ends), dict(ends), dict(ends), (), {})


def whole_round(held: OpenStart, at: float, wall: float = 1_795_255_000.0) -> Round:
    """A round without a gap, from ``at`` to five seconds later on the monotonic clock."""
    log = log_read(at + 1, at + 3)
    loaded = Loaded(at + 1, frozenset(range(log.partitions)), {})
    return Round(held, at, log, loaded, at + 4, held, wall + at + 5, WriterState(0), Judgement(Fate.NEVER))


def proof_of(partition: TopicPartition = PLACE, producer_id: int = 4711, start_offset: int = 100) -> HangingProof:
    first = whole_round(OpenStart(partition, producer_id, start_offset), 0.0)
    return HangingProof(first, whole_round(first.held, first.asked_again + CONFIRM_SECONDS))


def proven(stall: Stall) -> Stall:
    """The same stall of a hanging transaction, with the proof for it."""
    proof = proof_of(stall.partition, stall.blocker.producer_id or 0, stall.blocker.start_offset)
    return stall._replace(blocker=stall.blocker._replace(producer_id=proof.held.producer_id, evidence=proof))


def logged(blocker: Blocker, watched: float = 0.0) -> Blocker:
    """The same blocker, as the transaction log has it open; it was seen to hold its partition for so many seconds."""
    who = (blocker.transactional_id, blocker.producer_id or 0, blocker.producer_epoch or 0)
    opened = OpenInLog(*who, blocker.timeout, watched, blocker.flink)
    return blocker._replace(producer_id=opened.producer_id, producer_epoch=opened.producer_epoch, evidence=opened)


def committed(blocker: Blocker, partition: TopicPartition) -> Blocker:
    """The same blocker, whose commit is in the transaction log, with one partition that has its marker and one not."""
    marked, unmarked = TopicPartition("payments", 1), TopicPartition("payments", 2)
    epoch, at = frozenset({blocker.producer_epoch or 0}), 1_795_255_010.0
    places = frozenset({partition, marked, unmarked})
    decision = decision_of(
        blocker.transactional_id,
        blocker.producer_id or 0,
        epoch,
        epoch,
        commit=True,
        v2=False,
        begun=at - 1,
        at=at,
        completed=at + 0.5,
        partitions=places,
    )
    held = OpenStart(partition, blocker.producer_id or 0, blocker.start_offset)
    evidence = Committed(held, decision, "pay", at + 180, frozenset({marked}), frozenset({unmarked}))
    return blocker._replace(evidence=evidence)


__all__ = ["committed", "log_read", "logged", "proof_of", "proven", "replace", "whole_round"]
