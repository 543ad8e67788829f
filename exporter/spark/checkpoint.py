"""The checkpoint folder of a streaming query: what it began, what it committed, and where that is in Kafka.

``metadata`` has the query's id; ``offsets/N`` is written before batch N runs, with where each source is to end, and
``commits/N`` after it (OffsetSeqLog, CommitLog); ``sources/0/0`` holds where the first batch began. Spark writes each
under another name and renames it, so a file is whole or not there. Nothing here needs code in the job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.spark.events import kafka_offsets, name_of
from exporter.spark.folders import trouble
from exporter.spark.queries import Query, Way

VERSION = "v1"
MOST_BYTES = 16 * 1024 * 1024


class MalformedError(Exception):
    """A file that is not as Spark writes it; the text names it and says why."""


class Batches(NamedTuple):
    """The newest batches in a checkpoint, None where there is none: that was begun, and that was committed."""

    begun: int | None
    committed: int | None


class CheckpointFolder:
    """One query's checkpoint. ``application`` and ``query`` name it on the metrics, where no event tells its names."""

    def __init__(self, folder: Path, application: str = "", query: str = "") -> None:
        self._folder = folder
        self._application = application
        self._query = query

    def read(self, deadline: Deadline, now: float) -> Iterator[Fault | Query]:
        """The query now, or what is wrong with its checkpoint: a few small files, so it does not wait."""
        del deadline, now
        folder = self._folder
        try:
            folder.stat()
            # Commits first: what is committed in between can only make more batches look uncommitted.
            committed = newest(folder / "commits")
            batches = Batches(newest(folder / "offsets"), committed)
            if batches.begun is None and committed is None and not (folder / "metadata").exists():
                if any(folder.iterdir()):
                    text = f"{folder} is no checkpoint of a streaming query: it has no offsets and no metadata in it"
                    yield Fault(Reason.MALFORMED, text)
                return
            yield self._query_of(batches)
        except FileNotFoundError as error:
            # Spark removes old batches, so what was there a moment ago may be gone; the next read finds the newest.
            yield trouble(error, Path(error.filename or folder))
        except OSError as error:
            yield trouble(error, Path(error.filename or folder))
        except MalformedError as error:
            yield Fault(Reason.MALFORMED, str(error))

    def _query_of(self, batches: Batches) -> Query:
        committed = batches.committed
        at = None if committed is None else (self._folder / "commits" / str(committed)).stat().st_mtime
        heard = (self._folder / "metadata").stat().st_mtime
        if batches.begun is not None:
            heard = (self._folder / "offsets" / str(batches.begun)).stat().st_mtime
        return Query(
            id=query_id(self._folder / "metadata"),
            way=Way.CHECKPOINT,
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
            begun = sorted(sources.glob("*/0")) if sources.is_dir() else []
            return {key: at for path in begun for key, at in source_offsets(path, _lines(path)[:1]).items()}
        path = self._folder / "offsets" / str(committed)
        return source_offsets(path, _lines(path)[1:])


def newest(folder: Path) -> int | None:
    """The greatest number of the files in a log of Spark's, None if it is empty or not there yet. Raises OSError."""
    try:
        numbers = [int(path.name) for path in folder.iterdir() if path.name.isascii() and path.name.isdecimal()]
    except FileNotFoundError:
        return None
    return max(numbers, default=None)


def uncommitted(batches: Batches) -> int:
    """Batches that were begun and not committed; numbers have no gaps."""
    begun = -1 if batches.begun is None else batches.begun
    committed = -1 if batches.committed is None else batches.committed
    return max(0, begun - committed)


def source_offsets(path: Path, lines: Sequence[str]) -> Mapping[TopicPartition, int]:
    """Offsets in Kafka, of one line for each source; sources of other kinds are passed over.

    Raises MalformedError for a line that is neither: then there may be offsets that we fail to see.
    """
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        if line == "-":  # OffsetSeqLog.SERIALIZED_VOID_OFFSET: nothing of this source yet
            continue
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            raise MalformedError(f"{path} has offsets that are no JSON") from None
        offsets |= kafka_offsets(line) or {}
    return offsets


def query_id(path: Path) -> str:
    """The id in the file ``metadata``. Raises OSError and MalformedError."""
    try:
        document = json.loads(_lines(path)[0])
    except (ValueError, IndexError, RecursionError):
        document = None
    found = name_of(document.get("id")) if isinstance(document, dict) else ""
    if not found:
        raise MalformedError(f"{path} holds no id of a query")
    return found


def _lines(path: Path) -> list[str]:
    """The lines of a file, without its version. Raises OSError and MalformedError."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise MalformedError(f"{path} is larger than {MOST_BYTES // 1024 // 1024} MB")
    try:
        lines = content.decode().lstrip("\0").splitlines()  # initial offsets begin with a 0 for Spark before 2.1
    except UnicodeDecodeError:
        raise MalformedError(f"{path} is no UTF-8 text") from None
    if path.name == "metadata":
        return lines
    if not lines or lines[0] != VERSION:
        raise MalformedError(f"{path} is of a version that is not known; this agent knows {VERSION}")
    return lines[1:]
