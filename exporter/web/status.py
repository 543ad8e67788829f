"""The status document: pure functions over the runner's state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from exporter.audit_result.result import AuditResult, AuditResults
from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector, Task
from exporter.core.runner import GroupState
from exporter.core.shard import WHOLE, Shard
from exporter.core.worker import SourceState
from exporter.documents import status as docs
from exporter.flink.facts import FlinkTransactions
from exporter.lso.next_step import NextStep, next_step
from exporter.lso.proof import HangingProof
from exporter.model import (
    Blocker,
    ClusterIdentity,
    Completion,
    CoordinatorTime,
    FlinkTransaction,
    GroupsHeld,
    IgnoredSubject,
    IgnoredSubjects,
    OpenTransaction,
    OpenTransactions,
    Stall,
    Stalls,
    UncleanEnd,
    UncleanEnds,
)
from exporter.posture.evidence import Posture
from exporter.spark.queries import Lag, QueryKey, SparkView, StreamingQuery
from exporter.transactions.last_hour import LastHour
from exporter.web.hour import last_hour_document, posture_document
from exporter.words import QueryState

MOST_PARTITIONS = 20
"""Largest number of partitions listed for one open transaction; their total is always given."""


class ClusterSettings(NamedTuple):
    """Settings of a cluster: its name ("" for none) and its bootstrap servers."""

    name: str
    bootstrap_servers: str


def document(
    groups: Sequence[GroupState],
    settings: Mapping[str, ClusterSettings],
    *,
    now: float,
    ready: bool,
    version: str,
    shard: Shard = WHOLE,
) -> docs.StatusDocument:
    """The document of ``/api/v1/status``. ``settings`` are by group key, ``now`` is Unix seconds.

    With shards it is of this shard: the stalled partitions of its topics, and its applications.
    Instants are RFC 3339 in UTC, and ``*_timestamp`` beside them Unix seconds. An empty list means none only where
    ``known`` is true.
    """
    return {
        "version": version,
        "generated_at": instant(now),
        "generated_at_timestamp": now,
        "ready": ready,
        "shard": None if shard.whole else {"index": shard.index, "count": shard.count},
        "clusters": [_cluster(group, settings.get(group.key, ClusterSettings("", "")), now, shard) for group in groups],
    }


def _cluster(group: GroupState, settings: ClusterSettings, now: float, shard: Shard) -> docs.ClusterDocument:
    identity = group.facts.get(ClusterIdentity)
    stalls = group.facts.get(Stalls)
    opened = group.facts.get(OpenTransactions)
    ends = group.facts.get(UncleanEnds)
    spark = group.facts.get(SparkView) or SparkView({}, {})
    audits = group.facts.get(AuditResults)
    named = next((source.cluster for source in group.sources if source.cluster), "")
    bootstrap_servers = settings.bootstrap_servers or (identity.bootstrap_servers if identity else "")
    transactions = sorted(opened.transactions if opened else (), key=_age_order)
    time = group.facts.get(CoordinatorTime) or CoordinatorTime(None, None)
    theirs = time.now(now)
    flink = group.facts.get(FlinkTransactions) or FlinkTransactions({})
    ignored = _ignored(group)
    reasons = {each.subject: each.reason for each in ignored if each.kind == "topic"}
    waiting = (group.facts.get(GroupsHeld) or GroupsHeld({})).by_partition
    return {
        "name": settings.name or named,
        "cluster_id": identity.cluster_id if identity else None,
        "bootstrap_servers": bootstrap_servers,
        "transaction_version": identity.transaction_version if identity else None,
        "brokers": identity.brokers if identity else None,
        "known": {
            "stalled_partitions": stalls is not None,
            "open_transactions": opened is not None and opened.complete,
            "unclean_ends": ends is not None,
        },
        "missing": list(opened.missing) if opened else [],
        "clock_distance_seconds": time.ahead,
        "sources": [_source(state) for state in group.sources],
        "stalled_partitions": [
            {
                **stall_document(stall, bootstrap_servers, now, time),
                "ignored": reasons.get(stall.partition.topic),
                "waiting_groups": list(waiting.get(stall.partition, ())),
            }
            for stall in (stalls.stalls if stalls else ())
        ],
        "open_transactions": [
            open_transaction_document(each, theirs, flink.by_producer.get(each.producer_id))
            for each in transactions
            if shard.tells_of(each.application)
        ],
        "unclean_ends": [unclean_end_document(end, theirs) for end in (ends.ends if ends else ())],
        "connect": [_connect(state) for state in sorted(group.facts.all(ConnectState), key=lambda each: each.name)],
        "spark": [_query(key, query, spark.lags.get(key), now) for key, query in spark.queries.items()],
        "audits": [_audit(result, now) for result in (audits.results if audits else ())],
        "last_hour": last_hour_document(group.facts.get(LastHour), shard),
        "posture": posture_document(group.facts.get(Posture)),
        "ignored": [{"kind": each.kind, "subject": each.subject, "reason": each.reason} for each in ignored],
    }


def _ignored(group: GroupState) -> list[IgnoredSubject]:
    """Return what the settings ignore of what is seen, sources that may be down included."""
    found = {each for fact in group.facts.all(IgnoredSubjects) for each in fact.subjects}
    sources = (
        IgnoredSubject("source", f"{state.source}/{state.target}", state.ignored)
        for state in group.sources
        if state.ignored is not None
    )
    return sorted((*found, *sources))


def _source(state: SourceState) -> docs.SourceDocument:
    return {
        "source": state.source,
        "target": state.target,
        "up": state.up,
        "last_success": instant(state.last_success),
        "last_success_timestamp": state.last_success,
        "duration_seconds": state.duration,
        "faults": [{"reason": fault.reason, "detail": fault.detail} for fault in state.faults],
        "notes": list(state.notes),
        "ignored": state.ignored,
    }


_OURS = CoordinatorTime(None, None)


def stall_document(
    stall: Stall, bootstrap_servers: str, now: float, time: CoordinatorTime = _OURS
) -> docs.StallDocument:
    """A stalled partition, its blocker and the next step. ``now`` is our time.

    ``time`` decides by which of the two clocks the stall is dated and the step is made.
    """
    dated = time.shown(now)
    step = next_step(stall, bootstrap_servers, time.advising(now), or_later=time.at_least)
    return {
        "topic": stall.partition.topic,
        "partition": stall.partition.partition,
        "since": instant(stall.since),
        "since_timestamp": stall.since,
        "seconds": max(0.0, dated - stall.since),
        "last_stable_offset": stall.last_stable_offset,
        "high_watermark": stall.high_watermark,
        "lag_offsets": max(0, stall.high_watermark - stall.last_stable_offset),
        "leader": stall.leader,
        "blocker": _blocker(stall.blocker),
        "next_step": step_document(step),
    }


def step_document(step: NextStep) -> docs.NextStepDocument:
    """A next step."""
    return {
        "text": step.text,
        "command": step.command,
        "warning": step.warning,
        "check": step.check,
        "expect": step.expect,
    }


def _blocker(blocker: Blocker) -> docs.BlockerDocument:
    return {
        "transactional_id": blocker.transactional_id,
        "application": blocker.application,
        "producer_id": blocker.producer_id,
        "producer_epoch": blocker.producer_epoch,
        "start_offset": blocker.start_offset,
        "kind": blocker.kind,
        "state": blocker.state,
        "started": instant(blocker.started),
        "started_timestamp": blocker.started,
        "timeout_seconds": blocker.timeout,
        "missing": list(blocker.missing),
        "proof": _proof(blocker.evidence) if isinstance(blocker.evidence, HangingProof) else None,
        "completion": _completion(blocker.completion),
        "unmarked_partitions": None if blocker.unmarked is None else [str(each) for each in sorted(blocker.unmarked)],
    }


def _proof(proof: HangingProof) -> docs.HangingProofDocument:
    first, second = proof.first, proof.second
    return {
        "first_round_timestamp": first.wall,
        "second_round_timestamp": second.wall,
        "log_partitions": second.log.partitions,
        "log_end_offsets": sum(second.log.high_watermarks.values()),
        "coordinators_loaded": len(second.loaded.proven),
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
    ends = None if started is None or timeout is None else started + timeout
    return {
        "transactional_id": transaction.transactional_id,
        "application": transaction.application,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "state": transaction.state,
        "started": instant(started),
        "started_timestamp": started,
        "seconds": None if started is None else max(0.0, now - started),
        "timeout_seconds": timeout,
        "times_out_timestamp": ends,
        "prepared": instant(transaction.prepared),
        "prepared_timestamp": transaction.prepared,
        "partition_count": len(transaction.partitions),
        "partitions": [
            {"topic": each.topic, "partition": each.partition}
            for each in sorted(transaction.partitions)[:MOST_PARTITIONS]
        ],
        "flink": None if checkpoint is None else _checkpoint(checkpoint),
    }


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


def unclean_end_document(end: UncleanEnd, now: float) -> docs.UncleanEndDocument:
    """A transaction that did not end by its client's own commit or abort."""
    return {
        "transactional_id": end.transactional_id,
        "application": end.application,
        "producer_id": end.producer_id,
        "producer_epoch": end.producer_epoch,
        "outcome": end.outcome,
        "ended": instant(end.ended),
        "ended_timestamp": end.ended,
        "seconds_ago": max(0.0, now - end.ended),
        "started": instant(end.started),
        "started_timestamp": end.started,
    }


