"""The files of one journal: JSON lines in segments, appended by one writer, the oldest dropped.

``FOLDER/journal/MICROSECONDS.jsonl``: the name is when its first event was recorded. Its first line is a header with
what was open then, so that the last segment suffices to go on after a restart. A last line that is torn, by a kill or a
crash, is ended by the next process, and readers skip it.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from exporter.bounds.files import open_regular
from exporter.bounds.json_text import JsonError, parse_json
from exporter.core.files import PRIVATE_FOLDER, append_line
from exporter.journal.documents import EventDocument, event_of

FOLDER = "journal"
SUFFIX = ".jsonl"
PARTS = 16
"""Segments that a full journal has: so much of it, one part, is dropped at once."""
LEAST_SEGMENT_BYTES = 64 * 1024
MOST_LINE_BYTES = 2 * 1024 * 1024
"""A header has every open stall; an event 100 partitions at most."""
MOST_LINE_WEIGHT = 32 * 1024 * 1024
MOST_NAMES = 10_000
BLOCK = 256 * 1024
DAY = 86_400.0
DIGITS = 16
"""Of the microseconds in the name of a segment."""
_NAME = re.compile(rf"[0-9]{{{DIGITS}}}{re.escape(SUFFIX)}")


class KeptLimits(NamedTuple):
    """How much of the past is kept: bytes, and seconds."""

    size: int
    seconds: float

    @property
    def segment(self) -> int:
        """Bytes of one segment."""
        return max(LEAST_SEGMENT_BYTES, self.size // PARTS)


class SegmentWriter:
    """Appends lines. For one thread, and one process: the agent has locked ``state.dir``."""

    def __init__(self, folder: Path, limits: KeptLimits) -> None:
        """``folder`` is that of the cluster; ``journal`` in it is made at the first line."""
        self._folder = folder / FOLDER
        self._limits = limits
        self._last: Path | None = None
        self._size = 0
        self._total = 0
        self._torn = False

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def total(self) -> int:
        """Bytes of all segments."""
        return self._total

    def go_on(self) -> bool:
        """Go on with the last segment. Returns whether its last line is torn."""
        found = segments(self._folder)
        self._total = sum(map(_size, found))
        if found and (size := _size(found[-1])) and (end := _last_byte(found[-1])):
            self._last, self._size, self._torn = found[-1], size, end != b"\n"
        return self._torn

    def append(self, line: bytes, header: Callable[[], bytes], recorded: float, wall: float) -> None:
        """Add a line, in a new segment that begins with a ``header`` where the last one is full or has vanished.

        ``recorded`` is later than that of every line before. Raises OSError.
        """
        if self._last is None or not self._last.exists() or self._size + len(line) > self._limits.segment:
            self._begin(header(), recorded, wall)
        if self._last is None:
            raise OSError(errno.ENOENT, "there is no segment")
        if self._torn:
            line = b"\n" + line
        append_line(self._last, line)
        self._torn = False
        self._size += len(line)
        self._total += len(line)

    def touch(self, wall: float) -> None:
        """Note in the last segment's time that this process runs: what is later is not known of it. Whole seconds tell
        this note from the time of a copy.
        """
        if self._last is not None:
            with suppress(OSError):
                os.utime(self._last, (int(wall), int(wall)), follow_symlinks=False)

    def drop_old(self, wall: float) -> None:
        """Remove the oldest segments beyond the limits; the last one stays."""
        found = segments(self._folder)
        sizes = {path: _size(path) for path in found}
        self._total = sum(sizes.values())
        for path, after in pairwise(found):
            beyond = self._total + self._limits.segment > self._limits.size
            if not beyond and began(after) >= wall - self._limits.seconds:
                break
            path.unlink(missing_ok=True)
            self._total -= sizes[path]

    def _begin(self, header: bytes, recorded: float, wall: float) -> None:
        self._folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        self.drop_old(wall)
        path = self._folder / f"{round(recorded * 1e6):0{DIGITS}d}{SUFFIX}"
        append_line(path, header)
        self._last, self._size, self._torn = path, len(header), False
        self._total += len(header)


def segments(folder: Path) -> list[Path]:
    """Return the segments of a folder, the oldest first; none where there is no folder."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES)]
    except OSError:
        return []
    return [folder / name for name in sorted(names) if _NAME.fullmatch(name)]


def began(path: Path) -> float:
    """When the first event of a segment was recorded, in Unix seconds."""
    return int(path.name[: -len(SUFFIX)]) / 1e6


def touched(path: Path) -> float | None:
    """When the writer of a segment was last known to run, in Unix seconds; None where its time is not the writer's
    note: of a file restored from a backup it is that of the copy, and says nothing about the writer.
    """
    try:
        seconds, rest = divmod(path.stat(follow_symlinks=False).st_mtime_ns, 1_000_000_000)
    except OSError:
        return None
    return None if rest else float(seconds)


def lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of a segment, up to one that is longer than a line may be. A line without an end is left
    out. Raises OSError.
    """
    with open_regular(path, links=False) as file:
        rest = b""
        while part := file.read(BLOCK):
            *whole, rest = (rest + part).split(b"\n")
            yield from whole
            if len(rest) > MOST_LINE_BYTES:
                return


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return the document of a line, None where it is none: torn, or of something else."""
    if len(line) > MOST_LINE_BYTES:
        return None
    try:
        found = parse_json(line, MOST_LINE_WEIGHT)
    except JsonError:
        return None
    return found if isinstance(found, dict) else None


def encode(document: Mapping[str, Any]) -> bytes:
    """One line of ASCII: what does not print is escaped."""
    return json.dumps(document, separators=(",", ":")).replace("\x7f", r"\u007f").encode() + b"\n"


def read_event(line: bytes) -> EventDocument | None:
    """Return the event of a line, None for one that is none."""
    return event_of(parsed(line))


def _last_byte(path: Path) -> bytes:
    """The last byte of a file that is not empty, b"" where it cannot be read."""
    try:
        with open_regular(path, links=False) as file:
            file.seek(-1, os.SEEK_END)
            return bytes(file.read(1))
    except OSError:
        return b""


def _size(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
