"""The document of ``/api/v1/status``, and the parts of it that commands print as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from typing_extensions import TypedDict

from exporter.model import Reason
from exporter.posture.check import CheckResult
from exporter.words import (
    AuditVerdict,
    BlockerKind,
    FailureCause,
    FoundMarker,
    MarkerWait,
    Outcome,
    Precommit,
    QueryState,
    TerminationReason,
    TransactionState,
)


class TopicAndPartition(TypedDict):
    """One partition."""

    topic: str
    partition: int


class NextStepDocument(TypedDict):
    """The step to take about a stalled partition."""

    text: str
    """One or more sentences."""
    command: str | None
    """One line to copy, with whatever it costs in ``warning``. null where nothing is to be run."""
    warning: str | None
    """The cost of the command."""
    check: str | None
    """A line that only reads, to run right before the command."""
    expect: str | None
    """Output of the check after which the command may be run."""


class HangingProofDocument(TypedDict):
    """The two reads of the transaction log in which no transactional.id has the transaction open."""

    first_round_timestamp: float
    """When the first read began, in Unix seconds."""
    second_round_timestamp: float
    """When the second read began, in Unix seconds."""
    log_partitions: int
    """Number of partitions of the transaction log, each read to its end."""
    log_end_offsets: int
    """Sum of their end offsets at the second read."""
    coordinators_loaded: int
    """Number of partitions whose coordinator was shown to have loaded it."""
    last_owner: str | None
    """The transactional.id that had the producer id last, by the log; it does not have this transaction open."""


class CommittedDocument(TypedDict):
    """The commit of a transaction whose marker is missing in this partition."""

    decided_timestamp: float
    """When its coordinator decided it, in Unix seconds by the coordinator's clock."""
    completed_timestamp: float | None
    """When its coordinator took it for complete; null where the log does not say."""
    seen_timestamp: float
    """When the partition was last read without the marker, in Unix seconds."""
    marked_partitions: list[str]
    """Its other partitions that have their marker, as far as they were read."""
    unmarked_partitions: list[str]
    """Its other partitions that lack their marker, as far as they were read."""


class CompletionDocument(TypedDict):
    """The wait of a transaction whose end is decided."""

    waits_for: MarkerWait
    """leader_away: the partition has no leader. not_written: the leader's log has no marker. not_replicated: it has."""
    leader: int | None
    """Broker id of the partition's leader."""
    in_sync_replicas: list[int]
    """Broker ids."""
    missing_replicas: list[int]
    """Broker ids of the replicas that are not in sync."""
    min_insync_replicas: int | None
    """min.insync.replicas of the topic."""


class BlockerDocument(TypedDict):
    """The transaction that holds a last stable offset."""

    transactional_id: str
    """"" where it is not known."""
    application: str
    """"" where it is not known."""
    producer_id: int | None
    producer_epoch: int | None
    start_offset: int
    """Offset of the transaction's first record in this partition."""
    kind: BlockerKind
    """open: its coordinator has it open. completing: its end is decided. hanging: proven to belong to no coordinator.
    unmarked: committed, and the partition lacks its marker. unknown: neither could be shown, and ``missing`` says why.
    """
    state: TransactionState | None
    """State at its coordinator."""
    started: str | None
    started_timestamp: float | None
    timeout_seconds: float | None
    """The producer's transaction.timeout.ms; null where it is not known or there is none."""
    missing: list[str]
    """Reads that failed, and would show the kind."""
    proof: HangingProofDocument | None
    """Of a hanging transaction."""
    committed: CommittedDocument | None
    """Of a committed transaction whose marker this partition lacks."""
    completion: CompletionDocument | None
    """Of a completing transaction."""
    unmarked_partitions: list[str] | None
    """Of a completing transaction: partitions without its marker; null where that is not known."""


class StallDocument(TypedDict):
    """A partition whose last stable offset does not move, and the transaction that holds it."""

    topic: str
    partition: int
    since: str | None
    since_timestamp: float
    seconds: float
    """For how long, in seconds of the coordinators' clock."""
    last_stable_offset: int
    high_watermark: int
    lag_offsets: int
    """Offsets that read_committed consumers cannot read: high watermark less last stable offset."""
    leader: int | None
    """Broker id."""
    blocker: BlockerDocument
    next_step: NextStepDocument


class BlockedGroupDocument(TypedDict):
    """A consumer group that a stalled partition withholds records from."""

    group: str
    blocked_offsets: int
    """Offsets between the last stable offset and the high watermark, at the last read of the groups."""
    owner: str
    """The team that owns the group, unowned, or "" where the settings have no owners."""


class ProducerPlaceDocument(TypedDict):
    """Where the producer of a transaction runs, by the metrics that it pushes; "" for what is not known."""

    client_id: str
    address: str
    principal: str
    software: str


