"""Audits: the latest run of each, from result files and posted results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from exporter import catalogue
from exporter.audit_results.result import AuditResult, AuditResults
from exporter.audit_results.result_files import AuditFiles
from exporter.cluster import NamedCluster, TargetSource
from exporter.model import Deadline, Fact, Facts, Fault, Reason, Sample

MOST_AUDITS = 500


Names = Callable[[], frozenset[str]]
"""The names of all clusters that are watched now."""


class AuditsSource(TargetSource[NamedCluster]):
    """Source ``audits`` of one cluster."""

    name = "audits"

    def __init__(
        self,
        cluster: NamedCluster,
        names: Names,
        files: AuditFiles,
        posted: Callable[[], Sequence[AuditResult]] = tuple,
        left_out: Callable[[], int] = int,
    ) -> None:
        """``posted`` returns the posted results, ``left_out`` how many of them could not be kept."""
        super().__init__(cluster, self.name, 15.0)
        self._names = names
        self._files = files
        self._posted = posted
        self._left_out = left_out

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        del facts
        results: list[AuditResult] = list(self._posted())
        for item in self._files.read(deadline):
            if isinstance(item, Fault):
                yield item
            else:
                results.append(item)
        names = self._names()
        mine: list[AuditResult] = []
        unknown: set[str] = set()
        for result in results:
            if self._is_mine(result, names):
                mine.append(result)
            elif result.kafka_cluster not in names:
                unknown.add(result.audit)
        if unknown:
            text = f"the audit {min(unknown)!r:.60} names no cluster that is watched; give it the cluster's name"
            yield Fault(Reason.MALFORMED, text + (f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""))
        last = latest(mine)
        shown = dict(sorted(last.items())[:MOST_AUDITS])
        for result in shown.values():
            yield from audit_samples(result, (self.cluster, self.target, result.audit))
        if dropped := len(last) - len(shown) + self._left_out():
            yield catalogue.SERIES_DROPPED(float(dropped), catalogue.AUDIT_VERDICT.name)
        yield AuditResults(tuple(shown.values()))

    def _is_mine(self, result: AuditResult, names: frozenset[str]) -> bool:
        """Return whether the cluster is this one. Without a cluster, a result is of the only one that is watched."""
        if not result.kafka_cluster:
            return len(names) <= 1
        return result.kafka_cluster == self._cluster.name


def latest(results: Iterable[AuditResult]) -> Mapping[str, AuditResult]:
    """The last run of each audit, by its name."""
    last: dict[str, AuditResult] = {}
    for result in results:
        if result.audit not in last or result.finished_at >= last[result.audit].finished_at:
            last[result.audit] = result
    return last


def audit_samples(result: AuditResult, head: tuple[str, str, str]) -> Iterator[Sample]:
    """The result of an audit by topic. A kind that was searched for and not found is 0."""
    for name, topic in result.topics.items():
        labels = (*head, name)
        counts = dict.fromkeys(result.checked, 0)
        for finding in result.findings:
            if finding.topic == name:
                counts[finding.kind] = counts.get(finding.kind, 0) + finding.count
        for kind, count in counts.items():
            yield catalogue.AUDIT_FINDINGS(float(count), *labels, kind)
        if topic.records is not None:
            yield catalogue.AUDIT_RECORDS(float(topic.records), *labels)
        yield catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS(result.finished_at, *labels)
        yield catalogue.AUDIT_VERDICT(1.0, *labels, topic.verdict)
