"""The event log of one Spark application: its files in order, and the events of its streaming queries.

Two layouts (EventLogFileWriter): a folder ``eventlog_v2_<app>`` with ``events_<n>_<app>``, rolled by size, beside
``appstatus_<app>``, the default of Spark 4; or one file ``<app>`` (spark.eventLog.rolling.enabled false). The history
server may fold old files into ``events_<n>_<app>.compact``. A third one is that of clusters that deliver copies of
their logs, as Databricks does: ``eventlog``, and ``eventlog-<date>--<hour>-<minute>.gz`` of the hours before it.

An application has ended when its log says so (SparkListenerApplicationEnd). Spark takes ``.inprogress`` off the name
then, and a delivered copy never had it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from exporter.bounds.files import is_regular, names_in
from exporter.bounds.json_text import JsonError, parse_json, weight
from exporter.bounds.memory import one_heavy_at_a_time
from exporter.model import Deadline, Fault, Reason
from exporter.spark.events import EventError, after, mapping, name_of, parse_event
from exporter.spark.log_files import (
    LONGEST_LINE,
    Decoder,
    FileChunk,
    Follower,
    GzipDecoder,
    PlainDecoder,
    ReplacedError,
    UnsupportedCodecError,
    ZstdDecoder,
    is_log,
    shown,
)
from exporter.spark.queries import StreamingQuery
from exporter.words import QueryState

FOLDER_PREFIX = "eventlog_v2_"
IN_PROGRESS = ".inprogress"
DELIVERED = re.compile(r"eventlog(?:-(\d{4})-(\d{2})-(\d{2})--(\d{2})-(\d{2})(?:\.gz)?)?")
OTHER_CODECS = (".lz4", ".lzf", ".snappy")
MOST_CATCH_UP = 64 * 1024 * 1024
"""Bytes of the newest files of a rolled log that are read of an application that is found late; of the other files only
its name. A log of one file is read whole, in as many reads as that takes.
"""
HEAD_BYTES = 1024 * 1024

MOST_QUERIES = 200
"""Queries of one application that are remembered; of more, those that ended first are forgotten, then the oldest."""
MOST_LINE_FAULTS = 10
"""Largest number of lines of one read that are reported one by one."""

_ROLLED = re.compile(r"events_([0-9]{1,18})_.*?(?P<compact>\.compact)?")
_QUERY_MARK = b"StreamingQueryListener$Query"
HEAD_OF_LINE = 200
"""The event's name is the first thing in a line (JsonProtocol)."""
_APPLICATION_MARK = b'{"Event":"SparkListenerApplication'


_GROWING = 10**12  # beyond each date: twelve digits


class LogFile(NamedTuple):
    """One file of a log; ``number`` orders those of one application."""

    number: int
    path: Path
    compact: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one application's log as they are now, in order."""

    files: tuple[LogFile, ...]
    modified: float
    size: int


def rolled_layout(folder: Path) -> Layout:
    """The files in a folder ``eventlog_v2_<app>``. Raises OSError."""
    files: list[LogFile] = []
    modified, size = 0.0, 0
    for entry in names_in(folder):
        if (match := _ROLLED.fullmatch(entry.name)) is not None and is_regular(entry):
            status = entry.stat()
            modified, size = max(modified, status.st_mtime), size + status.st_size
            files.append(LogFile(int(match[1]), Path(entry.path), match["compact"] is not None))
    compact = max((file.number for file in files if file.compact), default=-1)
    kept = (file for file in files if file.number > compact or (file.number == compact and file.compact))
    return Layout(tuple(sorted(kept)), modified, size)


def single_layout(path: Path) -> Layout:
    """A log of one file. Raises OSError."""
    status = path.stat()
    return Layout((LogFile(0, path),), status.st_mtime, status.st_size)


