"""One pass over a topic: groups of records that may be findings, with their number, first and last place.

Ids and keys are compared by ``xxhash64``, so that Spark shuffles numbers and no texts. A hash only selects what is read
a second time: equal ids, and the numbers of a key, are decided by the records themselves (``evidence``). All groups in
which there is nothing to look at become one row for each state of their records, so that a pass over a clean topic
gives a handful of rows. Numbers of records are sums of these rows, and no counters of tasks, which a retry repeats.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from exporter.jobs.audit.columns import identity, sequence_number
from exporter.jobs.audit.offset_range import OffsetSpan, offset_of, partition_of, place, position_column

if TYPE_CHECKING:
    from pyspark.sql import Column

COMPARED, LEFT_OUT, BLANK, BLANK_TOMBSTONE = range(4)
"""State of a record: its id or number is compared, a condition leaves it out, or an expression gave null for it."""
SOURCE = 4
"""Added to the state of a record of the source topic that is not compared."""

DUPLICATE, ABSENT, UNSOURCED = 1, 2, 4
"""Bits of an id's ``kind``: it is in several records; only the source has it; only the topic has it."""
BROKEN = 1
"""Bit of a key's ``kind``: its numbers do not go up by one."""
STRANGE, REPEATED, AHEAD, ABORTED, ABORTED_VISIBLE, MISSING, WAITING = (1 << bit for bit in range(7))
"""Bits of an offset's ``kind``: in the sink and no record, or more than once, or not decided; aborted, and in the sink
too; not in the sink and due, or not due yet.
"""
_SALT = 64


@dataclass(frozen=True, slots=True)
class Expressions:
    """What a pass needs of each record: checked Spark SQL, "" where it needs none; ``chosen`` says which records count.

    ``mask`` keeps fewer bits of each hash.
    """

    id: str = ""
    key: str = ""
    sequence: str = ""
    chosen: Column | None = None
    mask: int = -1


class Suspects(NamedTuple):
    """Number of groups to look at and of their records; ``many``: one has more records than a first and a last."""

    groups: int = 0
    records: int = 0
    many: bool = False


class Summary:
    """What a pass gave, in the driver: counts by state and kind of ``id_groups`` or ``key_groups``."""

    def __init__(self, groups: DataFrame) -> None:
        sides = [side for side in ("", "source_") if f"{side}n" in groups.columns]
        columns = [f.count(f.lit(1)).alias("groups")]
        for side in sides:
            columns += [f.sum(f"{side}n").alias(f"{side}n"), f.max(f"{side}n").alias(f"{side}most")]
            columns.append(f.min(f"{side}first").alias(f"{side}first"))
        self._rows = [row.asDict() for row in groups.groupBy("state", "kind").agg(*columns).collect()]

    @property
    def records(self) -> int:
        """Records of the topic that were read."""
        return sum(int(row["n"]) for row in self._rows)

    @property
    def left_out(self) -> int:
        return sum(int(row["n"]) for row in self._rows if row["state"] == LEFT_OUT)

    def suspects(self, kind: int, side: str = "") -> Suspects:
        """Groups of this kind; ``side`` "source_" counts their records in the source."""
        rows = [row for row in self._rows if row["kind"] & kind]
        records = sum(int(row[f"{side}n"]) for row in rows)
        return Suspects(sum(row["groups"] for row in rows), records, any(row[f"{side}most"] > 2 for row in rows))

    def blank(self, label: str, source: int = 0) -> str:
        """A sentence on records for which an expression gave null, "" without any."""
        side = "source_" if source else ""
        rows = {row["state"] - source: row for row in self._rows}
        blanks = [rows[state] for state in (BLANK, BLANK_TOMBSTONE) if state in rows and rows[state][f"{side}n"]]
        if not blanks:
            return ""
        number, offset = place(min(int(row[f"{side}first"]) for row in blanks))
        tombstones = int(rows[BLANK_TOMBSTONE][f"{side}n"]) if BLANK_TOMBSTONE in rows else 0
        among = f" ({tombstones:,} of them tombstones)" if tombstones else ""
        count = sum(int(row[f"{side}n"]) for row in blanks)
        return f"{label} gives null for {count:,} records{among}, as at partition {number} offset {offset}"


