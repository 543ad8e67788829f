"""A sink that keeps the latest row of each key, compared with the topic's records of that key.

Frames in, frames out. Records have the columns ``it`` (the key as text), ``version``, ``content``, ``deleted``,
``due``, partition, offset and timestamp; rows of the sink have ``it``, ``version`` and ``content``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from exporter.jobs.audit.evidence import shown
from exporter.jobs.audit.offset_range import OFFSET_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

STALE, MISSING, AHEAD, PHANTOM, REPEATED = "stale", "missing", "ahead", "phantom", "repeated"
KINDS = (STALE, MISSING, AHEAD, PHANTOM, REPEATED)
WAITING, SCATTERED, OUTSIDE = "waiting", "scattered", "outside"
"""Not findings: what the sink may get yet; keys in several partitions, whose records have no order; rows whose records
may be before the offsets that are read.
"""
_PLACE = "partition, offset, timestamp"
_POSITION = f"(shiftleft(cast(partition AS bigint), {OFFSET_BITS}) | offset)"


@dataclass(frozen=True, slots=True)
class Comparing:
    """The columns of a key that are compared. ``holes``: compaction took records, so that a row may be of
    one of them; ``partial``: the offsets that are read begin after the first, so that a row may be of one before.
    """

    version: bool
    content: bool
    holes: bool = False
    partial: bool = False

    @property
    def same(self) -> Column:
        """The condition that a row, of the frame ``s``, was made of a record, of the frame ``h``."""
        tests = ["true"]
        if self.version:
            tests.append("h.version = s.version")
        if self.content:
            tests.append("h.content <=> s.content")
        return f.expr(" AND ".join(tests))


def newest_applied(records: DataFrame, rows: DataFrame, comparing: Comparing) -> dict[int, int]:
    """By partition the newest offset of which the sink has the result.

    With neither version nor content, any record of a key may have made its row: the first of each key is taken.
    """
    alive = records.where("NOT deleted").alias("h").join(rows.alias("s"), "it").where(comparing.same)
    if not comparing.version and not comparing.content:
        alive = alive.groupBy("it", "partition").agg(f.min("offset").alias("offset"))
    found = alive.groupBy("partition").agg(f.max("offset").alias("offset")).collect()
    return {int(row["partition"]): int(row["offset"]) for row in found}


def compared(records: DataFrame, rows: DataFrame, comparing: Comparing) -> DataFrame:
    """One row for each key of which something is to be said: ``kind``, the place of the record that the sink should
    have, ``key``, ``times``, ``expected`` and ``stored``.
    """
    ordered = _ordered(records, comparing)
    record = f.expr(f"struct(version, content, deleted, at, {_PLACE})")
    keys = ordered.groupBy("it").agg(
        f.max_by(record, "at").alias("latest"),
        f.max_by(record, f.when(f.col("due"), f.col("at"))).alias("wanted"),
        f.max("due").alias("any_due"),
        f.max("version").alias("highest"),
        f.countDistinct("partition").alias("partitions"),
        f.max(f.expr("deleted AND NOT due")).alias("deleted_later"),
    )
    single = rows.groupBy("it").agg(
        f.count(f.lit(1)).alias("times"), f.max(f.struct("version", "content")).alias("row")
    )
    alive = ordered.where("NOT deleted").alias("h")
    matches = alive.join(rows.alias("s"), "it").where(comparing.same)
    newest = matches.groupBy("it").agg(f.max("h.at").alias("applied"))
    joined = keys.join(single, "it", "full_outer").join(newest, "it", "left")
    joined = joined.withColumn("wanted", f.expr("CASE WHEN any_due THEN wanted END"))
    kind = f.expr(_kind(comparing)).alias("kind")
    named = joined.select(
        kind,
        shown(f.col("it")).alias("key"),
        f.col("it"),
        "times",
        *(f.col(f"wanted.{name}").alias(name) for name in ("partition", "offset", "timestamp")),
        f.expr(_text("wanted", "wanted.deleted")).alias("expected"),
        f.expr(_text("row", "false", "times IS NOT NULL")).alias("stored"),
        f.col("row.version").alias("row_version"),
        f.col("row.content").alias("row_content"),
    )
    return named.where("kind IS NOT NULL")


def _ordered(records: DataFrame, comparing: Comparing) -> DataFrame:
    """Add ``at``: by version and then by place, or by place alone."""
    if not comparing.version:
        return records.withColumn("at", f.expr(_POSITION))
    # A tombstone has no version of its own: it comes after the last record before it.
    before = Window.partitionBy("it").orderBy("partition", "offset")
    filled = f.last("version", ignorenulls=True).over(before)
    return records.withColumn("at", f.struct(filled.alias("v"), f.expr(_POSITION).alias("p")))


def _kind(comparing: Comparing) -> str:
    ahead = f"WHEN row.version > highest THEN '{AHEAD}'" if comparing.version else ""
    scattered = "" if comparing.version else f"WHEN partitions > 1 THEN '{SCATTERED}'"
    # A row that equals no record: of a record that compaction took, where it took some and the key is known.
    older = "AND row.version < highest" if comparing.version else ""
    lost = comparing.holes or comparing.partial
    taken = f"WHEN applied IS NULL AND wanted IS NOT NULL {older} THEN '{STALE}'" if lost else ""
    unread = f"WHEN applied IS NULL AND wanted IS NULL {older} THEN '{OUTSIDE}'" if comparing.partial else ""
    return f"""
    CASE
      WHEN times > 1 THEN '{REPEATED}'
      {scattered}
      WHEN times IS NULL AND wanted IS NOT NULL AND NOT wanted.deleted AND NOT latest.deleted AND NOT deleted_later
        THEN '{MISSING}'
      WHEN times IS NULL AND wanted IS NULL AND NOT latest.deleted THEN '{WAITING}'
      WHEN times IS NULL THEN NULL
      WHEN latest IS NULL THEN '{OUTSIDE if comparing.partial else PHANTOM}'
      {ahead}
      {taken}
      {unread}
      WHEN applied IS NULL THEN '{PHANTOM}'
      WHEN wanted IS NOT NULL AND applied < wanted.at THEN '{STALE}'
      WHEN applied < latest.at THEN '{WAITING}'
    END"""


def _text(struct: str, deleted: str, there: str = "true") -> str:
    version = f"CASE WHEN {struct}.version IS NOT NULL THEN concat('version ', {struct}.version) END"
    shown_text = f"concat_ws(': ', {version}, {struct}.content)"
    return f"CASE WHEN NOT ({there}) OR {struct} IS NULL THEN NULL WHEN {deleted} THEN 'deleted' ELSE {shown_text} END"


def undecided(phantoms: DataFrame, everything: DataFrame, ends: Mapping[int, int], comparing: Comparing) -> DataFrame:
    """Of the rows that no committed record explains, those that a record explains that was aborted or is open.

    ``everything`` are the records that a read_uncommitted reader gets, ``ends`` the last stable offsets.
    """
    row = phantoms.selectExpr("it", "key", "stored", "row_version AS version", "row_content AS content").alias("s")
    found = everything.where("NOT deleted").alias("h").join(row, "it").where(comparing.same)
    tests = [f"(h.partition = {number} AND h.offset < {end})" for number, end in ends.items()]
    before = " OR ".join(tests) or "false"
    kind = f.expr(f"CASE WHEN {before} THEN 'aborted_visible' ELSE '{AHEAD}' END")
    first = f.min_by(f.struct(kind.alias("kind"), "h.partition", "h.offset", "h.timestamp"), "h.offset")
    chosen = found.groupBy("it", "key", "stored").agg(first.alias("f"))
    return chosen.select("it", "key", "stored", "f.*")
