"""The values that flow through the agent. Frozen, standard library only.

``Source.read(deadline, facts) -> Sample | Fault | Fact ... -> Snapshot -> swap -> render -> GET /metrics``.

A ``Sample`` is one number for Prometheus, a ``Fault`` one request that failed, and a ``Fact`` a frozen value that
another source or the status page needs (the open transactions, the stalled partitions). Sources never import each
other: the runner passes facts between them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, Self, TypeVar


class Word(StrEnum):
    """A closed list of words. A member hashes as the string it is: Enum's own hash is a Python function, and members
    are keys on hot paths.
    """

    __hash__ = str.__hash__

    @classmethod
    def values(cls) -> tuple[str, ...]:
        """The words as plain texts, in their order."""
        return tuple(member.value for member in cls)


class Kind(Word):
    """The Prometheus type of a metric family."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


DISTRIBUTIONS = frozenset({Kind.HISTOGRAM, Kind.SUMMARY})
"""Kinds whose value is a Distribution."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue: a metric family.

    ``name`` is written whole, with its prefix and, for a counter, its ``_total``. ``buckets`` are the upper bounds of
    a histogram, in the metric's unit, without ``+Inf``. Calling a row makes a sample, and checks the number of label
    values.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    source: str = "agent"
    buckets: tuple[float, ...] = ()
    # Identity is the name: rows are dictionary keys on the hot path of the exposition.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.name))

    def __hash__(self) -> int:
        return self._hash

    def __call__(self, value: float | Distribution, *labels: str) -> Sample:
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} takes the labels {self.labels}, got {labels}")
        return Sample(self, labels, value)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Distribution:
    """The value of a histogram or summary sample.

    ``steps`` are ``(upper bound, cumulative count)`` for a histogram, without ``+Inf``, and ``(quantile, value)`` for a
    summary. ``total`` is the sum of the observations; None where the origin has none (JMX histograms).
    """

    steps: tuple[tuple[float, float], ...]
    count: float
    total: float | None


class Sample(NamedTuple):
    """One value of one metric family; ``labels`` are values in the order of ``metric.labels``."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Distribution


class SampleBatch:
    """Samples that a source yields again at each read while they do not change.

    The same object means that nothing changed: whoever processed it before need not look at its samples. Raises
    ValueError or TypeError for a sample that the exposition cannot write.
    """

    __slots__ = ("_samples",)

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples: tuple[Sample, ...] | None = tuple(map(checked, samples))

    @property
    def samples(self) -> tuple[Sample, ...]:
        return self._samples or ()

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)

    def of_families(self, families: Collection[Metric]) -> tuple[Sample, ...]:
        """Its samples of these families."""
        return tuple(each for each in self.samples if each.metric in families)

    @classmethod
    def of(cls, samples: Iterable[Sample], before: SampleBatch | None) -> SampleBatch:
        """The batch ``before`` if it has just these samples, otherwise a new one."""
        made = tuple(samples)
        return before if before is not None and before.samples == made else SampleBatch(made)


class LateBatch(SampleBatch):
    """A batch whose samples are made when they are first asked for: sources are read more often than they are scraped.

    Any thread may ask. ``make`` may be called twice, and gives the same samples: what it is made of does not change.
    ``families`` are all that the samples can be of.
    """

    __slots__ = ("_families", "_make")

    def __init__(self, families: frozenset[Metric], make: Callable[[], Iterable[Sample]]) -> None:
        self._families = families
        self._make = make
        self._samples = None

    @property
    def samples(self) -> tuple[Sample, ...]:
        if self._samples is None:
            self._samples = tuple(map(checked, self._make()))
        return self._samples

    def of_families(self, families: Collection[Metric]) -> tuple[Sample, ...]:
        """See ``SampleBatch``. Samples of other families are not made for that."""
        return () if self._families.isdisjoint(families) else super().of_families(families)


def checked(sample: Sample) -> Sample:
    """Return the sample if the exposition can write it. Raises ValueError or TypeError for a bug of its source."""
    metric, labels, value = sample
    if len(labels) != len(metric.labels):
        raise ValueError(f"{metric.name} takes the labels {metric.labels}")
    if isinstance(value, Distribution) != (metric.kind in DISTRIBUTIONS):
        raise TypeError(f"{metric.name} is a {metric.kind} and cannot hold a {type(value).__name__}")
    return sample


