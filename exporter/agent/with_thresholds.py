"""A source that also yields the thresholds and the owners of its subjects: the only place where these become series."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache, reduce
from operator import or_
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from exporter import catalogue
from exporter.applications.applications import Grouping
from exporter.core.derived import Derived
from exporter.core.thresholds import KINDS, OPTIONAL, RATIOS, Owners, Thresholds
from exporter.lso.facts import Stalls
from exporter.lso.stall_series import holder_samples, owner_samples
from exporter.model import (
    Clock,
    Deadline,
    Fact,
    Facts,
    Fault,
    IgnoredSource,
    IgnoredSubject,
    IgnoredSubjects,
    Metric,
    Sample,
    SampleBatch,
    Source,
)
from exporter.transactions.facts import LoggedTransactions

SUBJECTS: Mapping[Metric, tuple[str, tuple[int, ...]]] = MappingProxyType(
    {
        catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS: ("topic", (1,)),
        catalogue.TOPIC_WITHHELD_RECORD_AGE_SECONDS: ("topic", (1,)),
        catalogue.APPLICATION_INFO: ("application", (1,)),
        catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS: ("application", (1,)),
        catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS: ("query", (2, 3)),
        catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS: ("audit", (2,)),
        catalogue.CONNECT_CONNECTOR_INFO: ("connector", (2, 3)),
        catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS: ("group", (1,)),
    }
)
"""The family that shows a subject: its kind, and which of its labels make the subject's name, a slash between them."""

SERIES: Mapping[str, tuple[Metric, Metric]] = MappingProxyType(
    {
        "topic": (catalogue.TOPIC_THRESHOLD_SECONDS, catalogue.TOPIC_THRESHOLD_SECONDS),
        "application": (catalogue.APPLICATION_THRESHOLD_SECONDS, catalogue.APPLICATION_THRESHOLD_RATIO),
        "query": (catalogue.QUERY_THRESHOLD_SECONDS, catalogue.QUERY_THRESHOLD_SECONDS),
        "audit": (catalogue.AUDIT_THRESHOLD_SECONDS, catalogue.AUDIT_THRESHOLD_SECONDS),
        "connector": (catalogue.CONNECTOR_THRESHOLD_RATIO, catalogue.CONNECTOR_THRESHOLD_RATIO),
        "group": (catalogue.GROUP_THRESHOLD_OFFSETS, catalogue.GROUP_THRESHOLD_OFFSETS),
    }
)
"""The families of a kind's thresholds: in seconds or offsets, and as shares."""


_Subjects: TypeAlias = dict[tuple[str, tuple[str, ...]], str]
"""The kind and the names of each subject, and its cluster."""


class _ShownThresholds(NamedTuple):
    """The thresholds of some subjects, and which of these are ignored."""

    series: SampleBatch
    ignored: frozenset[IgnoredSubject]


class _InForce(NamedTuple):
    """The thresholds and the owners that the settings give."""

    thresholds: Thresholds
    owners: Owners


