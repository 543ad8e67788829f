"""Targets from files in Prometheus's file_sd format, reread when they change."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from exporter.bounds.files import is_regular, names_in, read_regular
from exporter.bounds.json_text import JsonError, parse_json
from exporter.bounds.memory import one_heavy_at_a_time
from exporter.bounds.text import cut, without_credentials
from exporter.core.files import FileStamp

log = logging.getLogger(__name__)

MAX_BYTES = 4 * 1024 * 1024
MOST_TARGETS = 10_000
"""Targets of one file, and of all files of one setting."""
MOST_FILES = 1000
"""Files of one pattern, the first by name."""
PARSED_WEIGHT = 220
"""Bytes of memory for each byte of a file while it is parsed: 206 were seen, for a list of short lists."""
LONGEST_LABEL = 1000
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


class TargetFileError(Exception):
    """The file does not have the expected form; the text is the reason."""


class LeftOut(NamedTuple):
    """A group or a target that is not of the form, as the end of a sentence; the others stay."""

    why: str


class FileTarget(NamedTuple):
    """One target: ``host:port``, and the labels that its group has."""

    address: str
    labels: Mapping[str, str]


class _FileTargets(NamedTuple):
    stamp: FileStamp | None
    targets: tuple[FileTarget, ...]
    fault: str = ""


class TargetFiles:
    """The targets in the files of these names or patterns. A file that cannot be read keeps its last targets.

    An invalid group or target is left out with a warning. A deleted file has no targets. Not thread-safe.
    """

    def __init__(self, patterns: Sequence[Path]) -> None:
        self._patterns = tuple(patterns)
        self._read: dict[Path, _FileTargets] = {}
        self._full = False
        self._unread: set[Path] = set()  # the patterns whose folder cannot be read

    def targets(self) -> tuple[FileTarget, ...]:
        """All current targets, each address once. Only changed files are read."""
        files = sorted({file for pattern in self._patterns for file in self._files(pattern)})
        kept: dict[Path, _FileTargets] = {}
        by_address: dict[str, FileTarget] = {}
        room, left_out = MOST_TARGETS, 0
        for file in files:
            if (read := self._look(file) if room else None) is None:
                left_out += not room
                continue
            if len(read.targets) > room:  # no stamp: read again next time, as other files may have fewer then
                read, left_out = _FileTargets(None, read.targets[:room]), left_out + 1
            room -= len(read.targets)
            kept[file] = read
            for target in read.targets:
                by_address.setdefault(target.address, target)
        self._read = kept
        if left_out and not self._full:
            log.warning("targets of %d file(s) are left out: %d together are read", left_out, MOST_TARGETS)
        self._full = left_out > 0
        return tuple(by_address.values())

    def _files(self, pattern: Path) -> Sequence[Path]:
        """The files of a pattern; those that were read before while their folder cannot be read."""
        try:
            found = list(_matching(pattern))
        except FileNotFoundError:
            found = []
        except OSError as error:
            if pattern not in self._unread:
                log.warning("%s %s; its files of before stay", pattern.parent, error.strerror or "cannot be read")
            self._unread.add(pattern)
            return [file for file in self._read if file.parent == pattern.parent and file.match(pattern.name)]
        self._unread.discard(pattern)
        return found

    def _look(self, file: Path) -> _FileTargets | None:
        before = self._read.get(file)
        stamp = None
        try:
            status = file.stat()
            stamp = FileStamp.of(status)
            if before is not None and before.stamp == stamp:
                return before
            content = read_regular(file, MAX_BYTES)
            with one_heavy_at_a_time(len(content) * PARSED_WEIGHT):
                read = tuple(parse_targets(content))
        except FileNotFoundError:
            return None
        except OSError as error:
            return _kept(file, before, error.strerror or "cannot be read", None)
        except TargetFileError as error:
            return _kept(file, before, str(error), stamp)
        targets = tuple(entry for entry in read if isinstance(entry, FileTarget))
        log.info("%s lists %d target(s)", file, len(targets))
        if left_out := [entry for entry in read if isinstance(entry, LeftOut)]:
            log.warning("%s: %d left out; the first %s", file, len(left_out), left_out[0].why)
        return _FileTargets(stamp, targets)


def _kept(file: Path, before: _FileTargets | None, fault: str, stamp: FileStamp | None) -> _FileTargets:
    """The last targets of a file, with the fault, so that the same one is logged once."""
    targets = before.targets if before else ()
    if before is None or before.fault != fault:
        log.warning("%s %s; %d target(s) of before stay", file, fault, len(targets))
    return _FileTargets(stamp, targets, fault)


def _matching(pattern: Path) -> Iterator[Path]:
    """The files of this name; its last part may have wildcards. Raises OSError for a folder that cannot be read."""
    if any(sign in pattern.name for sign in "*?["):
        names = sorted(entry.name for entry in names_in(pattern.parent) if is_regular(entry))
        paths = (pattern.parent / name for name in names)
        yield from islice((path for path in paths if path.match(pattern.name)), MOST_FILES)
    else:
        yield pattern


def parse_targets(content: bytes) -> Iterator[FileTarget | LeftOut]:
    """The targets of a file: a list of groups with ``targets`` and, if wanted, ``labels``.

    Raises TargetFileError for what is no such list, or has nothing in it but what has to be left out.
    """
    if len(content) > MAX_BYTES:
        raise TargetFileError(f"is larger than {MAX_BYTES // 1024 // 1024} MB")
    groups = _document(content)
    if groups is None:
        return
    if not isinstance(groups, list):
        raise TargetFileError("must be a list of groups such as {targets: [app-1:8778], labels: {}}")
    read = list(_targets(groups))
    left_out = [entry for entry in read if isinstance(entry, LeftOut)]
    if left_out and len(left_out) == len(read):
        raise TargetFileError(f"has nothing that can be read: the first {left_out[0].why}")
    yield from read


def _targets(groups: Sequence[object]) -> Iterator[FileTarget | LeftOut]:
    listed = 0
    for group in groups:
        if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
            yield LeftOut("is a group without a list of targets")
            continue
        labels = _labels(group.get("labels"))
        if labels is None:
            yield LeftOut("is a group with labels that are no mapping of texts")
            continue
        for address in group["targets"]:
            if listed == MOST_TARGETS:
                yield LeftOut(f"is beyond {MOST_TARGETS} targets, as is all that follows")
                return
            if not isinstance(address, str) or len(address) > LONGEST_LABEL or not _ADDRESS.fullmatch(address):
                shown = cut(without_credentials(address), 60) if isinstance(address, str) else "a value that is no text"
                yield LeftOut(f"is a target that is no host:port: {shown!r}")
                continue
            listed += 1
            yield FileTarget(address, labels)


def _document(content: bytes) -> Any:  # noqa: ANN401 -- JSON or YAML is anything
    """The content of a file: JSON, which parses faster, or YAML. Raises TargetFileError."""
    try:
        if content.lstrip()[:1] in {b"[", b"{"}:
            try:
                return parse_json(content)
            except JsonError:
                pass  # a YAML flow sequence begins so, too
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TargetFileError("is no UTF-8 text") from None
    from exporter.bounds.yaml_text import YamlError, parse_yaml  # noqa: PLC0415 -- memory, only where a file is YAML

    try:
        return parse_yaml(text)
    except YamlError as error:
        raise TargetFileError(str(error)) from None


def _labels(value: object) -> Mapping[str, str] | None:
    """The labels of a group; None when they are no mapping of short texts, or of numbers as JSON may have them."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return None
    labels: dict[str, str] = {}
    for key, text in value.items():
        if isinstance(text, list | dict) or len(key) > LONGEST_LABEL or len(str(text)) > LONGEST_LABEL:
            return None
        labels[key] = "" if text is None else str(text)
    return labels