class Reason(Word):
    """Reason of a failed request: the closed list behind ``source_faults_total{reason}``."""

    UNREACHABLE = "unreachable"  # no connection, or it broke
    TIMEOUT = "timeout"  # connected, no answer before the deadline
    AUTHENTICATION = "authentication"  # TLS or SASL refused us
    AUTHORIZATION = "authorization"  # an ACL is missing: the fault names the grant
    COORDINATOR = "coordinator"  # a coordinator is loading, moving or not available
    NO_LEADER = "no_leader"  # a partition has no leader, or it just moved
    STALE = "stale"  # a broker answers from an older view of the cluster than another one
    IDENTITY = "identity"  # another cluster, or another transaction log, answers than at the start
    LOST = "lost"  # the transaction log lost records that were read: what they showed is unknown
    UNKNOWN_TOPIC = "unknown_topic"  # deleted between two calls
    MALFORMED = "malformed"  # an answer or record that cannot be decoded
    UNSUPPORTED = "unsupported"  # the broker or the record format is too old or too new
    INTERNAL = "internal"  # our own bug: the log has the traceback


class Fault(NamedTuple):
    """One request that failed. ``detail`` has what failed and what to do about it; it never holds a secret."""

    reason: Reason
    detail: str


class TopicPartition(NamedTuple):
    """A topic partition. Equal and hash-equal to any other ``(topic, partition)`` tuple."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


# --- Facts: values that sources publish for each other and for the status page ---


class Fact:
    """A frozen value that the runner hands from the source that made it to the others and to the status page."""

    __slots__ = ()


class TransactionState(Word):
    """State of an open transaction: the label values of ``transactions_open{state}``."""

    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare_commit"
    PREPARE_ABORT = "prepare_abort"


class Outcome(Word):
    """How a transaction ended: the label values of ``transactions_total{outcome}``."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    TIMED_OUT = "timed_out"
    FENCED = "fenced"


class BlockerKind(Word):
    """State of the holder of an LSO at its coordinator: the label values of ``lso_blocker_info{kind}``."""

    OPEN = "open"
    COMPLETING = "completing"
    HANGING = "hanging"
    UNMARKED = "unmarked"
    UNKNOWN = "unknown"


class OpenTransaction(NamedTuple):
    """A transaction that its coordinator has not completed.

    ``started`` and ``prepared`` are Unix seconds by the coordinator's clock (``prepared`` is None while ongoing or
    when not known); ``timeout`` is seconds, None for a two-phase-commit transaction (KIP-939), which never times out.
    While it is prepared, ``partitions`` are those still without a marker when polled, and all of them when read from
    the log. ``clock_behind`` is by how many seconds that clock may be behind that of the coordinator furthest ahead, by
    which ages are judged; 0 where it is not known.
    """

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    state: TransactionState
    started: float | None
    timeout: float | None
    prepared: float | None
    partitions: frozenset[TopicPartition]
    clock_behind: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenTransactions(Fact):
    """Every open transaction that the origin has, and whether they are complete.

    ``complete`` is True only when nothing can be missing: the tail of the log is at its end and the state at its start
    was read in full, or every coordinator answered and DESCRIBE on all transactional ids is proven. ``missing`` says in
    words what could not be asked. ``origin`` is ``txnlog`` or ``transactions``. ``as_of`` is the monotonic instant at
    which all of them were known to be open: they may have ended since. It is None while that is not known.
    """

    origin: str
    transactions: tuple[OpenTransaction, ...]
    complete: bool
    missing: tuple[str, ...] = ()
    as_of: float | None = None


@dataclass(frozen=True, slots=True)
class LoggedTransactions(Fact):
    """The open transactions of the tail, for the source that publishes them: see OpenTransactions.

    ``clock`` has the coordinators' clock by the arrival of records; ``applications`` are all counted ones, also those
    without an open transaction.
    """

    opened: OpenTransactions
    clock: ClockBounds
    applications: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownLogEnds(Fact):
    """The ends of all partitions of the transaction log: what is below them was there at ``at``, monotonic."""

    at: float
    ends: Mapping[int, int]


class ClockBounds(NamedTuple):
    """Bounds of the coordinators' clock: seconds by which it is ahead of our monotonic clock.

    ``at_least`` is a true lower bound. ``live`` is the same from what had just been written when it arrived, so that it
    is also a good estimate. None where nothing was read.
    """

    at_least: float | None = None
    live: float | None = None


NOTICEABLE_SECONDS = 5.0
"""Difference of two clocks, in seconds, from which it is reported: its estimate is late by the delay of a record."""


