"""The counters, histograms and instants of one application, and their samples. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from exporter import catalogue
from exporter.applications.applications import Application
from exporter.core.histogram import BucketCounts, Histogram, distribution
from exporter.model import Sample
from exporter.words import Outcome

COUNTER_FAMILIES = frozenset(
    {
        catalogue.TRANSACTIONS_TOTAL,
        catalogue.TRANSACTION_OPEN_SECONDS,
        catalogue.TRANSACTION_COMPLETION_SECONDS,
        catalogue.PRODUCER_FENCES_TOTAL,
        catalogue.PRODUCER_INITS_TOTAL,
    }
)
LAST_FAMILIES = frozenset({catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS})
"""The families of ``counter_samples`` and of ``last_samples``."""
_OUTCOMES = tuple(Outcome)
_OPEN_BOUNDS = catalogue.TRANSACTION_OPEN_SECONDS.buckets
_COMPLETION_BOUNDS = catalogue.TRANSACTION_COMPLETION_SECONDS.buckets


class ApplicationCounts(NamedTuple):
    """The counts of one application at one instant, without its name: saved and exposed.

    ``example`` is one of its ids, ``described`` the other fields of its ``Application``. Outcomes that did not occur
    are left out. Nothing in it changes. JSON has it as a list.
    """

    example: str
    described: tuple[str, ...]
    outcomes: Mapping[Outcome, int]
    inits: int
    open_seconds: Mapping[Outcome, BucketCounts]
    completion_seconds: BucketCounts


class ApplicationCounters:
    """One application. ``ids`` counts its transactional ids in the log, ``example`` is one of them."""

    def __init__(self, application: Application, example: str) -> None:
        self.application = application
        self.example = example
        self.ids = 0
        self.outcomes = dict.fromkeys(Outcome, 0)
        self.open_seconds: dict[Outcome, Histogram] = {}
        self.completion_seconds = Histogram(catalogue.TRANSACTION_COMPLETION_SECONDS)
        self.inits = 0
        self.named = 0  # transactions whose partitions are known
        self.offset_partitions: set[int] = set()  # of __consumer_offsets, that they named
        self.topics: set[str] = set()  # that they named
        self.longest_pause_ms = 0  # between two counted transactions
        self._completed_ms = 0
        self._last_ms = dict.fromkeys(Outcome, 0)  # 0: none
        # As they were given away; None after a change.
        self._counted: ApplicationCounts | None = None
        self._dated: Mapping[Outcome, float] | None = None

    def count(self, outcome: Outcome, begun_ms: int, prepared_ms: int, completed_ms: int) -> None:
        """Count a transaction; the instants are those of ``Transaction``."""
        self.outcomes[outcome] += 1
        if self._completed_ms and begun_ms - self._completed_ms > self.longest_pause_ms:
            self.longest_pause_ms = begun_ms - self._completed_ms
        self._completed_ms = max(self._completed_ms, completed_ms)
        if begun_ms >= 0:
            if (histogram := self.open_seconds.get(outcome)) is None:
                histogram = self.open_seconds[outcome] = Histogram(catalogue.TRANSACTION_OPEN_SECONDS)
            histogram.observe(prepared_ms - begun_ms)
        self.completion_seconds.observe(completed_ms - prepared_ms)
        self._counted = None

    def date(self, outcome: Outcome, completed_ms: int) -> None:
        """Note when a transaction finished, counted or not, in Unix milliseconds of log time."""
        if completed_ms > self._last_ms[outcome]:
            self._last_ms[outcome] = completed_ms
            self._dated = None

    @property
    def transactions(self) -> int:
        """All that were counted."""
        return sum(self.outcomes.values())

    def initialised(self) -> None:
        self.inits += 1
        self._counted = None

    def describe(self, application: Application) -> None:
        self.application = application
        self._counted = None

    def counted(self) -> ApplicationCounts:
        """The counts now; the same object as long as that does not change."""
        if self._counted is None:
            self._counted = ApplicationCounts(
                self.example,
                self.application[1:],
                {outcome: count for outcome, count in self.outcomes.items() if count},
                self.inits,
                {outcome: histogram.counted() for outcome, histogram in self.open_seconds.items()},
                self.completion_seconds.counted(),
            )
        return self._counted

    def dated(self) -> Mapping[Outcome, float]:
        """When the last transaction with each outcome finished; the same object as long as that does not change."""
        if self._dated is None:
            self._dated = {outcome: ms / 1000 for outcome, ms in self._last_ms.items() if ms}
        return self._dated

    @classmethod
    def restored(cls, name: str, saved: list[Any]) -> ApplicationCounters:
        """From ``ApplicationCounts`` in JSON, without ids. Raises ValueError or TypeError for anything else."""
        example, described, counts, inits, opened, completion = saved
        own = cls(Application(name, *map(str, described)), str(example))
        own.outcomes |= {Outcome(outcome): int(count) for outcome, count in counts.items()}
        own.inits = int(inits)
        for outcome, histogram in opened.items():
            own.open_seconds[Outcome(outcome)] = kept = Histogram(catalogue.TRANSACTION_OPEN_SECONDS)
            kept.restore(histogram)
        own.completion_seconds.restore(completion)
        return own


def counter_samples(cluster: str, counted: Mapping[str, ApplicationCounts]) -> Iterator[Sample]:
    """The samples that are kept while the source fails."""
    for name, counters in counted.items():
        for outcome in _OUTCOMES:
            yield catalogue.TRANSACTIONS_TOTAL(float(counters.outcomes.get(outcome, 0)), cluster, name, outcome.value)
        for outcome, opened in counters.open_seconds.items():
            value = distribution(_OPEN_BOUNDS, opened)
            yield catalogue.TRANSACTION_OPEN_SECONDS(value, cluster, name, outcome.value)
        completion = distribution(_COMPLETION_BOUNDS, counters.completion_seconds)
        yield catalogue.TRANSACTION_COMPLETION_SECONDS(completion, cluster, name)
        fences = counters.outcomes.get(Outcome.FENCED, 0)
        yield catalogue.PRODUCER_FENCES_TOTAL(float(fences), cluster, name)
        yield catalogue.PRODUCER_INITS_TOTAL(float(counters.inits), cluster, name)


def application_samples(cluster: str, applications: Iterable[Application], seen: Mapping[str, int]) -> Iterator[Sample]:
    """Yield the kinds of the applications, and how many ids of each were seen in the last hour."""
    for application in applications:
        name = application.name
        yield catalogue.APPLICATION_INFO(
            1.0, cluster, name, application.kind, application.connect, application.connector
        )
        if (ids := seen.get(name)) is not None:
            yield catalogue.TRANSACTIONAL_IDS(float(ids), cluster, name)


def last_samples(cluster: str, dated: Mapping[str, Mapping[Outcome, float]]) -> Iterator[Sample]:
    """When the last transaction of each application and outcome finished."""
    for name, instants in dated.items():
        for outcome, instant in instants.items():
            yield catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS(instant, cluster, name, outcome.value)