def delivered_layout(path: Path) -> Layout:
    """The delivered files beside one of them, by their dates; that which grows is the last. Raises OSError."""
    files: list[LogFile] = []
    modified, size = 0.0, 0
    for entry in names_in(path.parent):
        if (match := DELIVERED.fullmatch(entry.name)) is not None and is_regular(entry):
            status = entry.stat()
            modified, size = max(modified, status.st_mtime), size + status.st_size
            number = int("".join(match.groups())) if match[1] else _GROWING
            files.append(LogFile(number, Path(entry.path)))
    return Layout(tuple(sorted(files)), modified, size)


def decoder_for(path: Path) -> Decoder:
    """Return the decoder for a file of this name. Raises UnsupportedCodecError."""
    name = path.name.removesuffix(".compact").removesuffix(IN_PROGRESS)
    if name.endswith(OTHER_CODECS):
        raise UnsupportedCodecError(name.rpartition(".")[2])
    if name.endswith(".gz"):
        return GzipDecoder()
    return ZstdDecoder() if name.endswith((".zstd", ".zst")) else PlainDecoder()


class _Following(NamedTuple):
    """The file that is being read."""

    number: int
    path: Path
    follower: Follower


def _next(following: _Following, layout: Layout) -> _Following | None:
    for file in layout.files:
        if file.number > following.number:
            return _Following(file.number, file.path, Follower(decoder_for(file.path)))
    return None