@dataclass(frozen=True, slots=True)
class CoordinatorTime(Fact):
    """The coordinators' clock beside ours, in seconds.

    ``ahead`` is by how much ours is ahead of theirs, negative behind: an estimate, too large by the delay of the least
    delayed record; None while it is not known. ``at_most`` is a true upper bound of it, None where nothing was read.
    """

    ahead: float | None
    at_most: float | None

    def now(self, wall: float) -> float:
        """The coordinators' time when ours is ``wall``, both Unix seconds. Ages are shown by it."""
        return wall - (self.ahead or 0.0)

    def shown(self, wall: float) -> float:
        """The time by which stalls are dated: the coordinators' where the difference is noticeable, else ours."""
        return self.now(wall) if abs(self.ahead or 0.0) >= NOTICEABLE_SECONDS else wall

    def earliest(self, wall: float) -> float | None:
        """As ``now``, or earlier: the time by which a transaction is late. None without a bound of their clock."""
        return None if self.at_most is None else wall - self.at_most

    def advising(self, wall: float) -> float:
        """The time for next steps: ``now`` where the difference is known, else ``earliest`` if there is one."""
        return wall - self.at_most if self.at_least and self.at_most is not None else self.now(wall)

    @property
    def at_least(self) -> bool:
        """Whether ``advising`` is only a lower bound of their clock: its difference is not known."""
        return self.ahead is None and self.at_most is not None


@dataclass(frozen=True, slots=True)
class ReleaseTimes(Fact):
    """When the last finished transaction in a partition completed: Unix seconds of log time."""

    ended: Mapping[TopicPartition, float]


