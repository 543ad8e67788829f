"""The counters, histograms and instants of one application, as samples. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from exporter import catalogue
from exporter.core.histogram import Histogram
from exporter.model import Outcome, Sample
from exporter.transactions.applications import Application
from exporter.transactions.entries import Ended


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
        self.last: dict[Outcome, float] = {}
        self.changed = True  # since it was last saved
        self._samples: tuple[tuple[Sample, ...], tuple[Sample, ...]] | None = None
        self._named = ""

    def count(self, transaction: Ended) -> None:
        _, _, _, _, outcome, begun_ms, prepared_ms, completed_ms, *_ = transaction
        self.outcomes[outcome] += 1
        if begun_ms >= 0:
            if (histogram := self.open_seconds.get(outcome)) is None:
                histogram = self.open_seconds[outcome] = Histogram(catalogue.TRANSACTION_OPEN_SECONDS)
            histogram.observe(prepared_ms - begun_ms)
        self.completion_seconds.observe(completed_ms - prepared_ms)
        self._samples = None
        self.changed = True

    def date(self, outcome: Outcome, instant: float) -> None:
        """Note when a transaction finished, counted or not, in Unix seconds of log time."""
        if instant > self.last.get(outcome, 0.0):
            self.last[outcome] = instant
            self._samples = None

    def initialised(self) -> None:
        self.inits += 1
        self._samples = None
        self.changed = True

    def describe(self, application: Application) -> None:
        self.application = application
        self._samples = None
        self.changed = True

    def saved(self) -> list[Any]:
        """All that is counted, for ``restored``."""
        opened = {outcome.value: histogram.saved() for outcome, histogram in self.open_seconds.items()}
        counts = {outcome.value: count for outcome, count in self.outcomes.items() if count}
        return [self.example, self.application[1:], counts, self.inits, opened, self.completion_seconds.saved()]

    @classmethod
    def restored(cls, name: str, saved: list[Any]) -> ApplicationCounters:
        """As it was saved, without ids. Raises ValueError or TypeError for what ``saved`` did not write."""
        example, described, counts, inits, opened, completion = saved
        own = cls(Application(name, *map(str, described)), str(example))
        own.outcomes |= {Outcome(outcome): int(count) for outcome, count in counts.items()}
        own.inits = int(inits)
        for outcome, histogram in opened.items():
            own.open_seconds[Outcome(outcome)] = kept = Histogram(catalogue.TRANSACTION_OPEN_SECONDS)
            kept.restore(histogram)
        own.completion_seconds.restore(completion)
        own.changed = False
        return own

    def samples(self, cluster: str) -> tuple[tuple[Sample, ...], tuple[Sample, ...]]:
        """Samples that are kept while the source fails (counters, histograms), and samples that are dropped (gauges).

        Computed again only after a change.
        """
        if self._samples is None or self._named != cluster:
            self._samples = (tuple(self._counters(cluster)), tuple(self._gauges(cluster)))
            self._named = cluster
        return self._samples

    def _counters(self, cluster: str) -> Iterator[Sample]:
        name = self.application.name
        for outcome, count in self.outcomes.items():
            yield catalogue.TRANSACTIONS_TOTAL(float(count), cluster, name, outcome.value)
        for outcome, histogram in self.open_seconds.items():
            yield catalogue.TRANSACTION_OPEN_SECONDS(histogram.value(), cluster, name, outcome.value)
        yield catalogue.TRANSACTION_COMPLETION_SECONDS(self.completion_seconds.value(), cluster, name)
        yield catalogue.PRODUCER_FENCES_TOTAL(float(self.outcomes[Outcome.FENCED]), cluster, name)
        yield catalogue.PRODUCER_INITS_TOTAL(float(self.inits), cluster, name)

    def _gauges(self, cluster: str) -> Iterator[Sample]:
        app = self.application
        yield catalogue.APPLICATION_INFO(1.0, cluster, app.name, app.kind, app.connect, app.connector)
        for outcome, instant in self.last.items():
            yield catalogue.LAST_TRANSACTION_TIMESTAMP_SECONDS(instant, cluster, app.name, outcome.value)
