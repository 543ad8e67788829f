"""Results of audits in files, reread when they change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.audit_results.result import AuditResult, AuditResultError, parse_result
from exporter.bounds.files import TooLargeError, is_regular, names_in, read_regular
from exporter.bounds.json_text import weight
from exporter.bounds.memory import one_heavy_at_a_time
from exporter.core.file_stamp import FileStamp
from exporter.model import Deadline, Fault, Reason

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
