"""Columns of a change event of Debezium: the envelope that its connectors write as JSON, with or without a schema.

The fields are those of Debezium's documentation ("change event values"): ``op`` is c, u, d or r (a row read by a
snapshot), ``source`` says where in the database's log the change is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "op, snapshot, table_name, row_key, before, after, source_position, event"
EVENT, ROW_KEY, SOURCE_POSITION = "event", "row_key", "source_position"
DELETED = "value_bytes IS NULL OR op = 'd'"

_SOURCE = "db string, schema string, `table` string, snapshot string, lsn bigint, file string, pos bigint, row bigint"
_ENVELOPE = f"op string, before string, after string, source struct<{_SOURCE}>"
_MYSQL = (
    # The number of the binary log's file, the place in it, and the row of the event.
    "shiftleft(cast(regexp_extract(e.source.file, '([0-9]+)$', 1) AS bigint), 43)"
    " + shiftleft(e.source.pos, 11) + least(coalesce(e.source.row, 0), 2047)"
)


def with_envelope(frame: DataFrame) -> DataFrame:
    """Add ``COLUMNS`` to named records; null in what is no change event.

    ``source_position`` is a number that grows from change to change of one row: the LSN of PostgreSQL, file, position
    and row of MySQL, null for databases that have neither. ``event`` identifies a change: by table, row and position,
    a snapshot's row by table and row alone, because it is read once.
    """
    parsed = f.from_json(f.expr("coalesce(get_json_object(value, '$.payload'), value)"), _ENVELOPE)
    read = frame.withColumn("e", parsed).withColumns(
        {
            "op": f.col("e.op"),
            "snapshot": f.expr("coalesce(e.source.snapshot, 'false') != 'false'"),
            "table_name": f.expr("concat_ws('.', e.source.db, e.source.schema, e.source.`table`)"),
            "before": f.col("e.before"),
            "after": f.col("e.after"),
            "source_position": f.expr(f"coalesce(e.source.lsn, {_MYSQL})"),
        }
    )
    # A table without a primary key has no record key: its row is all that identifies it.
    key = "coalesce(get_json_object(key, '$.payload'), get_json_object(key, '$'), key, after, before)"
    keyed = read.withColumn(ROW_KEY, f.expr(f"CASE WHEN op IS NOT NULL THEN concat(table_name, '/', {key}) END"))
    place = "CASE WHEN op = 'r' THEN concat('r/', row_key) ELSE concat(op, '/', row_key, '/', source_position) END"
    return keyed.withColumn(EVENT, f.expr(place)).drop("e")
