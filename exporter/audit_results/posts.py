"""Results of audits posted by ``audit --agent URL``: the latest of each audit."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from exporter.audit_results.result import AuditResult, AuditResultError, parse_result, weight
from exporter.ingest.admission import MOST_AHEAD_SECONDS
from exporter.ingest.budget import Budget, series_bytes
from exporter.ingest.latest import LatestBySender, RefusedError
from exporter.model import Clock

KEEP_SECONDS = 31 * 86_400.0
"""A result is valid until the next one: the last result of an audit that runs once a month is exposed all the time."""

SERIES_OF_A_TOPIC = 3
LINE_BYTES = 120
"""Bytes of a finding in the status document."""


class AuditKey(NamedTuple):
    """Key of an audit: its name and the cluster that it names, "" for the only one."""

    cluster: str
    audit: str


class AuditReceiver:
    """The posted results, the latest run of each audit. Any thread may call any method."""

    def __init__(self, clusters: Collection[str], audits: int, clock: Clock, budget: Budget | None = None) -> None:
        """``clusters`` are the names that a result may give; at most ``audits`` are kept, those that
        posted last: a name that nobody uses any more would take the place of another for ``KEEP_SECONDS``.
        """
        self._clusters = clusters  # a reload may change them
        self._clock = clock
        self._latest: LatestBySender[AuditKey, AuditResult] = LatestBySender(
            audits, KEEP_SECONDS, clock, _weight, senders="audits", budget=budget, replaces=True
        )

    def take(self, body: bytes) -> None:
        """Accept one result. One that ended before the kept one changes nothing. Raises RefusedError."""
        self._latest.admit()
        try:
            result = parse_result(body)
        except AuditResultError as error:
            raise RefusedError(400, str(error)) from None
        if not self._is_watched(result.kafka_cluster):
            raise RefusedError(
                400,
                "kafka_cluster names no cluster that this agent watches"
                if result.kafka_cluster
                else "has no kafka_cluster, and this agent watches several: give the audit the cluster's name",
            )
        if result.finished_at > self._clock.wall() + MOST_AHEAD_SECONDS:
            raise RefusedError(400, "finished_at is more than 10 minutes ahead of the clock of this agent")
        self._latest.put(
            AuditKey(result.kafka_cluster, result.audit),
            lambda before: before if before is not None and before.finished_at > result.finished_at else result,
        )

    def results(self) -> tuple[AuditResult, ...]:
        """The latest result of each audit of a cluster that is watched now: a reload may have removed others."""
        return tuple(result for key, result in self._latest.latest().items() if self._is_watched(key.cluster))

    def left_out(self) -> int:
        """Number of audits that posted recently and are not kept."""
        return self._latest.left_out()

    def _is_watched(self, cluster: str) -> bool:
        """Return whether it is clear which watched cluster a result is of. Without a name it is of the only one."""
        return cluster in self._clusters if cluster else len(self._clusters) <= 1


def _weight(key: AuditKey, result: AuditResult) -> int:
    """Most bytes of memory that a result takes, with its series in /metrics and its lines in the status document."""
    labels = (*key, max(result.topics, key=series_bytes))
    series = len(result.topics) * SERIES_OF_A_TOPIC + len(result.findings)
    lines = sum(LINE_BYTES + 4 * len(finding.topic) for finding in result.findings)
    return weight(result) + series * series_bytes(*labels) + lines