@dataclass(slots=True)
class ApplicationLog:
    """The part of one application's log that was read. Call from one thread at a time."""

    name: str = ""
    queries: dict[str, StreamingQuery] = field(default_factory=dict)
    current: bool = False
    """True once the log was read to its end: events before that are of the past."""
    taken: int = 0
    """Bytes of its files that were read."""
    left_out: int = 0
    """Queries that are forgotten because there are too many."""
    ended: bool = False
    """True once its log has the end of the application."""
    _following: _Following | None = None
    _ended: dict[str, None] = field(default_factory=dict)  # ids of queries that ended, the first one first

    def follow(self, layout: Layout, now: float, most: int, deadline: Deadline) -> Iterator[Fault | int]:
        """Read on, at most so many bytes, and yield the size of each part and the fault in it, if any.

        Raises OSError and UnsupportedCodecError.
        """
        # A log that is found late has the age of its last write.
        heard = now if self.current else layout.modified
        following = self._following
        wrong = 0
        if following is None:
            following = yield from self._begin(layout)
        while following is not None and most > 0 and not deadline.over:
            self._following = following
            try:
                damaged = False
                for part in self._rest_of(following, layout, most):
                    most, self.taken = most - part.size, self.taken + part.size
                    if part.size:
                        yield part.size
                        self._note_alive(heard)
                    for fault in self._take(part, following.path, heard):
                        wrong += 1
                        if wrong <= MOST_LINE_FAULTS:
                            yield fault
                    if part.damaged and not damaged:
                        damaged = True
                        yield Fault(Reason.MALFORMED, f"{shown(following.path)} is damaged; what can be read of it is")
                    if deadline.remaining() <= 0:
                        return
                if most <= 0 or following.follower.stopped:
                    return
            except ReplacedError:
                self._forget()
                return
            following = _next(following, layout)
            if following is None:
                self.current = True

    @property
    def partitions(self) -> int:
        """Partitions of which it remembers the offsets."""
        return sum(len(query.offsets) for query in self.queries.values())

    def forget_offsets(self) -> None:
        """Where its queries are is not known, until they tell it anew."""
        self.queries = {key: replace(query, offsets={}) for key, query in self.queries.items()}

    def _begin(self, layout: Layout) -> Generator[Fault | int, None, _Following | None]:
        """Choose the file to begin with, and learn from the first one who this is; None while there is nothing yet."""
        if not layout.files:
            return None
        start = len(layout.files) - 1
        size = layout.files[start].path.stat().st_size
        while start and size + (more := layout.files[start - 1].path.stat().st_size) <= MOST_CATCH_UP:
            size += more
            start -= 1
        file = layout.files[start]
        follower = Follower(decoder_for(file.path))
        if not is_log(file.path):
            return None  # empty as yet, or something else that lies there
        if start:
            head = layout.files[0].path
            for part in Follower(decoder_for(head)).read(head, HEAD_BYTES):
                yield part.size
                known = tuple(line for line in part.lines if line.startswith(_APPLICATION_MARK))
                yield from self._take(FileChunk(known), head, layout.modified)
        return _Following(file.number, file.path, follower)

    @staticmethod
    def _rest_of(following: _Following, layout: Layout, most: int) -> Iterator[FileChunk]:
        """The rest of a file. Raises OSError, and ReplacedError where it was folded into a compact one, which may have
        more of it than was read.
        """
        compact = following.path.name.endswith(".compact")
        there = (file for file in layout.files if file.number == following.number and file.compact == compact)
        if (file := next(there, None)) is None:
            raise ReplacedError
        yield from following.follower.read(file.path, most)

    def _note_alive(self, heard: float) -> None:
        """Any write of an application shows that its queries live: a long batch writes events of its tasks only."""
        for key, query in self.queries.items():
            if query.state is not None and not query.state.ended:
                self.queries[key] = replace(query, heard=heard)

    def _take(self, part: FileChunk, path: Path, heard: float) -> Iterator[Fault]:
        for line in part.lines:
            if not _tells(line):
                continue
            try:
                with one_heavy_at_a_time(weight(line)):
                    self._note(mapping(parse_json(line), "a line"), heard)
            except (EventError, JsonError) as error:
                yield Fault(Reason.MALFORMED, f"{shown(path)} has a line that cannot be understood: {error}")
        for line in part.too_long:
            if _tells(line):
                text = f"{shown(path)} has a line of a query that is longer than {LONGEST_LINE // 1024 // 1024} MB"
                yield Fault(Reason.MALFORMED, text)

    def _note(self, document: Mapping[str, object], heard: float) -> None:
        match document.get("Event"):
            case "SparkListenerApplicationStart":
                self.name, self.ended = name_of(document.get("App Name")), False
                self.queries = {key: replace(query, application=self.name) for key, query in self.queries.items()}
            case "SparkListenerApplicationEnd":
                self._end(heard)
            case _:
                event = parse_event(document)
                if event is not None:
                    query = after(self.queries.get(event.id), event, heard, live=self.current)
                    if event.id not in self.queries and len(self.queries) >= MOST_QUERIES:
                        self._forget_one()
                    self.queries[event.id] = replace(query, application=self.name)
                    self._ended.pop(event.id, None)
                    if query.state is not None and query.state.ended:
                        self._ended[event.id] = None

    def _end(self, heard: float) -> None:
        """The application ended, and its queries with it, even if Spark reported no end of theirs."""
        self.ended = True
        for key, query in self.queries.items():
            if query.state is not None and not query.state.ended:
                self.queries[key] = replace(query, state=QueryState.TERMINATED, heard=heard)
                self._ended[key] = None

    def _forget_one(self) -> None:
        """Remove one query for a new one: the first of those that ended, else the first of all."""
        gone = next(iter(self._ended), None)
        # One that ended is of no more use after an hour; one that runs is missed.
        self.left_out += gone is None
        gone = gone or next(iter(self.queries))
        self._ended.pop(gone, None)
        del self.queries[gone]

    def _forget(self) -> None:
        self.name, self.queries, self.current, self._following = "", {}, False, None
        self._ended, self.ended = {}, False
        self.taken = self.left_out = 0


def _tells(line: bytes) -> bool:
    """Return whether a line is of a query or of the application. Most are of tasks and plans, and are not parsed."""
    return line.startswith(_APPLICATION_MARK) or _QUERY_MARK in line[:HEAD_OF_LINE]
