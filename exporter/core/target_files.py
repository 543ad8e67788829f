"""Targets that others write into files, in Prometheus's file_sd form: reread when they change."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from exporter.core.file_stamp import FileStamp

log = logging.getLogger(__name__)

MAX_BYTES = 4 * 1024 * 1024
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


class TargetFileError(Exception):
    """The file is not of the form; the text says why."""


class FileTarget(NamedTuple):
    """One target: ``host:port``, and the labels that its group has."""

    address: str
    labels: Mapping[str, str]


class _Read(NamedTuple):
    stamp: FileStamp
    targets: tuple[FileTarget, ...]


class TargetFiles:
    """The targets in the files of these names or patterns. A file that cannot be read keeps what it said last.

    One that is gone lists nothing. Call from one thread at a time.
    """

    def __init__(self, patterns: Sequence[Path]) -> None:
        self._patterns = tuple(patterns)
        self._read: dict[Path, _Read] = {}

    def targets(self) -> tuple[FileTarget, ...]:
        """All targets now, each address once; reads only what changed."""
        files = sorted({file for pattern in self._patterns for file in _matching(pattern)})
        self._read = {file: read for file in files if (read := self._look(file)) is not None}
        by_address: dict[str, FileTarget] = {}
        for read in self._read.values():
            for target in read.targets:
                by_address.setdefault(target.address, target)
        return tuple(by_address.values())

    def _look(self, file: Path) -> _Read | None:
        before = self._read.get(file)
        stamp = None
        try:
            status = file.stat()
            stamp = FileStamp.of(status)
            if before is not None and before.stamp == stamp:
                return before
            with file.open("rb") as content:
                targets = tuple(parse_targets(content.read(MAX_BYTES + 1)))
        except FileNotFoundError:
            return None
        except OSError as error:
            return _kept(file, before, error.strerror or "cannot be read", None)
        except TargetFileError as error:
            return _kept(file, before, str(error), stamp)
        log.info("%s lists %d target(s)", file, len(targets))
        return _Read(stamp, targets)


def _kept(file: Path, before: _Read | None, why: str, stamp: FileStamp | None) -> _Read | None:
    """What a file said before, noted as read so that the same fault is logged once."""
    targets = before.targets if before else ()
    log.warning("%s %s; %d target(s) of before stay", file, why, len(targets))
    return before if stamp is None else _Read(stamp, targets)


def _matching(pattern: Path) -> Iterator[Path]:
    """The files of this name; its last part may have wildcards."""
    if any(sign in pattern.name for sign in "*?["):
        yield from (file for file in pattern.parent.glob(pattern.name) if file.is_file())
    else:
        yield pattern


def parse_targets(content: bytes) -> Iterator[FileTarget]:
    """The targets of a file: a list of groups with ``targets`` and, if wanted, ``labels``. Raises TargetFileError."""
    if len(content) > MAX_BYTES:
        raise TargetFileError(f"is larger than {MAX_BYTES // 1024 // 1024} MB")
    try:
        groups: Any = yaml.safe_load(content.decode())  # JSON is YAML
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        raise TargetFileError("is no JSON or YAML") from None
    if groups is None:
        return
    if not isinstance(groups, list):
        raise TargetFileError("must be a list of groups such as {targets: [app-1:8778], labels: {}}")
    for group in groups:
        if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
            raise TargetFileError("must be a list of groups, each with a list of targets")
        labels = group.get("labels") or {}
        if not isinstance(labels, dict):
            raise TargetFileError("has labels that are no mapping")
        for address in group["targets"]:
            if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
                raise TargetFileError(f"has a target that is no host:port: {address!r:.60}")
            yield FileTarget(address, {str(key): str(value) for key, value in labels.items()})
