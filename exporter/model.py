"""The values that flow through the agent. Frozen, standard library only.

``Source.read(deadline, facts) -> Sample | Fault | Fact ... -> Snapshot -> swap -> render -> GET /metrics``.

A ``Sample`` is one number for Prometheus, a ``Fault`` one request that failed, and a ``Fact`` a frozen value that
another source or the status page needs (the open transactions, the stalled partitions): each is in the ``facts`` of its
room. Sources never import each other: the runner passes facts between them.
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


class CommandError(Exception):
    """A command cannot do what it was asked to. The text is what is wrong, and what to do instead."""


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
        return tuple(sample for sample in self.samples if sample.metric in families)


class LateBatch(SampleBatch):
    """A batch whose samples are made when they are first asked for: sources are read more often than they are scraped.
    With 100 applications that commit at each read this saves 1.7 ms of it, a tenth of the agent's CPU time.

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
    LOST = "lost"  # an internal topic lost records: what they showed is unknown
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


class KnownLogEnd(NamedTuple):
    """The end of one partition of the transaction log, by its leader of this epoch."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class KnownLogEnds(Fact):
    """The ends of all partitions of the transaction log: what is below them was there at ``at``, monotonic."""

    at: float
    ends: Mapping[int, KnownLogEnd]


F = TypeVar("F", bound=Fact)


@dataclass(frozen=True, slots=True)
class Notes(Fact):
    """Messages about signals missing because of a target's configuration. Not faults; on the status page."""

    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IgnoredSource(Fact):
    """A setting allows this source to be down; with its reason."""

    reason: str


class IgnoredSubject(NamedTuple):
    """A subject whose thresholds the settings switch off: its kind, its name as patterns match it, and why."""

    kind: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class IgnoredSubjects(Fact):
    """The subjects of one source that are ignored now, in order."""

    subjects: tuple[IgnoredSubject, ...]


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


class TokenBucket:
    """A limit of a rate, in events a second, with a burst. Its times are monotonic. For one thread."""

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, 0.0

    def take(self, now: float) -> bool:
        """Take a token; returns whether there was one."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


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
