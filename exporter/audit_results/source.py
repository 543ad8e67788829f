"""Audits: the latest run of each, from result files, which are read again when they change, and posted results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter import catalogue
from exporter.audit_results.result import AuditResult, AuditResultError, AuditResults, parse_result
from exporter.bounds.files import TooLargeError, is_regular, names_in, read_regular
from exporter.bounds.json_text import weight
from exporter.bounds.memory import one_heavy_at_a_time
from exporter.cluster import NamedCluster, TargetSource
from exporter.core.files import FileStamp
from exporter.model import Deadline, Fact, Facts, Fault, Reason, Sample

MOST_BYTES = 16 * 1024 * 1024
MOST_FILES = 1000
"""Most files read, the newest first: a folder may keep every run."""


class _FileResults(NamedTuple):
    stamp: FileStamp
    said: AuditResult | Fault


class AuditFiles:
    """The results in the files of these names or patterns. Call from one thread at a time."""

    def __init__(self, patterns: Sequence[Path]) -> None:
        self._patterns = tuple(patterns)
        self._read: dict[Path, _FileResults] = {}

    def read(self, deadline: Deadline) -> Iterator[AuditResult | Fault]:
        """Return every result, and a fault for each file or folder that cannot be read. Only changed files are read."""
        stamps: dict[Path, FileStamp] = {}
        for pattern in self._patterns:
            try:
                stamps |= dict(_matching(pattern))
            except OSError as error:
                yield _trouble(error, pattern.parent)
        newest = sorted(stamps, key=lambda path: stamps[path].modified, reverse=True)[:MOST_FILES]
        self._read = {path: self._read[path] for path in newest if path in self._read}
        for path in newest:
            before = self._read.get(path)
            if before is None or before.stamp != stamps[path]:
                if deadline.over:
                    yield Fault(Reason.TIMEOUT, f"not all of {len(newest)} results were read in time")
                    return
                self._read[path] = before = _FileResults(stamps[path], _said(path))
            yield before.said


def _matching(pattern: Path) -> Iterator[tuple[Path, FileStamp]]:
    """The files of this name; its last part may have wildcards. Raises OSError for a folder that cannot be read."""
    for entry in names_in(pattern.parent):
        path = pattern.parent / entry.name
        if path.match(pattern.name) and is_regular(entry) and (stamp := FileStamp.at(path)) is not None:
            yield path, stamp


def _said(path: Path) -> AuditResult | Fault:
    try:
        content = read_regular(path, MOST_BYTES)
    except TooLargeError as error:
        return Fault(Reason.MALFORMED, f"{path} {error.strerror}")
    except OSError as error:
        return _trouble(error, path)
    try:
        with one_heavy_at_a_time(weight(content)):
            return parse_result(content)
    except AuditResultError as error:
        return Fault(Reason.MALFORMED, f"{path} is no result of an audit: {error}")


def _trouble(error: OSError, path: Path) -> Fault:
    if isinstance(error, PermissionError):
        return Fault(Reason.AUTHORIZATION, f"{path} may not be read by the agent's user")
    return Fault(Reason.UNREACHABLE, f"{path} cannot be read: {error.strerror or type(error).__name__}")


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