class WithThresholds:
    """A source, and after what it reads the thresholds in force for the subjects that it showed, and their owners."""

    def __init__(
        self,
        source: Source,
        thresholds: Callable[[], Thresholds],
        clock: Clock,
        grouping: Grouping | None = None,
        owners: Callable[[], Owners] = Owners,
    ) -> None:
        """``grouping`` has patterns that may have given up on an id: whichever source reads next has the fault."""
        self._source = source
        self._thresholds = thresholds
        self._owners = owners
        self._clock = clock
        self._grouping = grouping
        self._of_subjects, self._subjects_batch = Derived(self._thresholds_of_subjects), Derived(SampleBatch)
        self._of_holders, self._holders_batch = Derived(self._thresholds_of_holders), Derived(SampleBatch)
        self._elsewhere = frozenset[str]()
        self._showing: dict[SampleBatch, _Subjects] = {}  # of the last read, beside those of ``elsewhere``

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def target(self) -> str:
        return self._source.target

    @property
    def cluster(self) -> str:
        return self._source.cluster

    @property
    def pace(self) -> float:
        return self._source.pace

    @property
    def interval(self) -> float:
        return self._source.interval

    @property
    def timeout(self) -> float:
        return self._source.timeout

    def close(self) -> None:
        self._source.close()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        now = self._clock.wall()
        in_force = _InForce(self._thresholds(), self._owners())
        if (reason := in_force.thresholds.ignored("source", f"{self.name}/{self.target}", now)) is not None:
            yield IgnoredSource(reason)  # first: reading may raise
        loose: _Subjects = {}
        stalls: Stalls | None = None
        logged = facts.get(LoggedTransactions)
        elsewhere = logged.applications if logged is not None else frozenset[str]()
        if elsewhere != self._elsewhere:
            self._elsewhere, self._showing = elsewhere, {}
        showing: dict[SampleBatch, _Subjects] = {}
        for item in self._source.read(deadline, facts):
            if isinstance(item, SampleBatch):
                known = self._showing.get(item)
                showing[item] = dict(_subjects(item.of_families(SUBJECTS), elsewhere)) if known is None else known
            elif isinstance(item, Sample):
                if item.metric in SUBJECTS:
                    loose.update(_subjects((item,), elsewhere))
            elif isinstance(item, Stalls):
                stalls = item
            yield item
        self._showing = showing
        if in_force.thresholds.by_the_clock:
            self._expire()
        of_subjects = self._of_subjects(in_force, loose, *showing.values())
        if of_subjects.series.samples:
            yield of_subjects.series
        ignored = of_subjects.ignored
        if stalls is not None:
            of_holders = self._of_holders(in_force, self.cluster, stalls)
            ignored |= of_holders.ignored
            yield of_holders.series
        if ignored or stalls is not None:  # a read without stalls leaves those of the last one, and which are ignored
            yield IgnoredSubjects(tuple(sorted(ignored)))
        if given_up := (*in_force.thresholds.given_up(), *in_force.owners.given_up()):
            self._expire()  # the fault lasts as long as the subject is shown
            yield from given_up
        if self._grouping is not None:
            yield from self._grouping.given_up()

    def _expire(self) -> None:
        self._of_subjects.expire()
        self._of_holders.expire()

    def _thresholds_of_subjects(self, in_force: _InForce, *subjects: _Subjects) -> _ShownThresholds:
        now, shown = self._clock.wall(), reduce(or_, subjects)
        series = self._subjects_batch(
            tuple(
                sample
                for (kind, names), cluster in shown.items()
                for sample in _samples(in_force, kind, names, cluster, now)
            )
        )
        ignored = (sample for sample in series.samples if sample.metric is catalogue.IGNORED_INFO)
        return _ShownThresholds(series, frozenset(IgnoredSubject(*sample.labels[1:]) for sample in ignored))

    def _thresholds_of_holders(self, in_force: _InForce, cluster: str, stalls: Stalls) -> _ShownThresholds:
        now = self._clock.wall()
        of_topic = cache(lambda topic: _stall(in_force.thresholds, topic, now))
        owned = owner_samples(cluster, stalls.stalls, in_force.owners)
        series = self._holders_batch((*holder_samples(cluster, stalls.stalls, of_topic), *owned))
        return _ShownThresholds(series, _ignored_topics(in_force.thresholds, stalls, now))


def _subjects(
    samples: Iterable[Sample], elsewhere: Container[str]
) -> Iterator[tuple[tuple[str, tuple[str, ...]], str]]:
    """The subjects that samples of ``SUBJECTS`` show, each with its cluster.

    The tail of the log shows the applications of ``elsewhere``, so their thresholds are beside its samples.
    """
    for metric, labels, _ in samples:
        kind, places = SUBJECTS[metric]
        names = tuple(labels[place] for place in places)
        if metric is not catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS or names[0] not in elsewhere:
            yield (kind, names), labels[0]


def _ignored_topics(thresholds: Thresholds, stalls: Stalls, now: float) -> frozenset[IgnoredSubject]:
    """Return the topics with a stall that are ignored, those included of which a cap leaves out the series."""
    return frozenset(
        IgnoredSubject("topic", topic, reason)
        for topic in {stall.partition.topic for stall in stalls.stalls}
        if (reason := thresholds.ignored("topic", topic, now)) is not None
    )


def _stall(thresholds: Thresholds, topic: str, now: float) -> tuple[float, float]:
    found = thresholds.of("topic", topic, now)
    return found["stall_warning"], found["stall_critical"]


def _samples(in_force: _InForce, kind: str, names: tuple[str, ...], cluster: str, now: float) -> Iterator[Sample]:
    thresholds = in_force.thresholds
    subject = "/".join(names)
    seconds, ratio = SERIES[kind]
    for name, value in thresholds.of(kind, subject, now).items():
        if name not in OPTIONAL or value < math.inf:  # most subjects have none, and there may be thousands
            yield (ratio if name in RATIOS else seconds)(value, cluster, *names, name)
    if (reason := thresholds.ignored(kind, subject, now)) is not None:
        yield catalogue.IGNORED_INFO(1.0, cluster, kind, subject, reason)
    if kind == "query":  # of its Spark application
        owner = in_force.owners.of("application", names[0])
    else:
        owner = in_force.owners.of(kind, subject) if kind in KINDS else ""
    if owner:
        yield catalogue.OWNER_INFO(1.0, cluster, kind, subject, owner)
