"""A topic against tables: a sink with the latest row of each key, and an outbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from exporter.jobs.audit.columns import checked, chosen_by, condition, identity, named, sequence_number
from exporter.jobs.audit.evidence import shown
from exporter.jobs.audit.offset_range import Covered, OffsetSpan, before, cover
from exporter.jobs.audit.tables import column, rows_of
from exporter.jobs.audit.upsert import (
    AHEAD,
    KINDS,
    OUTSIDE,
    PHANTOM,
    SCATTERED,
    WAITING,
    Comparing,
    compared,
    newest_applied,
    undecided,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from exporter.jobs.audit.definition import Audit, KeyedSink, Outbox, Remarks
    from exporter.jobs.audit.read import Reader

Found = Callable[[str, "DataFrame"], None]
Keep = Callable[["DataFrame"], "DataFrame"]


def keyed_rows(session: SparkSession, sink: KeyedSink) -> DataFrame:
    """The sink's rows as ``it``, ``version`` and ``content``. Raises SessionError."""
    rows = rows_of(session, sink.table)
    columns = {flag: column(rows, flag, text) for flag, text in sink.expressions.items()}
    return rows.select(*_compared_columns(columns, "sink."))


def keyed_records(frame: DataFrame, audit: Audit) -> DataFrame:
    """The topic's records as ``upsert.compared`` takes them, without ``due``."""
    columns = {flag: checked(frame, flag, text) for flag, text in audit.expressions.items()}
    deleted = f.coalesce(condition(frame, "deleted", audit.deleted), f.lit(False))
    compared_columns = _compared_columns(columns, "")
    return frame.select(*compared_columns, deleted.alias("deleted"), "partition", "offset", "timestamp")


def _compared_columns(columns: Mapping[str, Column], prefix: str) -> Iterator[Column]:
    yield identity(columns[f"{prefix}key"]).alias("it")
    version, content = columns.get(f"{prefix}version"), columns.get(f"{prefix}content")
    yield (f.lit(None).cast("bigint") if version is None else sequence_number(version)).alias("version")
    yield (f.lit(None).cast("string") if content is None else identity(content)).alias("content")


def judge_keyed(
    records: DataFrame,
    rows: DataFrame,
    comparing: Comparing,
    everything: Callable[[], DataFrame],
    ends: Mapping[int, int],
    keep: Keep,
    found: Found,
    remarks: Remarks,
) -> None:
    """Compare, and hand on each kind of finding. ``everything`` gives the records of a read_uncommitted reader."""
    unknown = remarks.unknown
    if blank := rows.where("it IS NULL").count():
        unknown.append(f"sink.key gives null for {blank:,} rows of the sink")
    if comparing.version and (blank := rows.where("it IS NOT NULL AND version IS NULL").count()):
        unknown.append(f"sink.version gives no number for {blank:,} rows of the sink")
    rows = rows.where("it IS NOT NULL" + (" AND version IS NOT NULL" if comparing.version else ""))
    blank, numberless = records.agg(
        f.count_if(f.expr("it IS NULL")),
        f.count_if(f.expr("it IS NOT NULL AND version IS NULL AND NOT deleted")),
    ).collect()[0]
    if blank:
        unknown.append(f"key gives null for {blank:,} records")
    if comparing.version and numberless:
        unknown.append(f"version gives no number for {numberless:,} records")
    judged = keep(compared(records.where("it IS NOT NULL"), rows, comparing))
    counts = {str(row["kind"]): int(row["count"]) for row in judged.groupBy("kind").count().collect()}
    for kind in KINDS:
        if counts.get(kind) and kind not in (PHANTOM, AHEAD):
            found(kind, judged.where(f"kind = '{kind}'"))
    if counts.get(PHANTOM) or counts.get(AHEAD):
        # Rows of no committed record: of one that was aborted, of one that is not decided, or of none at all.
        strange = judged.where(f"kind IN ('{PHANTOM}', '{AHEAD}')")
        explained = keep(undecided(strange, everything(), ends, comparing))
        rest = strange.join(explained.select("it"), "it", "left_anti")
        for kind, frame in (
            ("aborted_visible", explained),
            (AHEAD, explained.unionByName(rest, True)),
            (PHANTOM, rest),
        ):
            if not (mine := frame.where(f"kind = '{kind}'")).isEmpty():
                found(kind, mine)
    if scattered := counts.get(SCATTERED):
        unknown.append(f"{scattered:,} keys have records in several partitions, and no version to order them")
    if outside := counts.get(OUTSIDE):
        unknown.append(f"{outside:,} rows of the sink may be of records before the offsets that were read")
    if waiting := counts.get(WAITING):
        remarks.notes.append(f"{waiting:,} keys have newer records than the newest in the sink: not in it yet")


