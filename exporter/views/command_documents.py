"""The documents that commands print with ``--output json``."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from exporter.linter.rule import Level
from exporter.views.columns import ViewColumn
from exporter.views.documents import (
    CheckDocument,
    HolderDocument,
    NextStepDocument,
    OpenTransactionDocument,
    StallDocument,
    TopicAndPartition,
)
from exporter.words import AuditVerdict, RecordState

MOST_NAMES = 3
JsonScalar = str | int | float | bool | None


class SeenTransactionDocument(OpenTransactionDocument):
    """An open transaction, and what to do about it where something is to be done."""

    next_step: NextStepDocument | None


class WaitedForStallDocument(StallDocument):
    """A stalled partition, with the groups that it keeps from their own offsets."""

    waiting_groups: list[str]
    """Of a partition of __consumer_offsets: groups whose offsets are committed in the transaction."""
    holder: HolderDocument


class WaitingGroupDocument(TypedDict):
    """A group that has not read past the last stable offset."""

    group: str
    committed_offset: int | None
    """null where the group waits for its own offsets."""


class ExplainedRecordDocument(TypedDict):
    """The fate of one record."""

    topic: str
    partition: int
    offset: int
    state: RecordState
    transactional_id: str
    application: str
    owner: str
    """"" where no entry of ``owners`` has the application."""
    producer_id: int | None
    producer_epoch: int | None
    decided: Literal["commit", "abort"] | None
    """The decision by the transaction log; null where it is not known."""
    torn: bool
    """true where readers of the partition get something other than what was decided."""
    begun: str | None
    decided_at: str | None
    timeout_seconds: float | None
    marker: Literal["commit", "abort"] | None
    """The marker that ended the record in its partition."""
    marker_offset: int | None
    marker_is_own: bool | None
    """false for the marker of a later transaction of the producer; null where that is not known."""
    partitions: list[TopicAndPartition] | None
    """All partitions of the transaction; while it completes those whose marker is not confirmed. null where the log
    does not say."""
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    waiting: list[WaitingGroupDocument] | None
    """Groups that wait if they read read_committed; null where nobody has to."""
    notes: list[str]
    missing: list[str]
    """Facts that are not known, and how to find out."""


class CapabilityDocument(TypedDict):
    """One kind of request, and whether the cluster answers it."""

    name: Annotated[str, ViewColumn("may we ask for")]
    verdict: Annotated[Literal["ok", "missing", "unproven"], ViewColumn("verdict")]
    without: Annotated[str, ViewColumn("without it", lambda row: row["without"] if row["faults"] else "", whole=True)]
    """Facts that the agent cannot show without it."""
    faults: list[str]
    """Refusals, each with the grant that is missing."""
    unproven: str
    """Why it cannot be determined; "" otherwise."""
    unseen: str
    """Facts that no answer of a broker can show, whatever the verdict."""


class FeatureDocument(TypedDict):
    """A part of the agent, and whether it works on the cluster."""

    name: Annotated[str, ViewColumn("what works here")]
    works: Annotated[Literal["yes", "no", "unproven"], ViewColumn("")]
    why: Annotated[str, ViewColumn("why not")]
    """The missing part; "" where it works."""


class ConnectionSection(TypedDict):
    """One cluster."""

    error: str | None
    """Why no broker answered."""
    capabilities: list[CapabilityDocument]
    works: list[FeatureDocument]


class PosturePart(TypedDict):
    """One cluster."""

    checks: list[CheckDocument]
    faults: list[str]
    """Reads that failed."""


class ClientFindingDocument(TypedDict):
    """A finding of ``check client`` in one file."""

    rule: str
    severity: Level
    setting: str | None
    value: str | None
    line: int | None
    text: str
    why: str
    fix: str
    source: str
    """The KIP or the class that it comes from."""


class MisspeltDocument(TypedDict):
    """A setting that clients ignore, and the one that was probably meant."""

    setting: str
    line: int | None
    meant: str


class ClientFileDocument(TypedDict):
    """One client of a file."""

    file: str
    part: str | None
    """Its place in the file; null where it is the whole file."""
    kind: str | None
    error: str | None
    """Why it was not judged."""
    findings: list[ClientFindingDocument]
    misspelt: list[MisspeltDocument]


ClientOutput = TypedDict("ClientOutput", {"for": str, "files": list[ClientFileDocument]})
"""``check client``; ``for`` is the guarantee that the files are judged by."""


class TornDocument(TypedDict):
    """A place where the marker of a transaction is not what its coordinator decided."""

    transactional_id: str
    producer_id: int
    producer_epochs: list[int]
    decided: Literal["commit", "abort"]
    begun: str | None
    completed: str | None
    partitions: list[str]
    """All partitions of the transaction."""
    topic: str
    partition: int
    marker: Literal["commit", "abort"] | None
    """null where there is none."""
    marker_offset: int | None
    marker_time: str | None


class MarkersSection(TypedDict):
    """One cluster."""

    verdict: Literal["findings", "unknown", "clean"]
    transactions: int
    """Number of transactions that were compared."""
    offsets: int
    """Number of offsets whose batch headers were read."""
    torn: list[TornDocument]
    not_compared: list[str]


class HistoryCounts(TypedDict):
    """Number of transactions by outcome."""

    committed: int
    aborted: int
    timed_out: int
    fenced: int


class OpenSeconds(TypedDict):
    """For how long transactions were open."""

    median: float | None
    p99: float | None
    p999: float | None
    max: float | None


class HistoryApplication(TypedDict):
    """One application."""

    application: str
    transactions: int
    outcomes: HistoryCounts
    abort_ratio: float | None
    timeout_ratio: float | None
    open_seconds: OpenSeconds
    suggested_timeout_seconds: float | None
    timeline: list[HistoryCounts]


class HistoryTimeline(TypedDict):
    """Counts by time."""

    step_seconds: float
    starts: list[float]
    """Begin of each step, in Unix seconds."""
    outcomes: list[HistoryCounts]


class HistoryFences(TypedDict):
    """Fences of one id."""

    transactional_id: str
    application: str
    count: int
    last: float
    """In Unix seconds."""


class HistoryTransaction(TypedDict):
    """One transaction."""

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    outcome: str
    open_seconds: float | None
    completion_seconds: float
    begin: float | None
    complete: float
    timeout_seconds: float | None
    partitions: list[TopicAndPartition] | None


HistoryHold = TypedDict(
    "HistoryHold",
    {
        "topic": str,
        "partition": int,
        "from": float,
        "to": float,
        "seconds": float,
        "transactional_id": str,
        "application": str,
        "producer_id": int,
        "producer_epoch": int,
        "outcome": str,
    },
)
"""For how long one transaction held the last stable offset of one partition; instants are Unix seconds."""


class HeldSeconds(TypedDict):
    """For how long the last stable offset of a partition was held."""

    topic: str
    partition: int
    seconds: float


HistoryOutput = TypedDict(
    "HistoryOutput",
    {
        "table": str,
        "from": float,
        "to": float,
        "newest": float | None,
        "transactions": int,
        "outcomes": HistoryCounts,
        "applications": list[HistoryApplication],
        "timeline": HistoryTimeline,
        "fences": list[HistoryFences],
        "longest": list[HistoryTransaction],
        "unclean_ends": list[HistoryTransaction],
        "holds": list[HistoryHold],
        "holds_found": int,
        "held": list[HeldSeconds],
    },
)
"""``history report``; instants are Unix seconds."""


class AuditTopicDocument(TypedDict):
    """The offsets of one topic that were read."""

    verdict: AuditVerdict
    records: int | None
    aborted_records: int | None


class AuditFindings(TypedDict):
    """Findings of one kind in one topic."""

    kind: str
    topic: str
    count: int
    examples: list[dict[str, JsonScalar]]
    """Places of some of them: their keys depend on the kind."""


class AuditOutput(TypedDict):
    """``audit``: one run of one audit. ``/ingest/audit`` and a results folder take the same document."""

    audit: str
    kafka_cluster: str
    finished_at: float
    """In Unix seconds."""
    verdict: AuditVerdict
    records: int | None
    aborted_records: int | None
    checked: list[str]
    """Kinds that were searched for: no finding of one of these means none."""
    unknown: list[str]
    """Why the verdict is unknown."""
    topics: dict[str, AuditTopicDocument]
    findings: list[AuditFindings]
    notes: NotRequired[list[str]]
    settings: NotRequired[dict[str, str]]
    """The audited topic, sink and settings, by flag."""
    offsets: NotRequired[dict[str, dict[str, list[int]]]]
    """Begin and end of the offsets read, by topic and partition; the end is exclusive."""
    seconds: NotRequired[float]
    """Duration of the run."""
