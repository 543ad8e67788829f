"""Evidence for suspects: their records are read again and compared.

Hashes only select what to read; the records decide. Each function returns rows of ``EVIDENCE``, one for each finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as f

from exporter.jobs.audit.columns import identity, sequence_number
from exporter.jobs.audit.offset_range import offset_of, partition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVIDENCE = {
    "kind": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "string",
    "id": "string",
    "sequence": "bigint",
    "times": "bigint",
    "missing": "bigint",
    "first_partition": "int",
    "first_offset": "bigint",
    "before_sequence": "bigint",
    "expected": "string",
    "stored": "string",
}
"""Columns of a finding: its kind and place; of a repetition the record that it repeats and the number of repetitions;
of a gap the number before it and how many are missing; of a sink's row what it should be, and what it is. ``key`` is
the record's, or the value of ``key``.
"""

_PLACE = ("timestamp", "partition", "offset")


def rows(frame: DataFrame, kind: str, topic: str) -> DataFrame:
    """The columns of ``EVIDENCE``, null where the frame lacks one."""
    there = frame.withColumns({"kind": f.lit(kind), "topic": f.lit(topic)})
    columns: list[Column] = [
        (f.col(name) if name in there.columns else f.lit(None)).cast(type_).alias(name)
        for name, type_ in EVIDENCE.items()
    ]
    return there.select(*columns)


def shown(column: Column) -> Column:
    """A value as text; bytes that are not UTF-8 as hexadecimal digits."""
    text = column.cast("string")
    return f.when(_is_utf8(text), text).otherwise(f.concat(f.lit("0x"), f.hex(text.cast("binary"))))


def _is_utf8(text: Column) -> Column:
    if hasattr(f, "is_valid_utf8"):
        return f.is_valid_utf8(text)
    # Spark 3.5 decodes what is none to U+FFFD, and Spark 4 raises an error.
    there = text.cast("binary")
    return f.encode(f.decode(there, "UTF-8"), "UTF-8") == there


def duplicates(records: DataFrame, id_column: Column) -> DataFrame:
    """Records whose id an earlier record has: every one but the first. Equal ids, not equal hashes."""
    columns: list[Column | str] = [identity(id_column).alias("it"), *_PLACE, shown(f.col("key_bytes")).alias("key")]
    chosen: DataFrame = records.select(*columns).where("it IS NOT NULL")
    same = Window.partitionBy("it")
    ordered = same.orderBy(*_PLACE)
    found = chosen.withColumns(
        {
            "number": f.row_number().over(ordered),
            "times": f.count(f.lit(1)).over(same),
            "first_partition": f.first("partition").over(ordered),
            "first_offset": f.first("offset").over(ordered),
        }
    )
    return found.where("number > 1").withColumn("id", shown(f.col("it")))


def sequence_findings(records: DataFrame, key: Column, sequence: Column) -> dict[str, DataFrame]:
    """Gaps, records out of order, and numbers that are there twice, of these keys.

    A gap lies between two numbers that are there. Out of order is a record behind a higher number of its key in the
    same partition, unless it repeats one: across partitions there is no order.
    """
    chosen = records.select(identity(key).alias("it"), sequence_number(sequence).alias("sequence"), *_PLACE).where(
        "it IS NOT NULL AND sequence IS NOT NULL"
    )
    times = Window.partitionBy("it", "sequence")
    first = times.orderBy(*_PLACE)
    log = Window.partitionBy("it", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    marked = chosen.withColumns(
        {
            "number": f.row_number().over(first),
            "times": f.count(f.lit(1)).over(times),
            "first_partition": f.first("partition").over(first),
            "first_offset": f.first("offset").over(first),
            "highest": f.max("sequence").over(log),
            "key": shown(f.col("it")),
        }
    )
    once = marked.where("number = 1").drop("times", "first_partition", "first_offset")
    before = f.lag("sequence").over(Window.partitionBy("it").orderBy("sequence"))
    gaps = once.withColumn("before_sequence", before).where("sequence > before_sequence + 1")
    return {
        "gap": gaps.withColumn("missing", f.expr("sequence - before_sequence - 1")),
        "reordered": once.where("sequence < highest").withColumn("before_sequence", f.col("highest")),
        "duplicate": marked.where("number > 1"),
    }


def located(records: DataFrame, positions: DataFrame) -> DataFrame:
    """Positions with the records there; a position without a record any more stays in the result."""
    places = positions.withColumns({"partition": partition_of("position"), "offset": offset_of("position")})
    known = records.select("partition", "offset", "timestamp", shown(f.col("key_bytes")).alias("key"))
    return places.join(known, ["partition", "offset"], "left")