@dataclass(frozen=True, slots=True)
class KnownIds(Fact):
    """How many transactional ids are in each partition of ``__transaction_state``, by application."""

    by_partition: Mapping[int, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class TaskCommits(Fact):
    """Committed transactions of exactly-once Connect source tasks, by their transactional ids, counted from the log.

    Ids of the Connect groups that are configured or whose leader is in the log, which are ``groups``; 0 for a task
    without a commit yet.
    """

    by_id: Mapping[str, int]
    groups: frozenset[str] = frozenset()


class MarkerWait(Word):
    """Why the marker of a decided transaction has not released a partition."""

    LEADER_AWAY = "leader_away"  # the partition has no leader that could write it
    NOT_WRITTEN = "not_written"  # the leader's log lacks it
    NOT_REPLICATED = "not_replicated"  # the leader's log has it, the high watermark is still below it


class Completion(NamedTuple):
    """State of a partition that waits for the marker of a decided transaction.

    ``missing`` are the replicas that are not in sync, by broker id; ``min_isr`` is None when it could not be asked.
    """

    wait: MarkerWait
    leader: int | None
    isr: tuple[int, ...]
    missing: tuple[int, ...]
    min_isr: int | None


class Precommit(Word):
    """Whether a transaction of a job belongs to a checkpoint that began, and waits for its commit."""

    NO = "no"
    LIKELY = "likely"  # open past a checkpoint of its job, or longer than the job's checkpoints are apart
    PROVEN = "proven"  # the next id of its subtask was initialised, or is in use, while this one is open


class FlinkId(NamedTuple):
    """A transactional.id of KafkaSink: ``<prefix>-<subtask>-<number>``.

    ``number`` is the checkpoint with INCREMENTING names (TransactionalIdFactory), and counts the ids of the pool with
    POOLING.
    """

    prefix: str
    subtask: int
    number: int


class FlinkTransaction(NamedTuple):
    """An open transaction of a job that is known by its behaviour to be Flink's.

    ``interval`` is how far apart the job's checkpoints are, in seconds, None while not learned. ``waiting``: it waits
    for a checkpoint within the job's rhythm. ``at_risk``: it is, or may be, precommitted, and its job does not go on;
    at ``deadline`` (Unix seconds by the coordinators' clock, None where it has none) it is lost. ``committing`` says
    that another subtask has committed the same checkpoint, so that it was completed. ``last_commit`` is the job's.
    """

    id: FlinkId
    interval: float | None
    precommit: Precommit
    since: float | None
    waiting: bool
    at_risk: bool
    deadline: float | None
    committing: bool
    last_commit: float | None


class Evidence:
    """Evidence for a step that destroys data. ``lso.proof`` has its kinds, and the rules to construct them."""

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
    """The stalled partitions of one cluster, longest first; with shards, those of this shard's topics.

    ``elsewhere`` are producer ids of this shard's applications that hold stalled partitions of other shards' topics.
    """

    stalls: tuple[Stall, ...]
    elsewhere: frozenset[int] = frozenset()


class UncleanEnd(NamedTuple):
    """A transaction that did not end by its client's own commit or abort; ``ended`` is Unix seconds of log time.

    ``outcome`` is ``fenced`` or ``timed_out``.
    """

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    outcome: str
    ended: float
    started: float | None


class UncleanId(NamedTuple):
    """A transactional.id with unclean ends of one outcome in the last hour of the log: the newest, and how many.

    ``first`` is Unix seconds of the minute of the first one.
    """

    newest: UncleanEnd
    ends: int
    first: float


@dataclass(frozen=True, slots=True)
class StallWatch(Fact):
    """Since when this process reads last stable offsets, Unix seconds, and after how many seconds one is stalled."""

    since: float
    stall_after: float


@dataclass(frozen=True, slots=True)
class UncleanEnds(Fact):
    """The latest unclean ends in the last hour of the log, newest first; all of them by id, most first.

    ``of_other_ids`` is the number of ends of ids that are not in ``ids``, because there are too many.
    """

    ends: tuple[UncleanEnd, ...]
    ids: tuple[UncleanId, ...] = ()
    of_other_ids: int = 0


@dataclass(frozen=True, slots=True)
class ClusterIdentity(Fact):
    """The cluster's identity; ``transaction_version`` is the finalised feature level, None before 4.0."""

    cluster_id: str
    bootstrap_servers: str
    transaction_version: int | None
    brokers: int


F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class Notes(Fact):
    """Messages about signals missing because of a target's configuration. Not faults; on the status page."""

    notes: tuple[str, ...]


class ConnectTaskId(NamedTuple):
    """An id of a Connect task in the log: whether it has a record of the last hour, and its timeout in seconds."""

    recent: bool
    timeout: float | None


@dataclass(frozen=True, slots=True)
class IgnoredSource(Fact):
    """A setting allows this source to be down; with its reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class LogRefused(Fact):
    """The cluster has refused the transaction log since this process began, so that outcomes are polled."""

    detail: str


class IgnoredSubject(NamedTuple):
    """A subject whose thresholds the settings switch off: its kind, its name as patterns match it, and why."""

    kind: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class IgnoredSubjects(Fact):
    """The subjects of one source that are ignored now, in order."""

    subjects: tuple[IgnoredSubject, ...]


class OffsetPartitions(NamedTuple):
    """Partitions of ``__consumer_offsets`` that so many transactions of an application named together."""

    transactions: int
    partitions: frozenset[int]


class IdLife(NamedTuple):
    """When a transactional.id appeared, None where it was there before, and its last use: Unix seconds of log time.

    The last use of an id whose transaction was aborted is the begin of that transaction.
    """

    transactional_id: str
    first: float | None
    last: float


class IdChanges(NamedTuple):
    """The ids of an application that got several new ones, the latest used first, as they were at ``at``.

    ``returned`` is the latest instant at which an id that was known was initialised again, None without one.
    """

    ids: tuple[IdLife, ...]
    at: float
    returned: float | None = None


@dataclass(frozen=True, slots=True)
class TransactionUse(Fact):
    """Who uses transactions, from the last hour of the log.

    ``topics`` were written to, ``clients`` counts ids by application and by the transaction version that their client
    speaks, ``connect_ids`` are the ids of Connect's tasks, ``connect_groups`` the groups of workers that are known.
    ``new_applications`` appeared in that hour, None while those before are not known. ``offset_partitions`` has by
    application the partitions of ``__consumer_offsets`` that its transactions named since the log is read.
    ``id_changes`` has the applications that got new ids again and again in the last day. ``free_names`` are
    applications that neither a pattern of the settings nor the form of a framework names.
    """

    topics: frozenset[str]
    clients: Mapping[str, Mapping[int, int]]
    connect_ids: Mapping[str, ConnectTaskId]
    connect_groups: frozenset[str] = frozenset()
    new_applications: int | None = None
    offset_partitions: Mapping[str, OffsetPartitions] = field(default_factory=dict)
    id_changes: Mapping[str, IdChanges] = field(default_factory=dict)
    free_names: tuple[str, ...] = ()


class CommitTimes(NamedTuple):
    """Instants of a group's latest commits, in transactions and outside of any: Unix seconds, some seconds apart."""

    transactional: tuple[float, ...]
    plain: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class GroupCommits(Fact):
    """Offset commits of the last hour by group, as the batches of ``__consumer_offsets`` have them."""

    groups: Mapping[str, CommitTimes]


@dataclass(frozen=True, slots=True)
class GroupsBeyondLso(Fact):
    """Groups, with the topic, whose running members committed on beyond a last stable offset that was read later.

    That is proof that they read uncommitted records: a reset of the group's offsets needs a group without members.
    """

    pairs: frozenset[tuple[str, str]]


class GroupKind(Word):
    """The protocol of a group: the label values of ``group_members{kind}``. Share groups keep no committed offsets."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071
    UNKNOWN = "unknown"


class ShareGroup(NamedTuple):
    """A share group: its ``share.isolation.level``, None with the ``error`` where it could not be read, the number of
    its members, and the topics that they subscribe to.
    """

    isolation: str | None
    members: int
    topics: frozenset[str]
    error: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroups(Fact):
    """The share groups of the cluster, by name."""

    groups: Mapping[str, ShareGroup]


@dataclass(frozen=True, slots=True)
class GroupsHeld(Fact):
    """Groups that wait for an open transaction over their own offsets, by partition of ``__consumer_offsets``.

    A consumer of such a group that starts, or takes over a partition, gets no offset until the transaction ends.
    """

    by_partition: Mapping[TopicPartition, tuple[str, ...]]


class Facts:
    """The latest facts of one cluster, by type: the runner passes them to a source. Immutable."""

    __slots__ = ("_by_type", "_every")

    def __init__(self, by_type: Mapping[type[Fact], Fact] | None = None, every: Iterable[Fact] = ()) -> None:
        self._by_type = dict(by_type or {})
        self._every = tuple(every)

    def get(self, kind: type[F]) -> F | None:
        """The latest fact of this type, or None when there is none or it expired."""
        fact = self._by_type.get(kind)
        return fact if isinstance(fact, kind) else None

    def all(self, kind: type[F]) -> tuple[F, ...]:
        """The latest fact of this type from each source that makes one."""
        return tuple(fact for fact in self._every if isinstance(fact, kind))


# --- Reading ---


@dataclass(frozen=True, slots=True)
class Clock:
    """Both clocks, replaceable in tests. Ages are measured on ``monotonic``; ``wall`` only names instants.

    ``boot`` names the start of the machine that ``monotonic`` counts from, the same for all processes until the next
    one; "" where it is not known.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The instant by which a read must be over, on the monotonic clock. Every blocking call gets ``remaining()``."""

    at: float
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> Deadline:
        return cls(monotonic() + seconds, monotonic)

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - self.monotonic())

    def within(self, seconds: float) -> Deadline:
        """The earlier of this deadline and ``seconds`` from now."""
        return Deadline(min(self.at, self.monotonic() + seconds), self.monotonic)

    @property
    def over(self) -> bool:
        return self.remaining() <= 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of one read of one source.

    ``ended`` is monotonic, ``wall`` the same instant in Unix seconds. Gauges of a snapshot expire ``3 * interval``
    seconds after ``ended``. ``up`` is True only when every request was answered.
    """

    source: str
    target: str
    cluster: str
    interval: float
    samples: tuple[Sample, ...]
    faults: tuple[Fault, ...]
    facts: tuple[Fact, ...]
    duration: float
    ended: float
    wall: float
    batches: tuple[SampleBatch, ...] = ()

    @classmethod
    def until_replaced(
        cls, source: str, samples: Iterable[Sample], clock: Clock, *, target: str = "", cluster: str = ""
    ) -> Self:
        """Samples that no source read: valid until the next snapshot in their place."""
        return cls(
            source=source,
            target=target,
            cluster=cluster,
            interval=math.inf,
            samples=tuple(samples),
            faults=(),
            facts=(),
            duration=0.0,
            ended=clock.monotonic(),
            wall=clock.wall(),
        )

    @property
    def up(self) -> bool:
        return not self.faults

    def every_sample(self) -> Iterator[Sample]:
        """The samples, those of batches included."""
        yield from self.samples
        for batch in self.batches:
            yield from batch


class Source(Protocol):
    """One subject that is read, for one target, so that a failure concerns one target only.

    ``read`` runs on the source's own worker thread, one call at a time. It must return soon after the deadline, and
    yields results as it gets them: what was yielded before an exception is kept. It yields a ``Fault`` for each request
    that failed and raises only for bugs. ``close`` is called once, after the last read, and must not block for more
    than a second.
    """

    @property
    def name(self) -> str:
        """The stem: file name, ``source`` label, fixture folder, golden."""

    @property
    def target(self) -> str:
        """The subject of the reads: the cluster's name for a Kafka source. May change while the cluster id is not
        known.
        """

    @property
    def cluster(self) -> str:
        """Value of ``kafka_cluster``; "" while it is unknown or for a source that belongs to no cluster."""

    @property
    def pace(self) -> float:
        """Seconds from the start of one read to the start of the next."""

    @property
    def interval(self) -> float:
        """Seconds between two complete reads: ``pace``, or more for a source whose reads are mostly partial. Gauges are
        kept for three of these.
        """

    @property
    def timeout(self) -> float:
        """Seconds that one read may take."""

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]: ...

    def close(self) -> None: ...