def evaluated(frame: DataFrame, expressions: Expressions, *blank: str) -> DataFrame:
    """The ``position`` and ``state`` of each record, and the value of each expression under its name.

    A record is blank where one of the columns ``blank`` is null. The values are a projection of their own: Spark then
    evaluates an expression once, whatever is made of its value.
    """
    columns = [position_column(), f.col("value_bytes").isNull().alias("tombstone")]
    chosen = expressions.chosen
    columns.append((f.lit(True) if chosen is None else f.coalesce(chosen, f.lit(False))).alias("chosen"))
    columns += [identity(f.expr(text)).alias(name) for name in ("id", "key") if (text := getattr(expressions, name))]
    if expressions.sequence:
        columns.append(sequence_number(f.expr(expressions.sequence)).alias("sequence"))
    state = f.when(~f.col("chosen"), LEFT_OUT)
    for name in blank:
        state = state.when(f.col(name).isNull(), f.when(f.col("tombstone"), BLANK_TOMBSTONE).otherwise(BLANK))
    return frame.select(*columns).withColumn("state", state.otherwise(COMPARED)).drop("tombstone", "chosen")


def hash_of(text: Column, mask: int, seed: int | None = None) -> Column:
    """``xxhash64`` of a text; with a seed it is another hash."""
    whole = f.xxhash64(text) if seed is None else f.xxhash64(f.lit(seed), text)
    return whole if mask == -1 else whole.bitwiseAND(f.lit(mask))


def state_counts(frame: DataFrame, chosen: Column | None) -> DataFrame:
    """As ``id_groups``, where nothing is compared."""
    rows = evaluated(frame, Expressions(chosen=chosen)).withColumn("kind", f.lit(0))
    return rows.groupBy("state", "kind").agg(*_places("", f.col("position")))


# --- Ids ---


def id_rows(frame: DataFrame, expressions: Expressions, *, source: bool = False) -> DataFrame:
    """``hash``, ``state`` and ``position`` of each record; no hash for a record that is not compared."""
    compared, state = f.col("state") == COMPARED, f.col("state")
    if source:
        state = f.when(compared, COMPARED).otherwise(state + SOURCE).alias("state")
    hashed = f.when(compared, hash_of(f.col("id"), expressions.mask)).alias("hash")
    return evaluated(frame, expressions, "id").select(hashed, state, "position")


def id_groups(topic: DataFrame, source: DataFrame | None) -> DataFrame:
    """Groups of ``id_rows`` with something to look at, one row each, and all others together.

    Columns: ``state``; ``kind`` and ``hash`` (0 and null: nothing to look at); ``n``, ``first`` and ``last``: records,
    and positions; of the source likewise ``source_n``, ``source_first`` and ``source_last``.
    """
    n, position = f.col("n"), f.col("position")
    together, totals = [], _totals("")
    if source is None:
        groups = topic.groupBy("hash", "state").agg(*_places("", position))
        kind = f.when(n > 1, DUPLICATE).otherwise(0)
    else:
        rows = topic.withColumn("side", f.lit(0)).unionAll(source.withColumn("side", f.lit(1)))
        here, there = (f.when(f.col("side") == side, position) for side in (0, 1))
        groups = rows.groupBy("hash", "state").agg(*_places("", here), *_places("source_", there))
        unsourced = f.when(f.col("source_n") == 0, UNSOURCED).otherwise(0)
        kind = f.when(n == 0, ABSENT).when(n > 1, unsourced + DUPLICATE).otherwise(unsourced)
        # Of ids that both have, the newest place in each partition of the source is wanted (``newest_matched``).
        together = ["source_first_partition", "source_last_partition"]
        groups = groups.withColumns({name: partition_of(name.removesuffix("_partition")) for name in together})
        totals += [*_totals("source_"), f.max("source_first").alias("source_newest_first")]
    judged = groups.withColumn("kind", f.when(f.col("state") == COMPARED, kind).otherwise(0))
    suspects = judged.withColumn("suspect", f.when(f.col("kind") > 0, f.col("hash")))
    return suspects.groupBy("state", "kind", "suspect", *together).agg(*totals).withColumnRenamed("suspect", "hash")


def _places(side: str, position: Column) -> list[Column]:
    aggregated = {"n": f.count(position), "first": f.min(position), "last": f.max(position)}
    return [column.alias(f"{side}{name}") for name, column in aggregated.items()]


