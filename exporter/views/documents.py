"""The document of ``/api/v1/status``, and the parts of it that commands print as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from typing_extensions import TypedDict

from exporter.core.durations import format_age
from exporter.lso.next_step import clock_time
from exporter.model import Reason
from exporter.posture.check import CheckResult
from exporter.transactions.outcome import OVERDUE_SLACK_SECONDS
from exporter.views.columns import View, ViewColumn, age, ago, blocks, clock, label, number
from exporter.words import (
    AuditVerdict,
    BlockerKind,
    FailureCause,
    FoundMarker,
    MarkerWait,
    MemberMatch,
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

    kind: Annotated[BlockerKind, ViewColumn("kind")]
    """open: its coordinator has it open. completing: its end is decided. hanging: proven to belong to no coordinator.
    unmarked: committed, and the partition lacks its marker. unknown: neither could be shown, and ``missing`` says why.
    """
    application: Annotated[str, label("application")]
    """"" where it is not known."""
    transactional_id: Annotated[str, label("transactional.id")]
    """"" where it is not known."""
    producer_id: Annotated[int | None, number("producer id")]
    producer_epoch: Annotated[int | None, number("epoch")]
    start_offset: Annotated[int, number("offset")]
    """Offset of the transaction's first record in this partition."""
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

    topic: Annotated[str, label("topic")]
    partition: Annotated[int, number("partition")]
    blocker: BlockerDocument
    since: str | None
    since_timestamp: float | None
    """null where nothing says since when, as of a hanging transaction whose last write is dated in the future."""
    seconds: Annotated[float | None, age("stalled")]
    """For how long, in seconds of the coordinators' clock."""
    last_stable_offset: int
    high_watermark: int
    lag_offsets: Annotated[int, number("lag")]
    """Offsets that read_committed consumers cannot read: high watermark less last stable offset."""
    leader: int | None
    """Broker id."""
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


class HolderMemberDocument(TypedDict):
    """A live member of a group; ``match`` says whether its names show that it is the holder itself."""

    client_id: str
    host: str
    match: MemberMatch


class HolderGroupDocument(TypedDict):
    """A group whose offsets the holder's producer id committed in transactions."""

    group: str
    member_count: int | None
    """Null where the members are not known, see missing."""
    members: list[HolderMemberDocument]
    """At most 10, a matched one first."""
    empty_since_timestamp: float | None
    """When it was first seen without a member."""
    missing: str


class HolderDocument(TypedDict):
    """The groups of a holder and whether somebody of them lives, in words, and by group."""

    text: str
    groups: list[HolderGroupDocument]


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
    holder: HolderDocument
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


MOST_PLACES = 3
"""Partitions that are named in a table."""


def times_out(transaction: View) -> tuple[str, bool]:
    """Return when an open transaction times out, and whether its coordinator should have ended it: by the clock of the
    coordinator, as its age is.
    """
    if transaction["state"] != TransactionState.ONGOING:
        return "decided", False
    if transaction["timeout_seconds"] is None:
        return "never", False
    ends, seconds = transaction["times_out_timestamp"], transaction["seconds"]
    if ends is None or seconds is None:
        return "not known", False
    left = ends - transaction["started_timestamp"] - seconds
    return f"in {format_age(left)}" if left >= 0 else f"{format_age(-left)} ago", left < -OVERDUE_SLACK_SECONDS


def _times_out(transaction: View) -> str:
    return times_out(transaction)[0]


def _overdue(transaction: View) -> str:
    return "bad" if times_out(transaction)[1] else ""


def _state(transaction: View) -> str:
    flink = transaction["flink"]
    if flink and flink["waiting_for_checkpoint"]:
        return f"{transaction['state']}, waiting for a checkpoint"
    risk = f", at risk: Flink, {flink['precommitted']} precommitted" if flink and flink["at_risk"] else ""
    return f"{transaction['state']}{risk}"


def _places(transaction: View) -> str:
    places = [f"{place['topic']}-{place['partition']}" for place in transaction["partitions"][:MOST_PLACES]]
    more = transaction["partition_count"] - len(places)
    # An ongoing one has a partition: its topics may not be described.
    unknown = "?" if transaction["state"] == TransactionState.ONGOING else "none"
    return ", ".join(places) + (f" and {more} more" if more else "") if places else unknown


class OpenTransactionDocument(TypedDict):
    """A transaction that is open."""

    application: Annotated[str, label("application")]
    transactional_id: Annotated[str, label("transactional.id")]
    producer_id: Annotated[int, number("producer id")]
    producer_epoch: Annotated[int, number("epoch")]
    state: Annotated[TransactionState, ViewColumn("state", _state, whole=True)]
    started: str | None
    started_timestamp: float | None
    seconds: Annotated[float | None, age("open for")]
    """For how long, in seconds of the coordinators' clock."""
    timeout_seconds: float | None
    times_out_timestamp: Annotated[float | None, ViewColumn("times out", _times_out, mark=_overdue, whole=True)]
    prepared: str | None
    """When its end was decided; of those that are no longer ongoing."""
    prepared_timestamp: float | None
    partition_count: int
    partitions: Annotated[list[TopicAndPartition], ViewColumn("partitions", _places, "id", whole=True)]
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

    application: Annotated[str, label("application")]
    transactional_id: Annotated[str, label("transactional.id")]
    producer_id: Annotated[int, number("producer id")]
    producer_epoch: Annotated[int, number("epoch")]
    outcome: Annotated[str, ViewColumn("outcome")]
    """timed_out, fenced or aborted; undecided where log time has yet to show it."""
    seconds_ago: Annotated[float, age("age")]
    ended: str | None
    ended_timestamp: Annotated[float, clock("ended")]
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

    ends: Annotated[int, number("times")]
    """Number of ends with this outcome."""
    transactional_id: Annotated[str, label("transactional.id")]
    application: Annotated[str, label("application")]
    outcome: Annotated[str, ViewColumn("what", lambda outcome: outcome.replace("_", " "))]
    """timed_out or fenced."""
    newest: Annotated[
        UncleanEndDocument,
        ViewColumn("newest", lambda newest: f"{format_age(newest['seconds_ago'])} ago", number=True),
        ViewColumn("at", lambda newest: clock_time(newest["ended_timestamp"]), "", page_only=True),
        ViewColumn("producer id", lambda newest: str(newest["producer_id"]), number=True),
        ViewColumn("epoch", lambda newest: str(newest["producer_epoch"]), number=True),
    ]
    first: str | None
    """The minute of the first one."""
    first_timestamp: Annotated[float, clock("first")]


