"""One audit: a pass for each question, then the records of its suspects are read again and compared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd  # type: ignore[import-untyped]  # ships no types
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException
from pyspark.storagelevel import StorageLevel

from exporter.jobs.audit.candidates import (
    ABORTED,
    ABORTED_VISIBLE,
    ABSENT,
    AHEAD,
    BROKEN,
    DUPLICATE,
    MISSING,
    REPEATED,
    SOURCE,
    STRANGE,
    WAITING,
    Expressions,
    Summary,
    hash_of,
    id_groups,
    id_rows,
    key_groups,
    key_rows,
    newest_stored,
    offset_counts,
    offset_groups,
    spans_between,
    state_counts,
    suspect_positions,
)
from exporter.jobs.audit.columns import checked, chosen_by, condition, identity, named, reason, uses_headers
from exporter.jobs.audit.definition import Audit, AuditOutcome, FindingFrame, NullId, Remarks
from exporter.jobs.audit.evidence import duplicates, located, rows, sequence_findings
from exporter.jobs.audit.offset_range import (
    Bound,
    Covered,
    OffsetSpan,
    before,
    cover,
    lost_since,
    markers_in,
    offset_of,
    partition_of,
    position_column,
)
from exporter.jobs.audit.read import DIRECT_READ, LOCAL_ROWS, Reader, TopicAccess, with_settings
from exporter.jobs.audit.source_compared import AuditedSource
from exporter.jobs.audit.tables import SinkTable, positions_of
from exporter.jobs.audit.tables_compared import AuditedTables
from exporter.jobs.session import SessionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PART_RECORDS = 2_000_000
"""Records whose groups one task after a shuffle has: some 50 bytes each."""

_CAUSES = (
    ("UnknownTopicOrPartitionException", "the topic was deleted while it was read"),
    ("OffsetOutOfRangeException", "records were deleted while they were read: retention is faster than the audit"),
    ("were lost", "records were deleted while they were read: retention is faster than the audit"),
    ("TopicAuthorizationException", "Spark may not read the topic: grant READ on it"),
    ("GroupAuthorizationException", "Spark may not use its group: grant READ on Group:spark-kafka-source*"),
    ("SaslAuthenticationException", "the broker refused the credentials"),
    ("SslAuthenticationException", "the TLS handshake failed"),
    (
        "kafka.common.errors.TimeoutException",
        "a broker that leads a partition did not answer in time: it is down, or too busy",
    ),
    (
        "TimeoutException: Cannot fetch record",
        "a broker that leads a partition did not answer in time: it is down, or too busy",
    ),
    ("DisconnectException", "a broker was lost"),
    ("OutOfMemoryError", "Spark ran out of memory: give more with --conf spark.driver.memory=4g"),
    ("No space left on device", "no space is left on Spark's local disk (--conf spark.local.dir=DIR)"),
)

Say = Callable[[str], None]
Deliver = Callable[[FindingFrame], None]


def check_expressions(reader: Reader, audit: Audit) -> None:
    """Raises ExpressionError for an expression that cannot be used, before anything is read."""
    empty = named(reader.nothing(), audit.shape)
    for flag, text in {**audit.expressions, **({"source.id": audit.source_id} if audit.source_id else {})}.items():
        checked(empty, flag, text)
    for flag, text in {**audit.conditions, "source.where": audit.source_where}.items():
        if text:
            condition(empty, flag, text)


def run(session: SparkSession, access: TopicAccess, audit: Audit, deliver: Deliver, say: Say) -> AuditOutcome:
    """Audits once. Raises AskError and SessionError."""
    try:
        return _Run(session, access, audit, deliver, say).run()
    except (PySparkException, Py4JError, ConnectionError) as error:  # the last one from a JVM that ended
        raise SessionError(failure(error)) from None


def failure(error: Exception) -> str:
    """The reason of a failure, from a Java trace: the first cause that concerns Kafka."""
    text = str(error)
    why = next((meaning for pattern, meaning in _CAUSES if pattern in text), None) or reason(error)
    return f"the audit was not finished, and results that were there are unchanged: {why}"


class _Run:
    """One run. Frames that are read twice are cached on the workers' disks, and released at the end."""

    def __init__(self, session: SparkSession, access: TopicAccess, audit: Audit, deliver: Deliver, say: Say) -> None:
        self._session, self._access, self._audit = session, access, audit
        self._deliver, self._say = deliver, say
        more = {"source.id": audit.source_id, "source.where": audit.source_where}
        headers = uses_headers({**audit.expressions, **audit.conditions, **more})
        self._reader = Reader(session, access, audit.topic, headers)
        self._remarks = Remarks()
        self._source = None
        if audit.source_topic:
            source = Reader(session, access, audit.source_topic, headers)
            self._source = AuditedSource(source, self._reader, audit, self._remarks, self._keep, self._found, self._say)
        self._taken = 0
        """Records of the topic that compaction took, at most."""
        self._kept = contextlib.ExitStack()

    def run(self) -> AuditOutcome:
        with with_settings(self._session, DIRECT_READ, LOCAL_ROWS), self._kept:
            return self._run()

    def _run(self) -> AuditOutcome:
        audit, access = self._audit, self._access
        check_expressions(self._reader, audit)
        # Downstream is read first: it then never has more than its source. But the source topic's end is taken before
        # its output's: the output then has every record that the source's end requires.
        stored = self._stored(audit.sink) if audit.sink is not None else None
        tables = AuditedTables(self._reader, audit, self._remarks, self._keep, self._found_here, self._say)
        tables.read()
        source = self._source.covered() if self._source is not None else None
        whole = source is not None
        covered = cover(
            access.client,
            audit.topic,
            Bound("earliest", earliest=True) if whole else audit.begin,
            None if whole else audit.end,
            access.deadline(),
        )
        self._remarks.take(covered)
        total = covered.offsets + (source.offsets if source is not None else 0)
        if not total and not audit.tables:
            self._remarks.unknown.append(self._empty())
            return self._outcome(covered)
        self._say(f"reading {total:,} offsets of {' and '.join(filter(None, [audit.topic, audit.source_topic]))}")
        with with_settings(self._session, self._shuffle(total)):
            return self._compared(covered, source, stored, tables)

    def _shuffle(self, total: int) -> dict[str, str]:
        """Tasks after a shuffle by the records, and not fewer than the session's own where tables are compared."""
        name = "spark.sql.shuffle.partitions"
        tasks = self._reader.tasks(total, PART_RECORDS)
        return {name: str(max(tasks, int(self._session.conf.get(name) or tasks)) if self._audit.tables else tasks)}

    def _compared(
        self, covered: Covered, source: Covered | None, stored: DataFrame | None, tables: AuditedTables
    ) -> AuditOutcome:
        audit = self._audit
        ids = self._keep(self._id_groups(covered, source)) if audit.id else None
        keys = self._keep(self._key_groups(covered)) if audit.sequence else None
        passes = [Summary(groups) for groups in (ids, keys) if groups is not None]
        if not passes and (stored is None or self._chosen(audit.where) is not None):
            passes = [Summary(state_counts(self._records(covered.spans), self._chosen(audit.where)))]
        kept = passes[0].records if passes else None
        records, aborted = self._offsets(covered, stored, kept)
        if not records:
            self._remarks.unknown.append(self._empty())
        self._left_out(ids, keys, passes, records)
        self._compacted(covered, records + aborted)
        if ids is not None:
            self._duplicates(ids, passes[0], covered)
        if keys is not None:
            self._sequences(keys, passes[-1], covered)
        tables.compare(covered, holes=self._taken > 0)
        if self._source is not None and source is not None and ids is not None:
            summary, reader = passes[0], self._source.source

            def positions(kind: int) -> DataFrame:
                if kind == ABSENT:
                    return self._positions(ids, kind, summary, reader, source.spans)
                return self._positions(ids, kind, summary, self._reader, covered.spans)

            self._source.compare(source, ids, summary, positions, self._taken)
        self._remarks.unknown += lost_since(self._access.client, audit.topic, covered.spans, self._access.deadline())
        if not audit.checks:
            self._remarks.unknown.append("nothing was asked: give id, key with sequence, source, sink or outbox")
        return self._outcome(covered, records, aborted)

    def _outcome(self, covered: Covered, records: int = 0, aborted: int = 0) -> AuditOutcome:
        remarks = self._remarks
        return AuditOutcome(records, aborted, covered.spans, tuple(remarks.unknown), tuple(remarks.notes))

    def _empty(self) -> str:
        return f"there are no records of {self._audit.topic} between these offsets"

    def _left_out(self, ids: DataFrame | None, keys: DataFrame | None, passes: Sequence[Summary], records: int) -> None:
        """Note the records that ``where`` and ``null_id`` leave out."""
        blanks = []
        if ids is not None:
            blanks.append(passes[0].blank("id"))
        if keys is not None:
            blanks.append(passes[-1].blank("key or sequence"))
        if self._source is not None:
            blanks.append(passes[0].blank("source.id", SOURCE))
        sentences = list(filter(None, blanks))
        if self._audit.null_id is NullId.COUNT:
            self._remarks.add(*sentences, known=True)
        elif self._audit.null_id is NullId.FAIL:
            self._remarks.add(*(f"{sentence} (null_id: count accepts them)" for sentence in sentences), known=False)
        if passes and (out := passes[0].left_out):
            self._remarks.notes.append(f"{out:,} of {records:,} records are left out, by where or as tombstones")
            if out == records:
                self._remarks.unknown.append("all records are left out: nothing was compared")

    def _compacted(self, covered: Covered, there: int) -> None:
        if not covered.compacted:
            return
        holes = covered.offsets - there
        if holes:
            self._say("counting what compaction took")
            holes -= markers_in(self._access.client, self._audit.topic, covered.spans, self._access.deadline())
        self._taken = max(0, holes)
        known = not self._taken or self._audit.begin.earliest
        text = "compaction has taken nothing of these offsets"
        if self._taken:
            text = (
                f"up to {self._taken:,} of its records are no longer there: what is still there was judged"
                " (begin: earliest asks about that alone)"
            )
        self._remarks.add(f"{self._audit.topic} is compacted, and {text}", known=known)

    # --- Reading ---

    def _records(self, spans: Mapping[int, OffsetSpan], reader: Reader | None = None) -> DataFrame:
        return named((reader or self._reader).records(spans), self._audit.shape)

    def _chosen(self, where: str) -> Column | None:
        return chosen_by(self._audit.shape, where)

    def _expressions(self, *, source: bool = False) -> Expressions:
        audit = self._audit
        if source:
            return Expressions(audit.source_id or audit.id, chosen=self._chosen(audit.source_where), mask=audit.mask)
        return Expressions(audit.id, chosen=self._chosen(audit.where), mask=audit.mask)

    def _keep(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist(StorageLevel.DISK_ONLY)
        self._kept.callback(kept.unpersist)
        return kept

    # --- Ids and sequences ---

    def _id_groups(self, covered: Covered, source: Covered | None) -> DataFrame:
        topic = id_rows(self._records(covered.spans), self._expressions())
        if source is None or self._source is None:
            return id_groups(topic, None)
        frame = self._records(source.spans, self._source.source)
        return id_groups(topic, id_rows(frame, self._expressions(source=True), source=True))

    def _key_groups(self, covered: Covered) -> DataFrame:
        return key_groups(key_rows(self._records(covered.spans), self._key_expressions()), sparse=self._audit.sparse)

    def _key_expressions(self) -> Expressions:
        audit = self._audit
        return Expressions("", audit.key, audit.sequence, self._chosen(audit.where), audit.mask)

    def _positions(
        self, groups: DataFrame, kind: int, summary: Summary, reader: Reader, spans: Mapping[int, OffsetSpan]
    ) -> DataFrame:
        """The positions of all records of these groups of ids."""
        side = "source_" if kind == ABSENT else ""
        if not summary.suspects(kind, side).many:
            return suspect_positions(groups, kind, side)
        suspects = groups.where(f"kind & {kind} != 0")
        rows = id_rows(
            self._records(spans_between(suspects, spans, side), reader), self._expressions(source=bool(side))
        )
        return self._keep(rows.join(suspects.select("hash"), "hash", "left_semi").select("position"))

    def _duplicates(self, groups: DataFrame, summary: Summary, covered: Covered) -> None:
        count = summary.suspects(DUPLICATE).records
        if not count:
            return
        self._say(f"comparing {count:,} records that may be duplicates")
        positions = self._positions(groups, DUPLICATE, summary, self._reader, covered.spans)
        frame = named(self._reader.at(positions, count), self._audit.shape)
        found = duplicates(frame, checked(frame, "id", self._audit.id))
        self._found("duplicate", self._audit.topic, found)

    def _sequences(self, groups: DataFrame, summary: Summary, covered: Covered) -> None:
        count = summary.suspects(BROKEN).groups
        if not count:
            return
        self._say(f"comparing the records of {count:,} keys")
        suspects = groups.where(f"kind & {BROKEN} != 0")
        frame = self._records(spans_between(suspects, covered.spans))
        if (chosen := self._chosen(self._audit.where)) is not None:
            frame = frame.where(chosen)
        key, sequence = checked(frame, "key", self._audit.key), checked(frame, "sequence", self._audit.sequence)
        hashes = {
            name: hash_of(identity(key), self._audit.mask, seed) for name, seed in (("hash", None), ("hash_2", 1))
        }
        suspicious = frame.withColumns(hashes).join(suspects.select(*hashes), [*hashes], "left_semi")
        for kind, found in sequence_findings(self._keep(suspicious), key, sequence).items():
            if kind == "gap" and (self._audit.sparse or self._taken):
                if not self._audit.sparse and (missing := found.count()):
                    self._remarks.unknown.append(f"{missing:,} gaps may be numbers that compaction took")
                continue
            # A repeated number of a key is reported by id where there is one: never twice.
            if kind != "duplicate" or not self._audit.id:
                self._found(kind, self._audit.topic, found)

    # --- Offsets: aborted records, and the sink ---

    def _stored(self, sink: SinkTable) -> DataFrame:
        """The positions of the sink's rows, read now."""
        self._say(f"reading {sink.name}")
        kept = self._keep(positions_of(self._session, sink, self._audit.topic))
        kept.count()
        return kept

    def _offsets(self, covered: Covered, stored: DataFrame | None, kept: int | None) -> tuple[int, int]:
        """Numbers of committed and of aborted records: what a read_uncommitted reader gets beside, and markers are not.

        ``kept`` is the first of them, if it is known.
        """
        if stored is None and kept is not None:
            holes = covered.offsets - kept
            if not holes:
                return kept, 0
            self._say(f"reading what was aborted, in {covered.offsets:,} offsets")
            return kept, max(0, self._reader.records(covered.spans, committed=False).count() - kept)
        if stored is None:
            return 0, 0
        spans = self._due(covered, stored)
        committed, everything = (
            self._reader.records(covered.spans, committed=level).select(position_column()) for level in (True, False)
        )
        groups = self._keep(offset_groups(committed, everything, stored.where("position IS NOT NULL"), spans))
        counts = offset_counts(groups)
        for kind, bit in (
            ("repeated", REPEATED),
            ("aborted_visible", ABORTED_VISIBLE),
            ("ahead", AHEAD),
            ("missing", MISSING),
        ):
            if count := counts.kinds[bit]:
                columns = ("position", "times") if kind == "repeated" else ("position",)
                positions = groups.where(f"kind & {bit} != 0").select(*columns)
                # Spark reads no offset that the log has not reached.
                places = {"partition": partition_of("position"), "offset": offset_of("position")}
                written = positions.withColumns(places).where(before(covered.high)).select("position")
                records = named(self._reader.at(written, count), self._audit.shape)
                self._found(kind, self._audit.topic, located(records, positions))
        if strange := counts.kinds[STRANGE]:
            self._remarks.unknown.append(f"{strange:,} rows of the sink are of offsets that hold no record")
        if waiting := counts.kinds[WAITING]:
            self._remarks.notes.append(f"{waiting:,} records after the sink's newest are not in it yet")
        return counts.kept, counts.kinds[ABORTED]

    def _due(self, covered: Covered, stored: DataFrame) -> DataFrame:
        """The audited offsets of each partition, and before which the sink must have all."""
        newest, blank = newest_stored(stored)
        if blank:
            self._remarks.unknown.append(f"{blank:,} rows of the sink have no partition or offset")
        if not newest and not self._audit.due and self._audit.end is None:
            self._remarks.unknown.append(f"the sink has no row of {self._audit.topic}: nothing was compared")
        ends = {number: offset + 1 for number, offset in newest.items()}
        expected = self._audit.due_before(covered.spans, ends)
        rows = [(number, span.start, span.end, expected.get(number, 0)) for number, span in covered.spans.items()]
        frame = pd.DataFrame(rows, columns=["partition", "start", "end", "expected"])
        return self._session.createDataFrame(frame, "partition int, start bigint, end bigint, expected bigint")

    def _found_here(self, kind: str, frame: DataFrame) -> None:
        self._found(kind, self._audit.topic, frame)

    def _found(self, kind: str, topic: str, frame: DataFrame) -> None:
        self._deliver(FindingFrame(kind, topic, rows(frame, kind, topic)))
