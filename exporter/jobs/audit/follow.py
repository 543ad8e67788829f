"""An audit that goes on: each batch of new records is compared with those before them, which tables
of state keep.

``foreachBatch`` writes three tables below the state's folder, a partition for each batch, which a batch that is run
again replaces::

    seen/batch=N        id, or key and number, of each record, and its place
    findings/batch=N    what the batch showed, as rows of ``EVIDENCE``
    counts/batch=N      records, and those without an id or a number
    _checkpoint         Spark's position in the topic
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from exporter.jobs.audit.columns import chosen_by, identity, named, sequence_number, uses_headers
from exporter.jobs.audit.definition import Audit, AuditOutcome, FindingFrame, NullId, Remarks
from exporter.jobs.audit.evidence import EVIDENCE, duplicates, rows, sequence_findings
from exporter.jobs.audit.findings import Findings
from exporter.jobs.audit.job import check_expressions
from exporter.jobs.audit.offset_range import Bound, cover
from exporter.jobs.audit.outcome import EVIDENCE_FILE, AuditReport, AuditSettings, report_of, unfinished, who_wrote
from exporter.jobs.audit.read import Reader, TopicAccess
from exporter.jobs.lakes import folder_url
from exporter.jobs.session import SessionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_SEEN = {
    "id": "string", "key": "string", "sequence": "bigint", "timestamp": "timestamp", "partition": "int",
    "offset": "bigint", "key_bytes": "binary",
}  # fmt: skip
_COUNTS = {"records": "bigint", "blank": "bigint"}
_PLACE = ["topic", "kind", "partition", "offset"]


@dataclass(frozen=True)
class FollowedAudit:
    """An audit by ``id``, or by ``key`` and ``sequence``, of one topic. ``state`` is a folder for it alone, on any file
    system of Spark's. Records that are further apart than ``window_seconds`` are not compared.
    """

    session: SparkSession
    access: TopicAccess
    audit: Audit
    settings: AuditSettings
    state: str
    window_seconds: float

    def start(self, trigger: Mapping[str, Any], deliver: Callable[[AuditReport], None]) -> StreamingQuery:
        """Begin, or go on from the checkpoint; ``deliver`` gets the result after each batch. Raises AskError,
        SessionError and pyspark's errors.
        """
        audit = self.audit
        if audit.source_topic or audit.tables or audit.end is not None or not (audit.id or audit.sequence):
            raise SessionError("--follow is for id, or key with sequence, without end, source, sink and outbox")
        begin = Bound("earliest", earliest=True) if audit.begin.whole else audit.begin
        headers = uses_headers({**audit.expressions, **audit.conditions})
        reader = Reader(self.session, self.access, audit.topic, headers)
        check_expressions(reader, audit)
        spans = cover(self.access.client, audit.topic, begin, None, self.access.deadline()).spans
        options = {
            **reader.options(),
            "subscribe": audit.topic,
            "startingOffsets": json.dumps({audit.topic: {str(span.partition): span.start for span in spans.values()}}),
        }
        stream = self.session.readStream.format("kafka").options(**options).load()
        writer = stream.writeStream.queryName(f"audit-{self.settings.name}").foreachBatch(
            lambda raw, number: deliver(self.batch(raw, number))
        )
        return writer.option("checkpointLocation", f"{self._folder}/_checkpoint").trigger(**trigger).start()

    @property
    def _folder(self) -> str:
        return folder_url(self.state)

    def batch(self, raw: DataFrame, number: int) -> AuditReport:
        """Write what a batch shows, and return the result of all batches so far."""
        began = time.monotonic()
        records = _evaluated(named(raw, self.audit.shape), self.audit).persist()
        counts = records.agg(f.count("*").alias("records"), f.count_if("blank").alias("blank"))
        self._write(counts, "counts", number)
        self._write(records.where("chosen AND NOT blank").select(*_SEEN), "seen", number)
        records.unpersist()
        self._write(self._found(number), "findings", number)
        return self._report(time.monotonic() - began)

    def _found(self, number: int) -> DataFrame:
        """What the records of this batch show, together with those before them, and earlier batches did not."""
        audit, seen = self.audit, self._read("seen", _SEEN)
        new = seen.where(f.col("batch") == number)
        [[first]] = new.agg(f.unix_millis(f.min("timestamp"))).collect()
        since = f.timestamp_millis(f.lit((first or 0) - round(self.window_seconds * 1000)))
        before = seen.where((f.col("batch") < number) & (f.col("timestamp") >= since))
        found = []
        if audit.id:
            found.append(("duplicate", duplicates(_with_earlier(new, before, "id"), f.col("id"))))
        if audit.sequence:
            by_key = _with_earlier(new, before, "key")
            found += [
                (kind, frame)
                for kind, frame in sequence_findings(by_key, f.col("key"), f.col("sequence")).items()
                # A repeated number of a key is reported by id where there is one: never twice.
                if not (kind == "gap" and audit.sparse) and not (kind == "duplicate" and audit.id)
            ]
        whole = reduce(DataFrame.unionAll, [rows(frame, kind, audit.topic) for kind, frame in found])
        if not number:
            return whole
        known = self._read("findings", EVIDENCE).where(f.col("batch") < number)
        return whole.join(known.select(*_PLACE), _PLACE, "left_anti")

    def _report(self, seconds: float) -> AuditReport:
        """The result of all batches."""
        audit, settings, remarks = self.audit, self.settings, Remarks()
        [[records, blank]] = self._read("counts", _COUNTS).agg(f.sum("records"), f.sum("blank")).collect()
        if blank and audit.null_id is not NullId.SKIP:
            text = f"id, key or sequence gives null for {blank:,} records"
            remarks.add(text, known=audit.null_id is NullId.COUNT)
        found = self._read("findings", EVIDENCE)
        kinds = [row.kind for row in found.select("kind").distinct().collect()]
        with unfinished(settings) as folder:
            file = None if folder is None else folder / f"{settings.name}{EVIDENCE_FILE}"
            findings = Findings(audit.topic, file, who_wrote(self.access), settings.most_shown)
            for kind in kinds:
                of_kind = found.where(f.col("kind") == kind).select(*EVIDENCE)
                findings.take(FindingFrame(kind, audit.topic, of_kind))
            findings.close()
            outcome = AuditOutcome(records or 0, None, {}, tuple(remarks.unknown), tuple(remarks.notes))
            report = report_of(audit, settings, outcome, findings.result(), time.time(), seconds)
            if folder is not None:
                report.write(folder, settings.name)
        return report

    def _write(self, frame: DataFrame, table: str, number: int) -> None:
        frame.write.mode("overwrite").parquet(f"{self._folder}/{table}/batch={number}")

    def _read(self, table: str, columns: Mapping[str, str]) -> DataFrame:
        schema = ", ".join(f"`{name}` {kind}" for name, kind in {**columns, "batch": "bigint"}.items())
        return self.session.read.schema(schema).parquet(f"{self._folder}/{table}")


def _evaluated(frame: DataFrame, audit: Audit) -> DataFrame:
    """The columns of ``_SEEN``; whether a record is ``chosen`` by ``where``, and ``blank``: an expression is null."""
    values = {name: identity(f.expr(text)) for name in ("id", "key") if (text := getattr(audit, name))}
    if audit.sequence:
        values["sequence"] = sequence_number(f.expr(audit.sequence))
    chosen = chosen_by(audit.shape, audit.where)
    places = [f.col(name) for name in ("timestamp", "partition", "offset", "key_bytes")]
    given = [values.get(name, f.lit(None)).cast(_SEEN[name]).alias(name) for name in ("id", "key", "sequence")]
    kept = f.lit(True) if chosen is None else f.coalesce(chosen, f.lit(False))
    evaluated = frame.select(*given, *places, kept.alias("chosen"))
    return evaluated.withColumn("blank", f.expr(f"chosen AND ({' OR '.join(f'{name} IS NULL' for name in values)})"))


def _with_earlier(new: DataFrame, before: DataFrame, column: str) -> DataFrame:
    """New records, and those before them with one of their values of this column."""
    return new.unionAll(before.join(new.select(column).distinct(), column, "left_semi").select(*new.columns))
