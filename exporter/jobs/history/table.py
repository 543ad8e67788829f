"""The history's table: its columns, and how rows and the state between batches become Parquet files.

Files have checksums of their pages, are synced before a batch is committed, and are never changed afterwards.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.core.files import sync
from exporter.jobs.history.fold import Row, day_of
from exporter.transactions.machine.entries import Entry, pending_abort
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome

ROWS_AT_ONCE = 50_000


class TableColumn(NamedTuple):
    """A column of the table; its name is that of a field of ``Row``."""

    type: Any
    meaning: str


_INSTANT = pa.timestamp("ms", tz="UTC")
COLUMNS: dict[str, TableColumn] = {
    "transactional_id": TableColumn(pa.string(), "its transactional.id"),
    "application": TableColumn(pa.string(), "the id's group, as in the metrics"),
    "producer_id": TableColumn(pa.int64(), "the producer id that it was written with"),
    "producer_epoch": TableColumn(pa.int16(), "the epoch that it was written with, where the log showed it"),
    "client_transaction_version": TableColumn(pa.int8(), "2 for a client of Transactions V2, else 0; null if unknown"),
    "outcome": TableColumn(pa.string(), "committed, aborted, timed_out or fenced, as in the metrics"),
    "begin": TableColumn(_INSTANT, "when it began, by the coordinator; null if unknown"),
    "prepare": TableColumn(_INSTANT, "when its end was decided"),
    "complete": TableColumn(_INSTANT, "when its markers were written"),
    "open_seconds": TableColumn(pa.float64(), "begin to prepare; null if unknown"),
    "completion_seconds": TableColumn(pa.float64(), "prepare to complete: the markers"),
    "partitions": TableColumn(
        pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())])),
        "the partitions that it wrote to; null where compaction had removed these records",
    ),
    "timeout_ms": TableColumn(pa.int32(), "its transaction.timeout.ms; null without one (two-phase commit)"),
    "log_partition": TableColumn(pa.int32(), "partition of __transaction_state"),
    "log_offset": TableColumn(pa.int64(), "offset of its Complete record; unique together with log_partition"),
}
DAY = "day"
BATCH = "batch"
SCHEMA = pa.schema([(name, column.type) for name, column in COLUMNS.items()])

# Fields of an Entry that are kept between batches. The application is derived again, the view is made on demand.
KEPT_FIELDS: dict[str, Any] = {
    "transactional_id": pa.string(), "log_partition": pa.int32(), "status": pa.int8(), "producer_id": pa.int64(),
    "epoch": pa.int32(), "previous_epoch": pa.int32(), "client_version": pa.int16(), "timeout_ms": pa.int32(),
    "start_ms": pa.int64(), "update_ms": pa.int64(), "prepared_ms": pa.int64(), "record_ms": pa.int64(),
    "offset": pa.int64(), "begun_offset": pa.int64(), "section": pa.binary(), "layout": pa.int8(),
}  # fmt: skip
_PENDING_FIELDS: dict[str, Any] = {
    "transactional_id": pa.string(), "producer_id": pa.int64(), "producer_epoch": pa.int32(),
    "client_version": pa.int16(), "outcome": pa.string(), "begun_ms": pa.int64(),
    "prepared_ms": pa.int64(), "completed_ms": pa.int64(), "timeout_ms": pa.int32(),
    "log_partition": pa.int32(), "offset": pa.int64(),
}  # fmt: skip
_PENDING = pa.struct(list(_PENDING_FIELDS.items()))
_KEPT = pa.schema([*KEPT_FIELDS.items(), ("pending", _PENDING), ("due_ms", pa.int64())])


class RowFiles:
    """Writes rows into one file for each day below a folder, a part of it at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{uuid.uuid4().hex}.parquet"
        self._waiting: list[Row] = []
        self._writers: dict[str, pq.ParquetWriter] = {}

    def add(self, rows: Sequence[Row]) -> None:
        self._waiting += rows
        if len(self._waiting) >= ROWS_AT_ONCE:
            self._flush()

    def close(self) -> list[str]:
        """The files, relative to the folder; they are on disk."""
        self._flush()
        names = []
        for day, writer in self._writers.items():
            writer.close()
            names.append(f"{DAY}={day}/{self._name}")
            sync(self._folder / names[-1])
        return names

    def _flush(self) -> None:
        by_day: dict[str, list[Row]] = {}
        for row in self._waiting:
            by_day.setdefault(day_of(row), []).append(row)
        self._waiting = []
        for day, rows in by_day.items():
            if day not in self._writers:
                path = self._folder / f"{DAY}={day}"
                path.mkdir(parents=True, exist_ok=True)
                self._writers[day] = pq.ParquetWriter(path / self._name, SCHEMA, write_page_checksum=True)
            self._writers[day].write_table(table_of(rows))


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Rows as Arrow, without the day."""
    columns: dict[str, Sequence[Any]] = dict.fromkeys(COLUMNS, ())
    if rows:
        columns |= zip(Row._fields, zip(*rows, strict=True), strict=True)
    columns["partitions"] = tuple(
        None if places is None else [place._asdict() for place in places] for places in columns["partitions"]
    )
    return pa.table([pa.array(columns[name], column.type) for name, column in COLUMNS.items()], schema=SCHEMA)


def write_kept(kept: Iterable[Entry], folder: Path) -> str:
    """Write the state between two batches as a file of the folder. Returns its name."""
    name = f"ids-{uuid.uuid4().hex}.parquet"
    (folder / name).write_bytes(kept_file(kept))
    sync(folder / name)
    return name


def kept_file(kept: Iterable[Entry]) -> bytes:
    """The state between two batches as the content of a Parquet file."""
    entries = list(kept)
    columns = [pa.array([getattr(entry, name) for entry in entries], type_) for name, type_ in KEPT_FIELDS.items()]
    pending = [None if entry.pending is None else _pending(entry.pending) for entry in entries]
    columns.append(pa.array(pending, _PENDING))
    columns.append(pa.array([entry.due_ms if entry.pending else None for entry in entries], pa.int64()))
    written = BytesIO()
    pq.write_table(pa.table(columns, schema=_KEPT), written, write_page_checksum=True)
    return written.getvalue()


def read_kept(files: Iterable[Path | BytesIO], numbers: Sequence[int], group: Callable[[str], str]) -> list[Entry]:
    """Read the state of these partitions of the log. Raises OSError or pyarrow's errors when a file is damaged."""
    found = []
    for file in files:
        table = pq.read_table(
            file, schema=_KEPT, filters=[("log_partition", "in", list(numbers))], page_checksum_verification=True
        )
        for row in table.to_pylist():
            entry = Entry(row["transactional_id"], row["log_partition"], group(row["transactional_id"]))
            for name in KEPT_FIELDS:
                setattr(entry, name, row[name])
            if (pending := row["pending"]) is not None:
                entry.pending = _restored(entry, pending)
                entry.due_ms = row["due_ms"]
            found.append(entry)
    return found


def _pending(transaction: Transaction) -> dict[str, Any]:
    """An abort that waits. Its partitions are still those of its entry."""
    return {name: getattr(transaction, name) for name in _PENDING_FIELDS}


def _restored(entry: Entry, pending: dict[str, Any]) -> Transaction:
    fields = {name: value for name, value in pending.items() if name not in {"transactional_id", "log_partition"}}
    fields |= {"outcome": Outcome(pending["outcome"]), "partitions": entry.partitions() if entry.section else None}
    return pending_abort(entry, **fields)


def gathered(tables: Iterable[pa.Table], rows: int) -> Iterator[list[pa.Table]]:
    """Tables in turn, so many together that they have at least so many rows; fewer at the end."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        if count >= rows:
            yield waiting
            waiting, count = [], 0
    if waiting:
        yield waiting
