"""One audit: fold, search, compare, and read suspects again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.storagelevel import StorageLevel

from exporter.jobs.audit import fold as audit_fold
from exporter.jobs.audit import search as audit_search
from exporter.jobs.audit.columns import (
    checked,
    chosen_by,
    condition,
    identity,
    named,
    position_column,
    reason,
    uses_headers,
)
from exporter.jobs.audit.definition import Audit, AuditOutcome, FindingFrame, NullId, Portion, Remarks
from exporter.jobs.audit.evidence import ALL, duplicates, located, rows, sequence_findings
from exporter.jobs.audit.fold import SCHEMA, Fold, OffsetSpan, Plan, folder, parts_of
from exporter.jobs.audit.hashes import Texts, hashed, key_hashes
from exporter.jobs.audit.offset_range import Bound, Covered, cover, lost_since, markers_in
from exporter.jobs.audit.read import Reader, TopicAccess, exploded
from exporter.jobs.audit.search import Comparison, Search, comparer, fold_sink, searcher
from exporter.jobs.audit.source_compared import AuditedSource
from exporter.jobs.audit.spark_settings import DIRECT_READ, UNMEASURED_BATCHES, with_settings
from exporter.jobs.audit.summary import FEW, Summary, dealt, newest_of, spans_between, within
from exporter.jobs.audit.tables import SinkTable, positions_of
from exporter.jobs.audit.tables_compared import AuditedTables
from exporter.jobs.session import SessionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PART_RECORDS = 2_000_000
"""Records of which one task of the second stage holds the hashes and positions: 16 bytes each, and as much to sort."""

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
    for flag, text in {**audit.expressions, **({"--source-id": audit.source_id} if audit.source_id else {})}.items():
        checked(empty, flag, text)
    for flag, text in {**audit.conditions, "--source-where": audit.source_where}.items():
        if text:
            condition(empty, flag, text)


def run(
    session: SparkSession, access: TopicAccess, audit: Audit, deliver: Deliver, say: Say, portion: Portion | None = None
) -> AuditOutcome:
    """Audits once, all or one portion. Raises AskError and SessionError."""
    try:
        return _Run(session, access, audit, deliver, say, portion).run()
    except (PySparkException, Py4JError, ConnectionError) as error:  # the last one from a JVM that ended
        raise SessionError(failure(error)) from None


def failure(error: Exception) -> str:
    """The reason of a failure, from a Java trace: the first cause that concerns Kafka."""
    text = str(error)
    why = next((meaning for pattern, meaning in _CAUSES if pattern in text), None) or reason(error)
    return f"the audit was not finished, and results that were there are unchanged: {why}"


class _Run:
    """One run. Frames that are read twice are cached on the workers' disks, and released at the end."""

    def __init__(
        self,
        session: SparkSession,
        access: TopicAccess,
        audit: Audit,
        deliver: Deliver,
        say: Say,
        portion: Portion | None,
    ) -> None:
        self._portion = portion
        self._fresh = ALL if portion is None else within(portion.fresh)
        self._session, self._access, self._audit = session, access, audit
        self._deliver, self._say = deliver, say
        more = {"--source-id": audit.source_id, "--source-where": audit.source_where}
        headers = uses_headers({**audit.expressions, **audit.conditions, **more})
        self._reader = Reader(session, access, audit.topic, headers)
        self._remarks = Remarks()
        self._source = None
        if audit.source_topic:
            source = Reader(session, access, audit.source_topic, headers)
            self._source = AuditedSource(source, self._reader, audit, self._remarks, self._keep, self._found, self._say)
        self._taken = 0
        """Records of the topic that compaction took, at most."""
        self._covered: Mapping[int, OffsetSpan] = {}
        self._kept = contextlib.ExitStack()

    def run(self) -> AuditOutcome:
        # The parts of an audit that goes on may become larger than a batch can be.
        settings = [DIRECT_READ] if self._portion is not None else [DIRECT_READ, UNMEASURED_BATCHES]
        with by_value(), with_settings(self._session, *settings), self._kept:
            return self._run()

    def _run(self) -> AuditOutcome:
        audit, access = self._audit, self._access
        check_expressions(self._reader, audit)
        # Downstream is read first: it then never has more than its source. But the source topic's end is taken before
        # its output's: the output then has every record that the source's end requires.
        sink = self._sink_folded(audit.sink) if audit.sink is not None else None
        tables = AuditedTables(self._reader, audit, self._remarks, self._keep, self._found_here, self._say)
        tables.read()
        source = self._source.covered() if self._source is not None else None
        covered = self._topic_covered(whole=source is not None)
        total = covered.offsets + (source.offsets if source is not None else 0)
        if not total and not audit.tables and self._portion is None:
            self._remarks.unknown.append(self._empty())
            return self._outcome(covered)
        parts = self._portion.parts if self._portion else parts_of(self._reader.tasks(total, PART_RECORDS))
        self._say(f"reading {total:,} offsets of {' and '.join(filter(None, [audit.topic, audit.source_topic]))}")
        folded = self._keep(self._folded(covered, source, parts))
        summary = Summary(folded)
        if not summary.records and self._portion is None:
            self._remarks.unknown.append(self._empty())
        self._left_out(summary)
        aborted = self._offsets(folded, summary, covered, sink, parts)
        self._compacted(covered, summary.records + aborted)
        self._duplicates(folded, summary)
        self._sequences(folded, summary)
        tables.compare(covered, holes=self._taken > 0)
        if self._source is not None and source is not None:
            self._source.compare(source, folded, summary, self._taken)
        self._remarks.unknown += lost_since(access.client, audit.topic, covered.spans, access.deadline())
        if not audit.checks:
            self._remarks.unknown.append(
                "nothing was asked: give --id, --key with --sequence, --source-topic, --sink or --outbox"
            )
        return self._outcome(covered, summary.records, aborted)

    def _outcome(self, covered: Covered, records: int = 0, aborted: int = 0) -> AuditOutcome:
        remarks = self._remarks
        return AuditOutcome(records, aborted, covered.spans, tuple(remarks.unknown), tuple(remarks.notes))

    def _topic_covered(self, *, whole: bool) -> Covered:
        if self._portion is not None:
            self._covered = self._portion.window
            return Covered(self._portion.fresh, {}, (), ())
        covered = cover(
            self._access.client,
            self._audit.topic,
            Bound("earliest", earliest=True) if whole else self._audit.begin,
            None if whole else self._audit.end,
            self._access.deadline(),
        )
        self._remarks.take(covered)
        self._covered = covered.spans
        return covered

    def _empty(self) -> str:
        return f"there are no records of {self._audit.topic} between these offsets"

    def _left_out(self, summary: Summary) -> None:
        """Note the records that --where and --null-id leave out."""
        if self._audit.null_id is NullId.COUNT:
            self._remarks.add(*summary.blanks(), known=True)
        elif self._audit.null_id is NullId.FAIL:
            self._remarks.add(*(f"{blank} (--null-id count accepts them)" for blank in summary.blanks()), known=False)
        if out := summary.counts[Fold.LEFT_OUT]:
            self._remarks.notes.append(
                f"{out:,} of {summary.records:,} records are left out, by --where or as tombstones"
            )
            if out == summary.records and self._portion is None:
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
                f"up to {self._taken:,} of its records are no longer there: what is still there was judged (--from"
                " earliest asks about that alone)"
            )
        self._remarks.add(f"{self._audit.topic} is compacted, and {text}", known=known)

    # --- First and second stage ---

    def _folded(self, covered: Covered, source: Covered | None, parts: tuple[int, ...]) -> DataFrame:
        audit = self._audit
        plan = Plan(parts, Fold.IDS if audit.id else None, bool(audit.sequence), Fold.KEPT, audit.mask, audit.sparse)
        folded = self._fold(self._reader, covered.spans, audit.expressions, plan, audit.where)
        if source is not None and self._source is not None:
            source_plan = Plan(parts, Fold.SOURCE_IDS, mask=audit.mask)
            expressions = {"--id": audit.source_id or audit.id}
            folded = folded.unionAll(
                self._fold(self._source.source, source.spans, expressions, source_plan, audit.source_where)
            )
        search = Search(covered.spans, source is not None, audit.sparse)
        if self._portion is not None:
            with with_settings(self._session, UNMEASURED_BATCHES):
                folded.write.mode("overwrite").parquet(self._portion.store)
            folded = self._session.read.parquet(self._portion.store)
            if self._portion.past:
                known = f"kind IN ({int(Fold.IDS)}, {int(Fold.RUNS)})"
                folded = folded.unionAll(self._session.read.parquet(*self._portion.past).where(known))
            search = Search(covered.spans, sparse=audit.sparse, fresh=self._portion.fresh)
        return folded.repartition(len(parts), "part").mapInArrow(searcher(search), SCHEMA)  # type: ignore[arg-type]

    def _fold(
        self, reader: Reader, spans: Mapping[int, OffsetSpan], expressions: Mapping[str, str], plan: Plan, where: str
    ) -> DataFrame:
        frame = named(reader.records(spans), self._audit.shape)
        for flag, text in expressions.items():
            checked(frame, flag, text)
        texts = Texts(*(expressions.get(flag, "") for flag in ("--id", "--key", "--sequence")))
        records = hashed(frame, texts, chosen_by(frame, self._audit.shape, where))
        return records.mapInArrow(folder(plan), SCHEMA)  # type: ignore[arg-type]

    def _read(self, frame: DataFrame) -> DataFrame:
        """Keep a frame, and read it now: a frame is otherwise read when it is first used."""
        kept = self._keep(frame)
        kept.count()
        return kept

    def _keep(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist(StorageLevel.DISK_ONLY)
        self._kept.callback(kept.unpersist)
        return kept

    # --- Ids and sequences ---

    def _duplicates(self, folded: DataFrame, summary: Summary) -> None:
        count = summary.counts[Fold.SUSPECT_IDS]
        if not count:
            return
        self._say(f"comparing {count:,} records that may be duplicates")
        if count <= FEW:
            records = self._reader.few(summary.positions(Fold.SUSPECT_IDS))
        else:
            positions = exploded(folded, Fold.SUSPECT_IDS, ("hash", "position")).select("position")
            records = self._reader.at(positions, count)
        frame = named(records, self._audit.shape)
        found = duplicates(frame, checked(frame, "--id", self._audit.id), self._fresh)
        self._found("duplicate", self._audit.topic, found)

    def _sequences(self, folded: DataFrame, summary: Summary) -> None:
        if not summary.counts[Fold.SUSPECT_KEYS]:
            return
        suspects = self._keep(exploded(folded, Fold.SUSPECT_KEYS, ("key_hash", "key_hash_2", "lowest", "highest")))
        spans = spans_between(suspects, self._covered)
        self._say(f"comparing the records of {summary.counts[Fold.SUSPECT_KEYS]:,} keys")
        frame = named(self._reader.records(spans), self._audit.shape)
        if (chosen := chosen_by(frame, self._audit.shape, self._audit.where)) is not None:
            frame = frame.where(chosen)
        key, sequence = checked(frame, "--key", self._audit.key), checked(frame, "--sequence", self._audit.sequence)
        key_hash, key_hash_2 = key_hashes(identity(key))
        mask = self._audit.mask
        suspicious = frame.withColumns(
            {"key_hash": key_hash.bitwiseAND(mask), "key_hash_2": key_hash_2.bitwiseAND(mask)}
        ).join(suspects.select("key_hash", "key_hash_2"), ["key_hash", "key_hash_2"], "left_semi")
        suspicious = self._keep(suspicious)
        for kind, found in sequence_findings(suspicious, key, sequence, self._fresh).items():
            if kind == "gap" and (self._audit.sparse or self._taken):
                if not self._audit.sparse and (count := found.count()):
                    self._remarks.unknown.append(f"{count:,} gaps may be numbers that compaction took")
                continue
            # A repeated number of a key is reported by --id where there is one: never twice.
            if kind != "duplicate" or not self._audit.id:
                self._found(kind, self._audit.topic, found)

    # --- Offsets: aborted records, and the sink ---

    def _sink_folded(self, sink: SinkTable) -> DataFrame:
        self._say(f"reading {sink.name}")
        positions = positions_of(self._session, sink, self._audit.topic)
        # One part for each chunk of offsets, whatever the number of tasks will be.
        return self._read(positions.mapInArrow(fold_sink((0,)), SCHEMA))  # type: ignore[arg-type]

    def _offsets(
        self, folded: DataFrame, summary: Summary, covered: Covered, sink: DataFrame | None, parts: tuple[int, ...]
    ) -> int:
        """Compares kept, held and stored offsets; gives the number of aborted records."""
        gaps = summary.gaps(covered.spans)
        if not gaps and sink is None:
            return 0
        if gaps:
            self._say(f"reading what was aborted, in {sum(gap.end - gap.start for gap in gaps.values()):,} offsets")
        plan = Plan(parts, offsets=Fold.HELD)
        held = self._reader.records(gaps, committed=False).select(position_column())
        held = held.mapInArrow(folder(plan), SCHEMA)  # type: ignore[arg-type]
        both = held.unionAll(dealt(folded.where(f"kind = {int(Fold.KEPT)}"), parts))
        expected: dict[int, int] = {}
        if sink is not None:
            newest, blank = newest_of(sink)
            if blank:
                self._remarks.unknown.append(f"{blank:,} rows of the sink have no partition or offset")
            if not newest and not self._audit.due and self._audit.end is None:
                self._remarks.unknown.append(f"the sink has no row of {self._audit.topic}: nothing was compared")
            stored = {number: offset + 1 for number, offset in newest.items()}
            expected = self._audit.due_before(covered.spans, stored)
            both = both.unionAll(dealt(sink.where(f"kind = {int(Fold.SINK)}"), parts))
        comparison = Comparison(covered.spans, sink is not None, expected)
        compared = self._keep(
            both.repartition(len(parts), "part").mapInArrow(comparer(comparison), SCHEMA)  # type: ignore[arg-type]
        )
        counts = Summary(compared).counts
        for kind, fold in (
            ("repeated", Fold.SINK_REPEATED),
            ("aborted_visible", Fold.SINK_ABORTED),
            ("ahead", Fold.SINK_AHEAD),
            ("missing", Fold.SINK_MISSING),
        ):
            if counts[fold]:
                columns = ("position", "times") if fold is Fold.SINK_REPEATED else ("position",)
                positions = exploded(compared, fold, columns)
                records = named(self._reader.at(positions.select("position"), counts[fold]), self._audit.shape)
                self._found(kind, self._audit.topic, located(records, positions))
        if counts[Fold.SINK_STRANGE]:
            self._remarks.unknown.append(
                f"{counts[Fold.SINK_STRANGE]:,} rows of the sink are of offsets that hold no record"
            )
        if counts[Fold.WAITING]:
            self._remarks.notes.append(f"{counts[Fold.WAITING]:,} records after the sink's newest are not in it yet")
        return counts[Fold.ABORTED]

    def _found_here(self, kind: str, frame: DataFrame) -> None:
        self._found(kind, self._audit.topic, frame)

    def _found(self, kind: str, topic: str, frame: DataFrame) -> None:
        self._deliver(FindingFrame(kind, topic, rows(frame, kind, topic)))


@contextlib.contextmanager
def by_value() -> Iterator[None]:
    """Workers get the fold's code with their tasks: they need numpy and pyarrow, and not this package."""
    modules = (audit_fold, audit_search)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # ships no types
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]  # as above