def _totals(side: str) -> list[Column]:
    aggregated = {"n": f.sum(f"{side}n"), "first": f.min(f"{side}first"), "last": f.max(f"{side}last")}
    return [column.alias(f"{side}{name}") for name, column in aggregated.items()]


def newest_matched(groups: DataFrame) -> dict[int, int]:
    """The newest offset of each partition of the source whose id the topic has."""
    matched = groups.where((f.col("state") == COMPARED) & (f.col("n") > 0) & (f.col("source_n") > 0))
    positions = matched.select(f.explode(f.array("source_newest_first", "source_last")).alias("position"))
    newest = positions.groupBy(partition_of("position").alias("p")).agg(f.max("position").alias("position"))
    return dict(place(int(row["position"])) for row in newest.collect())


def suspect_positions(groups: DataFrame, kind: int, side: str = "") -> DataFrame:
    """The ``position`` of each record of these groups, of which none has more than two."""
    ends = f.array_distinct(f.array(f"{side}first", f"{side}last"))
    return groups.where(f.col("kind").bitwiseAND(f.lit(kind)) > 0).select(f.explode(ends).alias("position"))


def spans_between(groups: DataFrame, spans: Mapping[int, OffsetSpan], side: str = "") -> dict[int, OffsetSpan]:
    """The offsets of each partition in which the records of these groups lie; all of them for a group in several
    partitions.
    """
    ends = groups.select(
        partition_of(f"{side}first").alias("partition"),
        partition_of(f"{side}last").alias("last_partition"),
        offset_of(f"{side}first").alias("low"),
        offset_of(f"{side}last").alias("high"),
    )
    grouped = ends.groupBy("partition").agg(f.max("last_partition"), f.min("low"), f.max("high")).collect()
    if any(partition != last for partition, last, _, _ in grouped):
        return dict(spans)
    return {partition: OffsetSpan(partition, low, high + 1) for partition, _, low, high in grouped}


# --- Numbers of keys ---


def key_rows(frame: DataFrame, expressions: Expressions) -> DataFrame:
    """Two hashes of the key of each record, with its ``state``, ``position`` and ``sequence``.

    Two keys are one only if 128 bits agree: a gap of one cannot hide behind the numbers of another.
    """
    compared = f.col("state") == COMPARED
    # Records that are not compared are spread over some groups: one would be a task of its own.
    first = f.when(compared, hash_of(f.col("key"), expressions.mask)).otherwise(f.pmod("position", f.lit(_SALT)))
    second = f.when(compared, hash_of(f.col("key"), expressions.mask, 1)).otherwise(0)
    rows = evaluated(frame, expressions, "key", "sequence")
    return rows.select(first.alias("hash"), second.alias("hash_2"), "state", "position", "sequence")


def key_groups(rows: DataFrame, *, sparse: bool) -> DataFrame:
    """Groups of ``key_rows`` with a key whose numbers do not go up by one, one row each, and all others together.

    Columns as of ``id_groups``, and ``hash_2``. In each partition the numbers of a key must go up by one from record to
    record, and between partitions its runs must follow each other; with ``sparse`` they only have to grow in each.
    """
    key = ["hash", "hash_2", "state"]
    log = Window.partitionBy(*key, "partition").orderBy("position")
    before = f.lag("sequence").over(log)
    sequence = f.col("sequence")
    broken = (sequence <= before) if sparse else (sequence != before + 1)
    # By the key alone, so that one shuffle serves all three groupings.
    marked = rows.withColumn("partition", partition_of("position")).repartition(*key).withColumn("broken", broken)
    runs = marked.groupBy(*key, "partition").agg(
        *_places("", f.col("position")),
        f.count_if("broken").alias("breaks"),
        f.struct(f.min("sequence").alias("low"), f.max("sequence").alias("high")).alias("run"),
    )
    keys = runs.groupBy(*key).agg(
        *_totals(""), f.sum("breaks").alias("breaks"), f.sort_array(f.collect_list("run")).alias("runs")
    )
    apart = f.expr(
        "aggregate(slice(runs, 2, size(runs)), struct(runs[0].high AS high, false AS apart),"
        " (a, run) -> struct(run.high AS high, a.apart OR run.low != a.high + 1 AS apart)).apart"
    )
    bad = f.col("breaks") > 0
    kind = f.when((f.col("state") == COMPARED) & (bad if sparse else bad | apart), BROKEN).otherwise(0)
    judged = keys.withColumn("kind", kind)
    suspects = {f"suspect_{name}": f.when(f.col("kind") > 0, f.col(name)) for name in ("hash", "hash_2")}
    together = judged.withColumns(suspects).groupBy("state", "kind", *suspects).agg(*_totals(""))
    return together.withColumnsRenamed({f"suspect_{name}": name for name in ("hash", "hash_2")})


