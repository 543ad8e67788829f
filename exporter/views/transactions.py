"""Stalls and transactions as parts of the status document and of the commands' JSON. Pure functions."""

from __future__ import annotations

from exporter.core.documents import document_of
from exporter.core.durations import instant, seconds_of
from exporter.flink.facts import FlinkTransaction
from exporter.lso.facts import Blocker, Completion, Stall
from exporter.lso.next_step import NextStep, next_step
from exporter.lso.proof.evidence import Committed, HangingProof
from exporter.transactions.facts import CoordinatorTime, OpenTransaction, UncleanId
from exporter.transactions.transaction import Transaction
from exporter.views import documents as docs

MOST_PARTITIONS = 20
"""Largest number of partitions listed for one open transaction; their total is always given."""


_OURS = CoordinatorTime()


def stall_document(
    stall: Stall, bootstrap_servers: str, now: float, time: CoordinatorTime = _OURS
) -> docs.StallDocument:
    """A stalled partition, its blocker and the next step. ``now`` is our time.

    ``time`` decides by which of the two clocks the stall is dated and the step is made.
    """
    dated = time.shown(now)
    step = next_step(stall, bootstrap_servers, time.advising(now), or_later=time.at_least)
    return document_of(
        docs.StallDocument,
        stall,
        **stall.partition._asdict(),
        seconds=max(0.0, dated - stall.since),
        lag_offsets=max(0, stall.high_watermark - stall.last_stable_offset),
        blocker=_blocker(stall.blocker),
        next_step=step_document(step),
    )


def step_document(step: NextStep) -> docs.NextStepDocument:
    """A next step."""
    return document_of(docs.NextStepDocument, step)


def _blocker(blocker: Blocker) -> docs.BlockerDocument:
    return document_of(
        docs.BlockerDocument,
        blocker,
        timeout_seconds=blocker.timeout,
        proof=_proof(blocker.evidence) if isinstance(blocker.evidence, HangingProof) else None,
        committed=_committed(blocker.evidence) if isinstance(blocker.evidence, Committed) else None,
        completion=_completion(blocker.completion),
        unmarked_partitions=None if blocker.unmarked is None else list(map(str, sorted(blocker.unmarked))),
    )


def _proof(proof: HangingProof) -> docs.HangingProofDocument:
    first, second = proof.first, proof.second
    return {
        "first_round_timestamp": first.wall,
        "second_round_timestamp": second.wall,
        "log_partitions": second.log.partitions,
        "log_end_offsets": sum(second.log.high_watermarks.values()),
        "coordinators_loaded": len(second.loaded.proven),
        "last_owner": proof.owner or None,
    }


def _committed(evidence: Committed) -> docs.CommittedDocument:
    return {
        "decided_timestamp": evidence.decision.decided_at,
        "completed_timestamp": seconds_of(evidence.decision.completed_ms),
        "seen_timestamp": evidence.seen,
        "marked_partitions": list(map(str, sorted(evidence.marked))),
        "unmarked_partitions": list(map(str, sorted(evidence.unmarked))),
    }


def _completion(seen: Completion | None) -> docs.CompletionDocument | None:
    if seen is None:
        return None
    return {
        "waits_for": seen.wait,
        "leader": seen.leader,
        "in_sync_replicas": list(seen.isr),
        "missing_replicas": list(seen.missing),
        "min_insync_replicas": seen.min_isr,
    }


def open_transaction_document(
    transaction: OpenTransaction, now: float, checkpoint: FlinkTransaction | None = None
) -> docs.OpenTransactionDocument:
    """An open transaction, with its timeout; ``now`` is the coordinators' time, ``checkpoint`` its state in its Flink
    job.
    """
    started, timeout = transaction.started, transaction.timeout
    return document_of(
        docs.OpenTransactionDocument,
        transaction,
        seconds=None if started is None else max(0.0, now - started),
        timeout_seconds=timeout,
        times_out_timestamp=transaction.ends,
        partition_count=len(transaction.partitions),
        partitions=[partition._asdict() for partition in sorted(transaction.partitions)[:MOST_PARTITIONS]],
        flink=None if checkpoint is None else _checkpoint(checkpoint),
    )


def _checkpoint(found: FlinkTransaction) -> docs.FlinkCheckpointDocument:
    """The state of an open transaction in its Flink job."""
    return {
        "transactional_id_prefix": found.id.prefix,
        "subtask": found.id.subtask,
        "number": found.id.number,
        "checkpoint_interval_seconds": found.interval,
        "waiting_for_checkpoint": found.waiting,
        "precommitted": found.precommit,
        "precommitted_since": instant(found.since),
        "at_risk": found.at_risk,
        "lost_at": instant(found.deadline) if found.at_risk else None,
    }


def unclean_end_document(end: Transaction, now: float) -> docs.UncleanEndDocument:
    """A transaction that did not end by its client's own commit or abort."""
    return document_of(
        docs.UncleanEndDocument,
        end,
        outcome=end.outcome_word,
        seconds_ago=max(0.0, now - end.ended),
    )


def unclean_id_document(found: UncleanId, now: float) -> docs.UncleanIdDocument:
    """A transactional.id with fences or timeouts in the last hour."""
    return document_of(
        docs.UncleanIdDocument,
        found.newest,
        outcome=found.newest.outcome_word,
        ends=found.ends,
        first_timestamp=found.first,
        newest=unclean_end_document(found.newest, now),
    )