class StallLinksDocument(TypedDict):
    """Where to go on from a stalled partition; null where the settings have no base for it."""

    page: str
    """The card on this agent's page, as a path."""
    runbook: str
    """The runbook that this agent serves, as a path."""
    dashboard: str | None
    silence: str | None


class WatchedStallDocument(StallDocument):
    """A stalled partition as the running agent has it."""

    ignored: str | None
    """The reason of the settings where they ignore the topic."""
    waiting_groups: list[str]
    """Groups whose committed offsets the transaction holds back (UNSTABLE_OFFSET_COMMIT)."""
    blocked_groups: list[BlockedGroupDocument] | None
    """Groups that measured groups' commits show to wait for this partition, worst first, at most 5; null where the
    groups of this partition were not read."""
    blocked_group_count: int | None
    """Number of all of them."""
    owner: str
    """The team that owns the transaction's application, or else the topic; unowned, or "" without owners in the
    settings."""
    owner_channel: str
    """Where the team is reached."""
    producers: list[ProducerPlaceDocument]
    """Producers with its transactional.id that push their metrics, at most 5; empty where none is known."""
    links: StallLinksDocument


class FlinkCheckpointDocument(TypedDict):
    """State of an open transaction in its Flink job."""

    transactional_id_prefix: str
    subtask: int
    number: int
    """The checkpoint (INCREMENTING) or the place in the pool (POOLING)."""
    checkpoint_interval_seconds: float | None
    """As learned from the job's commits."""
    waiting_for_checkpoint: bool
    """It is within the job's rhythm, and no stall."""
    precommitted: Precommit
    precommitted_since: str | None
    at_risk: bool
    """Its records are or may be in a completed checkpoint, and are lost at ``lost_at``."""
    lost_at: str | None


class OpenTransactionDocument(TypedDict):
    """A transaction that is open."""

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    state: TransactionState
    started: str | None
    started_timestamp: float | None
    seconds: float | None
    """For how long, in seconds of the coordinators' clock."""
    timeout_seconds: float | None
    times_out_timestamp: float | None
    prepared: str | None
    """When its end was decided; of those that are no longer ongoing."""
    prepared_timestamp: float | None
    partition_count: int
    partitions: list[TopicAndPartition]
    """The first 20."""
    flink: FlinkCheckpointDocument | None


class TornMarkerDocument(TypedDict):
    """A transaction and a partition whose marker is not that of its decision."""

    transactional_id: str
    producer_id: int
    topic: str
    partition: int
    decided: Literal["commit", "abort"]
    found: FoundMarker
    """nothing: no marker, and nothing else has ended its records there. abort, commit: a marker of that type did."""
    completed_timestamp: float
    """When its coordinator completed it, in Unix seconds by the log."""
    marker_offset: int | None
    """Of the marker that contradicts the decision; null where that is not known."""
    audited_timestamp: float
    """When the ``audit markers`` that found it ended, in Unix seconds."""


class UncleanEndDocument(TypedDict):
    """A transaction that did not end by its client's own commit or abort."""

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    outcome: str
    """timed_out, fenced or aborted; undecided where log time has yet to show it."""
    ended: str | None
    ended_timestamp: float
    seconds_ago: float
    started: str | None
    started_timestamp: float | None


class ExpiredIdDocument(TypedDict):
    """A transactional.id that expired, idle for transactional.id.expiration.ms, and was not initialised since."""

    transactional_id: str
    application: str
    expired: str | None
    expired_timestamp: float


class UncleanIdDocument(TypedDict):
    """A transactional.id with fences or timeouts in the last hour of the log."""

    transactional_id: str
    application: str
    outcome: str
    """timed_out or fenced."""
    ends: int
    """Number of ends with this outcome."""
    first: str | None
    """The minute of the first one."""
    first_timestamp: float
    newest: UncleanEndDocument


class FaultDocument(TypedDict):
    """A fault: something that could not be read."""

    reason: Reason
    detail: str


class SourceDocument(TypedDict):
    """One source of one target, at its last read."""

    source: str
    target: str
    up: bool | None
    """The last read was complete; null before the first one."""
    last_success: str | None
    last_success_timestamp: float | None
    duration_seconds: float | None
    faults: list[FaultDocument]
    notes: list[str]
    """Parts that are not read on purpose, or cannot be."""
    ignored: str | None
    """The reason of the settings where they ignore the source."""


class KnownDocument(TypedDict):
    """The lists that were read: an empty list means none only where this is true."""

    stalled_partitions: bool
    open_transactions: bool
    unclean_ends: bool
    stalls_watched_seconds: float | None
    """For how long this agent has read last stable offsets: before stall_after_seconds, a partition that is stalled is
    known only where its holder shows for how long. null before the first read.
    """
    stall_after_seconds: float | None


PluginDocument = TypedDict("PluginDocument", {"class": str, "version": str | None, "connectors": int})
"""A connector plugin in use, and by how many connectors."""


