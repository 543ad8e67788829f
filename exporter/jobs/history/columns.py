"""The columns of finished transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from exporter.jobs.history.finished import Row


class TableColumn(NamedTuple):
    """A column; its name is that of a field of ``Row``."""

    type: Any
    meaning: str


_INSTANT = pa.timestamp("us", tz="UTC")
"""The only instants that Spark takes from Python."""
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
        "the partitions that it wrote to, with those of __consumer_offsets that it committed offsets to;"
        " null where compaction had removed these records",
    ),
    "timeout_ms": TableColumn(pa.int32(), "its transaction.timeout.ms; null without one (two-phase commit)"),
    "log_partition": TableColumn(pa.int32(), "partition of __transaction_state"),
    "log_offset": TableColumn(pa.int64(), "offset of its Complete record; unique together with log_partition"),
}
SCHEMA = pa.schema([(name, column.type) for name, column in COLUMNS.items()])
_INSTANTS = frozenset(name for name, column in COLUMNS.items() if column.type == _INSTANT)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows, at least one, as Arrow."""
    values = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
    values["partitions"] = tuple(
        None if places is None else [place._asdict() for place in places] for places in values["partitions"]
    )
    arrays = [
        pa.array(values[name], pa.timestamp("ms", tz="UTC")).cast(_INSTANT)
        if name in _INSTANTS
        else pa.array(values[name], column.type)
        for name, column in COLUMNS.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