def due_before(records: DataFrame, rows: DataFrame, comparing: Comparing) -> dict[int, int]:
    """By partition the offset before which all must be in the sink: after the newest record that is."""
    known = records.where("it IS NOT NULL")
    newest = newest_applied(known, rows.where("it IS NOT NULL"), comparing)
    return {number: offset + 1 for number, offset in newest.items()}


def outbox_rows(session: SparkSession, outbox: Outbox) -> DataFrame:
    """The ids of the rows that must be in the topic, as ``it``. Raises SessionError."""
    rows = rows_of(session, outbox.table)
    if outbox.where:
        rows = rows.where(column(rows, "outbox.where", outbox.where))
    return rows.select(identity(column(rows, "outbox.id", outbox.id)).alias("it"))


def judge_outbox(rows: DataFrame, ids: DataFrame, keep: Keep, found: Found, remarks: Remarks, *, partial: bool) -> None:
    """Hand on rows that no record has; ``ids`` are the topic's, as ``it``; ``partial``: not from the first offset."""
    unknown = remarks.unknown
    if blank := rows.where("it IS NULL").count():
        unknown.append(f"outbox.id gives null for {blank:,} rows of the outbox")
    known = rows.where("it IS NOT NULL").dropDuplicates(["it"])
    absent = keep(known.join(ids, "it", "left_anti"))
    if partial and (count := absent.count()):
        unknown.append(f"{count:,} rows of the outbox may be of records before the offsets that were read")
    elif not partial and not absent.isEmpty():
        found("missing", absent.withColumn("id", shown(f.col("it"))))
    if more := ids.where("it IS NOT NULL").join(known, "it", "left_anti").count():
        remarks.notes.append(
            f"{more:,} records have no row in the outbox: deleted there, written since, or never there"
        )


def _partial(covered: Covered) -> bool:
    """Return whether records may have been before the offsets that are read: from, or retention."""
    return any(span.start > 0 for span in covered.spans.values())


class AuditedTables:
    """The tables of one audit. ``read`` comes before the topic's end is taken: what is ahead of it then was ahead."""

    def __init__(
        self, reader: Reader, audit: Audit, remarks: Remarks, keep: Keep, found: Found, say: Callable[[str], None]
    ) -> None:
        self._reader, self._audit, self._remarks = reader, audit, remarks
        self._keep, self._found, self._say = keep, found, say
        self._rows: DataFrame | None = None
        self._outbox: DataFrame | None = None

    def read(self) -> None:
        """Read all rows. Raises SessionError."""
        session, audit = self._reader.session, self._audit
        if audit.keyed is not None:
            self._say(f"reading {audit.keyed.table.name}")
            self._rows = self._keep(keyed_rows(session, audit.keyed))
            self._rows.count()
        if audit.outbox is not None:
            self._say(f"reading {audit.outbox.table.name}")
            self._outbox = self._keep(outbox_rows(session, audit.outbox))
            self._outbox.count()

    def compare(self, covered: Covered, *, holes: bool) -> None:
        """Compare the tables with the topic; ``holes``: compaction took records of it. Raises AskError."""
        if self._rows is not None:
            self._say("comparing the latest record of each key")
            version, content = bool(self._audit.version), bool(self._audit.content)
            comparing = Comparing(version, content, holes, _partial(covered))
            self._keyed(covered, self._rows, comparing)
        if self._outbox is not None:
            self._say("comparing the outbox")
            frame = self._records(covered.spans, committed=True)
            ids = frame.select(identity(checked(frame, "id", self._audit.id)).alias("it"))
            judge_outbox(self._outbox, ids, self._keep, self._found, self._remarks, partial=_partial(covered))

    def _keyed(self, covered: Covered, rows: DataFrame, comparing: Comparing) -> None:
        audit = self._audit
        # Up to the last stable offset, whatever is due: rows may be newer than what to asks for.
        stable = self._cover().spans
        committed = self._keep(keyed_records(self._records(stable, committed=True), audit))
        due = audit.due_before(covered.spans, due_before(committed, rows, comparing))
        ends = {number: span.end for number, span in stable.items()}

        def everything() -> DataFrame:
            now = self._cover()
            heads = {number: OffsetSpan(number, span.start, now.high[number]) for number, span in now.spans.items()}
            return keyed_records(self._records(heads, committed=False), audit)

        records = committed.withColumn("due", f.expr(before(due)))
        judge_keyed(records, rows, comparing, everything, ends, self._keep, self._found, self._remarks)

    def _cover(self) -> Covered:
        access = self._reader.access
        return cover(access.client, self._audit.topic, self._audit.begin, None, access.deadline())

    def _records(self, spans: Mapping[int, OffsetSpan], *, committed: bool) -> DataFrame:
        frame = named(self._reader.records(spans, committed=committed), self._audit.shape)
        chosen = chosen_by(self._audit.shape, self._audit.where)
        return frame if chosen is None else frame.where(chosen)
