"""The checkpoint folder of a streaming query: the batches begun and committed, and their offsets in Kafka.

``metadata`` has the query's id; ``offsets/N`` is written before batch N runs, with the end of each source, and
``commits/N`` after it (OffsetSeqLog, CommitLog); ``sources/0/0`` has the start of the first batch. Spark writes each
under another name and renames it, so a file is whole or absent. The job needs no additional code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.bounds.files import names_in, read_regular
from exporter.bounds.json_text import JsonError, parse_json, weight
from exporter.bounds.memory import one_heavy_at_a_time
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.spark.events import MOST_PARTITIONS, kafka_offsets, name_of
from exporter.spark.log_files import shown, trouble
from exporter.spark.queries import Origin, StreamingQuery

VERSION = b"v1"
MOST_BYTES = 4 * 1024 * 1024
"""Greatest file. The offsets of 50,000 partitions have 1 MB."""
MOST_LINES = 1000
"""Lines of one: each source of the query has one."""


_NUMBER = re.compile("[0-9]{1,18}")


class MalformedError(Exception):
    """A file that is not in Spark's form; the text has its name and the reason."""


class Batches(NamedTuple):
    """The newest batches in a checkpoint, None where there is none: that was begun, and that was committed."""

    begun: int | None
    committed: int | None


class CheckpointFolder:
    """One query's checkpoint. ``application`` and ``query`` are its labels where no event has its names."""

    def __init__(self, folder: Path, application: str = "", query: str = "") -> None:
        self.left_out = 0
        self._folder = folder
        self._application = application
        self._query = query

    def read(self, deadline: Deadline, now: float) -> Iterator[Fault | StreamingQuery]:
        """Yield the query, or what is wrong with its checkpoint. A few small files: no wait."""
        del deadline, now
        folder = self._folder
        try:
            folder.stat()
            # Commits first: what is committed in between can only make more batches look uncommitted.
            committed = newest(folder / "commits")
            batches = Batches(newest(folder / "offsets"), committed)
            if batches.begun is None and committed is None and not (folder / "metadata").exists():
                if any(folder.iterdir()):
                    text = "is no checkpoint of a streaming query: it has no offsets and no metadata in it"
                    yield Fault(Reason.MALFORMED, f"{shown(folder)} {text}")
                return
            yield self._query_of(batches)
        except OSError as error:
            yield trouble(error, Path(error.filename or folder))
        except MalformedError as error:
            yield Fault(Reason.MALFORMED, str(error))

    def _query_of(self, batches: Batches) -> StreamingQuery:
        committed = batches.committed
        at = None if committed is None else (self._folder / "commits" / str(committed)).stat().st_mtime
        heard = (self._folder / "metadata").stat().st_mtime
        if batches.begun is not None:
            heard = (self._folder / "offsets" / str(batches.begun)).stat().st_mtime
        return StreamingQuery(
            id=query_id(self._folder / "metadata"),
            way=Origin.CHECKPOINT,
            heard=max(at or 0.0, heard),
            application=self._application,
            name=self._query,
            last_progress=at,
            batches=0 if committed is None else committed + 1,
            offsets=self._offsets(committed),
            uncommitted=uncommitted(batches),
        )

    def _offsets(self, committed: int | None) -> Mapping[TopicPartition, int]:
        """Where the last committed batch ended; before there was one, where the first begins."""
        if committed is None:
            sources = self._folder / "sources"
            numbers = sorted(entry.name for entry in names_in(sources, MOST_LINES)) if sources.is_dir() else []
            begun = [path for number in numbers if (path := sources / number / "0").is_file()]
            offsets = {key: at for path in begun for key, at in source_offsets(path, _lines(path)[:1]).items()}
        else:
            path = self._folder / "offsets" / str(committed)
            offsets = dict(source_offsets(path, _lines(path)[1:]))
        # With more, the position of the query stays unknown, as it does for queries that report themselves.
        return offsets if len(offsets) <= MOST_PARTITIONS else {}


def newest(folder: Path) -> int | None:
    """The greatest number of the files in a log of Spark's, None if it is empty or not there yet. Raises OSError."""
    try:
        names = (entry.name for entry in names_in(folder))
        return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=None)
    except FileNotFoundError:
        return None


def uncommitted(batches: Batches) -> int:
    """Batches that were begun and not committed; numbers have no gaps."""
    begun = -1 if batches.begun is None else batches.begun
    committed = -1 if batches.committed is None else batches.committed
    return max(0, begun - committed)


def source_offsets(path: Path, lines: Sequence[bytes]) -> Mapping[TopicPartition, int]:
    """Offsets in Kafka, of one line for each source; sources of other kinds are skipped.

    Raises MalformedError for a line that is neither: it may hold offsets.
    """
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        if line == b"-":  # OffsetSeqLog.SERIALIZED_VOID_OFFSET: nothing of this source yet
            continue
        try:
            with one_heavy_at_a_time(weight(line)):
                offsets |= kafka_offsets(parse_json(line, most_commas=2 * MOST_PARTITIONS)) or {}
        except JsonError as error:
            raise MalformedError(f"{shown(path)} has offsets that {error}".replace("that is", "that are")) from None
    return offsets


def query_id(path: Path) -> str:
    """The id in the file ``metadata``. Raises OSError and MalformedError."""
    try:
        document = parse_json(_lines(path)[0])
    except JsonError:
        document = None
    found = name_of(document.get("id")) if isinstance(document, dict) else ""
    if not found:
        raise MalformedError(f"{shown(path)} holds no id of a query")
    return found


def _lines(path: Path) -> list[bytes]:
    """The lines of a file, without its version, at least one. Raises OSError and MalformedError."""
    content = read_regular(path, MOST_BYTES).lstrip(b"\0")  # initial offsets begin with a 0 for Spark before 2.1
    if content.count(b"\n") > MOST_LINES:
        raise MalformedError(f"{shown(path)} has more than {MOST_LINES} lines")
    lines = [line.removesuffix(b"\r") for line in content.removesuffix(b"\n").split(b"\n")]
    if path.name == "metadata":
        return lines
    if lines[0] != VERSION:
        known = VERSION.decode()
        raise MalformedError(f"{shown(path)} is of a version that is not supported; this agent reads {known}")
    return lines[1:]
