"""The findings of one run as they arrive: counted, written to a Parquet file, and the worst few kept for the report."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.audit_results.result import Finding
from exporter.jobs.audit.definition import FindingFrame
from exporter.jobs.audit.evidence import EVIDENCE
from exporter.kafka.log.record_batch import RecordBatch

LOOKED_UP = 200
"""Findings of each kind for which the producer is looked up, those shown included."""
BATCH = 5_000

_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
}
SCHEMA = pa.schema(
    [
        *((name, _TYPES[type_]) for name, type_ in EVIDENCE.items()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
    ]
)

Place = tuple[int, int]
Row = dict[str, Any]
WhoWrote = Callable[[str, Sequence[Place]], Mapping[Place, RecordBatch]]


class Findings:
    """Takes evidence one kind at a time. It is written to ``file``, None for no file; ``close`` completes the file."""

    def __init__(self, topic: str, file: Path | None, who_wrote: WhoWrote, most_shown: int) -> None:
        self._topic, self._file, self._who_wrote, self._most_shown = topic, file, who_wrote, most_shown
        self._writer: pq.ParquetWriter | None = None
        self._counts: dict[str, int] = {}
        self._worst: dict[str, list[Row]] = {}

    def take(self, evidence: FindingFrame) -> None:
        """Reads the whole frame, a part of it at a time."""
        kind = evidence.kind
        every = (_row(row.asDict()) for row in evidence.frame.toLocalIterator())
        while rows := list(islice(every, BATCH)):
            looked_up = rows[: max(0, LOOKED_UP - self._counts.get(kind, 0))]
            worst = worst_of([*self._worst.get(kind, []), *rows], self._most_shown)
            self._name_writers(evidence.topic, [*looked_up, *worst])
            self._counts[kind] = self._counts.get(kind, 0) + len(rows)
            self._worst[kind] = worst
            self._write(rows)

    def result(self) -> tuple[Finding, ...]:
        """The findings, most frequent kind first."""
        kinds = sorted(self._counts, key=lambda kind: (-self._counts[kind], kind))
        return tuple(
            Finding(
                kind, self._topic, self._counts[kind], tuple(_example(row, self._topic) for row in self._worst[kind])
            )
            for kind in kinds
        )

    def close(self) -> None:
        """Complete the file; without findings it has the columns and no row."""
        if self._file is not None and self._writer is None:
            self._write(())
        if self._writer is not None:
            self._writer.close()

    def _write(self, rows: Iterable[Row]) -> None:
        if self._file is None:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, SCHEMA)
        columns = [{name: row.get(name) for name in SCHEMA.names} for row in rows]
        self._writer.write_table(pa.Table.from_pylist(columns, SCHEMA))

    def _name_writers(self, topic: str, rows: Iterable[Row]) -> None:
        wanted = [row for row in rows if "producer_id" not in row and row["partition"] is not None]
        writers = self._who_wrote(topic, [(row["partition"], row["offset"]) for row in wanted]) if wanted else {}
        for row in wanted:
            writer = writers.get((row["partition"], row["offset"]))
            row["producer_id"] = None if writer is None else writer.producer_id
            row["producer_epoch"] = None if writer is None else writer.producer_epoch


def worst_of(rows: Iterable[Row], most: int) -> list[Row]:
    """The worst rows: repeated most often, most missing; then the earliest."""
    return heapq.nsmallest(most, rows, key=_weight)


def _weight(row: Row) -> tuple[int, int, int]:
    return -(row.get("times") or row.get("missing") or 0), row.get("partition") or 0, row.get("offset") or 0


def _row(values: Mapping[str, Any]) -> Row:
    row = dict(values)
    instant: datetime | None = row["timestamp"]
    # Spark returns local time, without a time zone.
    row["timestamp"] = None if instant is None else instant.astimezone(UTC)
    return row


def _example(row: Row, topic: str) -> dict[str, Any]:
    return dict(_shown(row, topic))


def _shown(row: Row, topic: str) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if value is None or name == "kind" or (name == "topic" and value == topic):
            continue
        yield name, value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value