class FaultDocument(TypedDict):
    """A fault: something that could not be read."""

    reason: Reason
    detail: str


MOST_FAULTS = 5


def _answers(source: View) -> str:
    if source["up"] is None:
        return "first read"
    return "answers" if source["up"] else "does not answer in full" + ("; ignored" if source["ignored"] else "")


def _answers_mark(source: View) -> str:
    if source["up"]:
        return "good"
    return "blind" if source["up"] is None or source["ignored"] is not None else "bad"


def _unanswered(source: View) -> list[str]:
    faults = [f"{fault['reason']}: {fault['detail']}" for fault in source["faults"][:MOST_FAULTS]]
    more = len(source["faults"]) - MOST_FAULTS
    return [*faults, *([f"and {more} more"] if more > 0 else ()), *source["notes"]]


def took(seconds: float | None) -> str:
    """How long a read took, "" where there was none."""
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f} ms"


class SourceDocument(TypedDict):
    """One source of one target, at its last read."""

    source: Annotated[str, ViewColumn("source")]
    target: Annotated[str, label("of")]
    up: Annotated[bool | None, ViewColumn("state", _answers, mark=_answers_mark, whole=True)]
    """The last read was complete; null before the first one."""
    last_success: str | None
    last_success_timestamp: float | None
    last_success_seconds_ago: Annotated[float | None, ago("last success", "never")]
    duration_seconds: Annotated[float | None, ViewColumn("read took", took, number=True)]
    faults: Annotated[list[FaultDocument], ViewColumn("what did not answer", _unanswered, "id", whole=True)]
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


def _ended(outcome: Outcome) -> ViewColumn:
    """The column of the transactions that ended so."""
    bad = outcome in {Outcome.TIMED_OUT, Outcome.FENCED}
    return ViewColumn(
        outcome.replace("_", " "),
        lambda outcomes: f"{outcomes[outcome]:,}",
        mark=lambda application: "bad" if bad and application["outcomes"][outcome] else "",
        number=True,
    )


def _per_minute(committed: Sequence[int]) -> str:
    """The last whole minute, and those before it as blocks."""
    return f"{committed[-2] if len(committed) > 1 else '?'} {blocks(committed[:-1])}".rstrip()


def _last_commit(application: View) -> str:
    """When an application committed last, by its commits of the last minutes."""
    if application["stopped_minutes"] is not None:
        return f"stopped {application['stopped_minutes']} min ago"
    committed = application["committed_per_minute"]
    minutes = next((ago for ago, count in enumerate(reversed(committed)) if count), None)
    if minutes is None:
        return f"none in {len(committed)} min"
    return f"{minutes} min ago" if minutes else "this minute"


def _stopped(application: View) -> str:
    return "blind" if application["stopped_minutes"] is not None else ""


class ApplicationHourDocument(TypedDict):
    """Ends of the transactions of an application in the last hour, by outcome."""

    application: Annotated[str, label("application", links="application")]
    committed_per_minute: Annotated[list[int], ViewColumn("committed per minute", _per_minute, by_minute=True)]
    """The oldest first; the last minute is not over."""
    outcomes: Annotated[
        dict[Outcome, int],
        _ended(Outcome.COMMITTED),
        _ended(Outcome.ABORTED),
        _ended(Outcome.TIMED_OUT),
        _ended(Outcome.FENCED),
    ]
    stopped_minutes: Annotated[int | None, ViewColumn("last commit", _last_commit, mark=_stopped, whole=True)]
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


_VERDICTS = {CheckResult.PASSED: "good", CheckResult.FAILED: "bad"}


class CheckDocument(TypedDict):
    """One check of one subject."""

    verdict: Annotated[CheckResult, ViewColumn("verdict", mark=lambda check: _VERDICTS.get(check["verdict"], "blind"))]
    name: Annotated[str, ViewColumn("check")]
    subject: Annotated[str, label("subject")]
    found: Annotated[str, ViewColumn("found", lambda check: check["error"] or check["found"], "id", whole=True)]
    why: Annotated[str, ViewColumn("why", style="id", page_only=True)]
    fix: Annotated[str, ViewColumn("set", style="id", page_only=True)]
    error: str
    """Why the verdict is unknown; "" otherwise."""


class PostureDocument(TypedDict):
    """The checks of the posture."""

    verdicts: dict[CheckResult, int]
    """Number of checks by verdict."""
    failed: list[CheckDocument]
    unknown: list[CheckDocument]


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
    """``/api/v1/status``: the state of the agent and its clusters, in one document."""

    version: str
    generated_at: str | None
    generated_at_timestamp: float
    ready: bool
    """Every source has answered or failed once."""
    clusters: list[ClusterDocument]