def _connect(state: ConnectState) -> docs.ConnectDocument:
    """A Connect cluster: its tasks by state, and the failed ones with their reasons."""
    tasks = [task for connector in state.connectors for task in connector.tasks]
    connectors = [_failed(each.name, None, each) for each in state.connectors if each.state == "failed"]
    return {
        "name": state.name,
        "connectors": len(state.connectors),
        "tasks": dict(sorted(Counter(task.state or "unknown" for task in tasks).items())),
        "plugins": _plugins(state.connectors),
        "failed": connectors + [_failed(task.connector, task, task) for task in tasks if task.state == "failed"],
        "notes": list(state.notes),
    }


def _plugins(connectors: Sequence[Connector]) -> list[docs.PluginDocument]:
    """The plugins in use: class, version on a worker, and number of connectors."""
    counts = Counter((each.plugin.rpartition(".")[2], each.version) for each in connectors if each.plugin)
    return [
        {"class": name, "version": version or None, "connectors": number}
        for (name, version), number in sorted(counts.items())
    ]


def _failed(connector: str, task: Task | None, failure: Connector | Task) -> docs.ConnectFailureDocument:
    """A failed task, or connector where ``task`` is None. ``error`` is the end of its trace."""
    return {
        "connector": connector,
        "task": task.task if task else None,
        "worker": failure.worker,
        "cause": task.cause if task else None,
        "error": failure.error,
    }


