"""The series of the transaction log: counters, instants and gauges of the aggregates. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from exporter import catalogue
from exporter.applications.applications import Application
from exporter.core.derived import Derived
from exporter.model import LateBatch, Sample, SampleBatch
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.counting.application_counters import (
    COUNTER_FAMILIES,
    LAST_FAMILIES,
    ApplicationCounts,
    application_samples,
    counter_samples,
    last_samples,
)
from exporter.words import Outcome


class LogSeries:
    """The batches of one cluster, made again after a change."""

    def __init__(self, aggregates: Aggregates) -> None:
        self._aggregates = aggregates
        self._counted = Derived(_counter_batch)
        self._dated = Derived(_last_batch)
        self._present, self._recent = Derived(_application_batch), Derived(SampleBatch)
        self.fences: tuple[Sample, ...] = ()
        """Those of ``recent`` that are ids with fences."""

    def counters(self, cluster: str) -> SampleBatch:
        """The counters, which are kept while the source fails."""
        return self._counted(cluster, self._aggregates.counted())

    def dated(self, cluster: str) -> SampleBatch:
        """When the last transactions of each application finished."""
        return self._dated(cluster, self._aggregates.dated())

    def present(self, cluster: str) -> SampleBatch:
        """The kinds of the applications, and how many ids they have."""
        return self._present(cluster, self._aggregates.applications.described, self._aggregates.applications.seen)

    def recent(self, cluster: str, log_now: float) -> SampleBatch:
        """The last hour before ``log_now``, log time in Unix seconds."""
        batch = self._recent(tuple(self._aggregates.recent(cluster, log_now)))
        self.fences = batch.of_families((catalogue.RECENT_PRODUCER_FENCES,))
        return batch


def _counter_batch(cluster: str, counted: Mapping[str, ApplicationCounts]) -> SampleBatch:
    return LateBatch(COUNTER_FAMILIES, partial(counter_samples, cluster, counted))


def _application_batch(cluster: str, applications: tuple[Application, ...], seen: Mapping[str, int]) -> SampleBatch:
    return SampleBatch(application_samples(cluster, applications, seen))


def _last_batch(cluster: str, dated: Mapping[str, Mapping[Outcome, float]]) -> SampleBatch:
    return LateBatch(LAST_FAMILIES, partial(last_samples, cluster, dated))