class ConnectFailureDocument(TypedDict):
    """A failed task, or a failed connector where ``task`` is null."""

    connector: str
    task: str | None
    worker: str
    cause: FailureCause | None
    error: str
    """The end of its trace, without secrets."""
    hint: str | None
    """The setting to change, where the connector's own settings explain the failure."""


class ConnectDocument(TypedDict):
    """A Connect cluster."""

    name: str
    connectors: int
    tasks: dict[str, int]
    """Number of tasks by state."""
    plugins: list[PluginDocument]
    failed: Sequence[ConnectFailureDocument]
    notes: list[str]


class QueryDocument(TypedDict):
    """A streaming query of Spark."""

    application: str
    query: str
    state: QueryState | None
    """null without a recent report."""
    ended_by: TerminationReason | None
    last_progress: str | None
    last_progress_timestamp: float | None
    seconds: float | None
    """Since the last progress."""
    uncommitted_batches: int | None
    lag_offsets: int | None
    blocked_offsets: int | None
    """Offsets above the last stable offset, which the query cannot read yet."""


class AuditFindingDocument(TypedDict):
    """Findings of one kind in one topic, with the place of one of them."""

    kind: str
    topic: str
    count: int
    partition: int | None
    offset: int | None


class AuditDocument(TypedDict):
    """The last run of an audit."""

    audit: str
    verdict: AuditVerdict
    topics: list[str]
    finished: str | None
    finished_timestamp: float
    seconds_ago: float
    findings: Sequence[AuditFindingDocument]
    unknown: list[str]
    """Why the verdict is unknown."""


class ApplicationHourDocument(TypedDict):
    """Ends of the transactions of an application in the last hour, by outcome."""

    application: str
    outcomes: dict[Outcome, int]
    committed_per_minute: list[int]
    """The oldest first; the last minute is not over."""
    stopped_minutes: int | None
    """For how long an application that used to commit has not."""


class FenceStormDocument(TypedDict):
    """Fences of one id in ten minutes."""

    application: str
    transactional_id: str
    fences: int


class LastHourDocument(TypedDict):
    """Ends of transactions in the last hour."""

    minutes: int
    """Length of the lists by minute."""
    outcomes_per_minute: dict[Outcome, list[int]]
    applications: list[ApplicationHourDocument]
    """Those with most unclean ends first."""
    applications_left_out: int
    fence_storms: list[FenceStormDocument]


class FailedCheckDocument(TypedDict):
    """A check of the posture that failed."""

    name: str
    subject: str
    found: str
    why: str
    fix: str


class UnknownCheckDocument(TypedDict):
    """A check of the posture that could not be made, and why."""

    name: str
    subject: str
    error: str


class PostureDocument(TypedDict):
    """The checks of the posture."""

    verdicts: dict[CheckResult, int]
    """Number of checks by verdict."""
    failed: list[FailedCheckDocument]
    unknown: list[UnknownCheckDocument]


class IgnoredDocument(TypedDict):
    """A subject that the settings ignore, and why."""

    kind: str
    subject: str
    reason: str


class ClusterDocument(TypedDict):
    """One Kafka cluster."""

    name: str
    """"" where it has none."""
    cluster_id: str | None
    bootstrap_servers: str
    transaction_version: int | None
    """The finalized level of the feature transaction.version."""
    brokers: int | None
    known: KnownDocument
    missing: list[str]
    """Reads that failed, so that ``open_transactions`` lacks some."""
    clock_distance_seconds: float | None
    """By how much the coordinators' clock is ahead of the agent's."""
    sources: list[SourceDocument]
    stalled_partitions: Sequence[WatchedStallDocument]
    open_transactions: Sequence[OpenTransactionDocument]
    unclean_ends: list[UncleanEndDocument]
    """The newest of the last hour, newest first; unclean_ids counts all."""
    unclean_ids: list[UncleanIdDocument]
    """By transactional.id and outcome, most ends first: at most 200, those with the newest ends."""
    unclean_ends_of_other_ids: int
    expired_ids: list[ExpiredIdDocument]
    """Of the last hour, newest first, 200 at most."""
    """Ends of the last hour that are not in unclean_ids."""
    torn_markers: list[TornMarkerDocument] | None
    """Found by comparing decisions with markers; null where they are not compared."""
    connect: list[ConnectDocument]
    spark: Sequence[QueryDocument]
    audits: Sequence[AuditDocument]
    last_hour: LastHourDocument | None
    """null where the transaction log is not read."""
    posture: PostureDocument | None
    """null before the checks were made."""
    ignored: list[IgnoredDocument]


class StatusDocument(TypedDict):
    """The state of the agent and its clusters, in one document."""

    version: str
    generated_at: str | None
    generated_at_timestamp: float
    ready: bool
    """Every source has answered or failed once."""
    clusters: list[ClusterDocument]