def _query(key: QueryKey, query: StreamingQuery, lag: Lag | None, now: float) -> docs.QueryDocument:
    """A streaming query; ``state`` is None without a recent report, ``lag_offsets`` where it is not known."""
    return {
        "application": key.application,
        "query": key.query,
        "state": query.state,
        "ended_by": query.ends[-1].reason if query.state is QueryState.FAILED and query.ends else None,
        "last_progress": instant(query.last_progress),
        "last_progress_timestamp": query.last_progress,
        "seconds": None if query.last_progress is None else max(0.0, now - query.last_progress),
        "uncommitted_batches": query.uncommitted,
        "lag_offsets": lag.lag if lag else None,
        "blocked_offsets": lag.blocked if lag else None,
    }


def _audit(result: AuditResult, now: float) -> docs.AuditDocument:
    """The last run of an audit, each finding with the worst of its examples."""
    return {
        "audit": result.audit,
        "verdict": result.verdict,
        "topics": sorted(result.topics),
        "finished": instant(result.finished_at),
        "finished_timestamp": result.finished_at,
        "seconds_ago": max(0.0, now - result.finished_at),
        "findings": [
            {
                "kind": finding.kind,
                "topic": finding.topic,
                "count": finding.count,
                "partition": finding.examples[0].get("partition") if finding.examples else None,
                "offset": finding.examples[0].get("offset") if finding.examples else None,
            }
            for finding in result.findings
        ],
        "unknown": list(result.unknown),
    }


def _age_order(transaction: OpenTransaction) -> tuple[float, str]:
    """Sort key: oldest first; one without a known start comes last."""
    return (float("inf") if transaction.started is None else transaction.started), transaction.transactional_id


def instant(seconds: float | None) -> str | None:
    """Unix seconds as RFC 3339 in UTC; None for None and for instants outside of the calendar."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a record may carry any timestamp
        return None


__all__ = [
    "ClusterSettings",
    "document",
    "instant",
    "next_step",
    "open_transaction_document",
    "stall_document",
    "step_document",
    "unclean_end_document",
]