# --- Offsets, and those that a sink stored ---


class OffsetCounts(NamedTuple):
    """Records of the topic, and offsets of a kind."""

    kept: int
    kinds: Mapping[int, int]


def offset_groups(kept: DataFrame, held: DataFrame, stored: DataFrame, spans: DataFrame) -> DataFrame:
    """Offsets of which something is to be said, one row each, and all others together: ``kind``, ``position`` (null:
    only their number is wanted), ``offsets``, ``kept``, and ``times``, how often the sink has it.

    Three frames of the column ``position``: of a read_committed and a read_uncommitted reader, and of the sink.
    ``spans`` has what is audited, as ``partition``, ``start``, ``end`` and ``expected``: the sink must have all before.
    """
    marks = {"kept": kept, "held": held, "times": stored}
    frames = [
        frame.select("position", *((f.lit(1) if name == mark else f.lit(0)).alias(mark) for mark in marks))
        for name, frame in marks.items()
    ]
    rows = functools.reduce(DataFrame.unionAll, frames)
    offsets = rows.groupBy("position").agg(
        f.max("kept").alias("kept"), f.max("held").alias("held"), f.sum("times").alias("times")
    )
    offsets = offsets.withColumns({"partition": partition_of("position"), "offset": offset_of("position")})
    kinds = {
        STRANGE: "times > 0 AND (start IS NULL OR inside AND held = 0 AND kept = 0)",
        REPEATED: "times > 1 AND offset >= start",
        AHEAD: "times > 0 AND offset >= start AND offset >= end",
        ABORTED: "inside AND held = 1 AND kept = 0",
        ABORTED_VISIBLE: "inside AND held = 1 AND kept = 0 AND times > 0",
        MISSING: "inside AND kept = 1 AND times = 0 AND offset < expected",
        WAITING: "inside AND kept = 1 AND times = 0 AND offset >= expected",
    }
    kind = " + ".join(f"CASE WHEN {test} THEN {bit} ELSE 0 END" for bit, test in kinds.items())
    judged = (
        offsets.join(f.broadcast(spans), "partition", "left")
        .withColumn("inside", f.expr("coalesce(offset >= start AND offset < end, false)"))
        .withColumn("kind", f.expr(kind))
        .withColumn("suspect", f.expr(f"CASE WHEN kind & ~{ABORTED | WAITING} != 0 THEN position END"))
    )
    counted = [f.count(f.lit(1)).alias("offsets"), f.sum("kept").alias("kept"), f.max("times").alias("times")]
    return judged.groupBy("kind", "suspect").agg(*counted).withColumnRenamed("suspect", "position")


def offset_counts(groups: DataFrame) -> OffsetCounts:
    """What ``offset_groups`` has."""
    counted = groups.groupBy("kind").agg(f.sum("offsets").alias("offsets"), f.sum("kept").alias("kept")).collect()
    bits = (STRANGE, REPEATED, AHEAD, ABORTED, ABORTED_VISIBLE, MISSING, WAITING)
    kinds = {bit: sum(int(row["offsets"]) for row in counted if row["kind"] & bit) for bit in bits}
    return OffsetCounts(sum(int(row["kept"]) for row in counted), kinds)


def newest_stored(stored: DataFrame) -> tuple[dict[int, int], int]:
    """The newest offset of each partition in the sink's positions, and how many of its rows have none."""
    grouped = stored.groupBy(partition_of("position").alias("p")).agg(
        f.count(f.lit(1)).alias("n"), f.max("position").alias("newest")
    )
    rows = grouped.collect()
    newest = dict(place(int(row["newest"])) for row in rows if row["p"] is not None)
    return newest, sum(int(row["n"]) for row in rows if row["p"] is None)
