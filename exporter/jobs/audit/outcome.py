"""From one run to its result and files, each replaced atomically."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.audit_results.result import AuditResult, Finding, TopicResult, dump_result
from exporter.jobs.audit.definition import Audit, AuditOutcome, NullId
from exporter.jobs.audit.findings import Findings, WhoWrote
from exporter.jobs.audit.job import Say, run
from exporter.jobs.audit.read import TopicAccess
from exporter.jobs.audit.report_page import page_of
from exporter.jobs.audit.source_compared import committed_by
from exporter.jobs.audit.tables import pinned, prepared_transactions
from exporter.jobs.report.html_page import render
from exporter.jobs.session import SessionError
from exporter.kafka.client import AskError
from exporter.kafka.log.record_batch import RecordBatch, batch_at
from exporter.kafka.requests.offsets import Isolation
from exporter.model import Fault, TopicPartition
from exporter.words import AuditVerdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVIDENCE_FILE = ".findings.parquet"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Results of one audit: ``name`` is that of its files and its label; ``folder`` None keeps nothing."""

    name: str
    kafka_cluster: str = ""
    folder: Path | None = None
    most_shown: int = 5


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A result with its page."""

    result: AuditResult
    notes: tuple[str, ...]
    html: str

    def write(self, folder: Path, name: str) -> None:
        """The result for the agent, and the page."""
        (folder / f"{name}.html").write_text(self.html, encoding="utf-8")
        (folder / f"{name}.json").write_text(dump_result(self.result) + "\n", encoding="utf-8")


def is_name(text: str) -> bool:
    """Return whether an audit may have this name, which its files have too."""
    return bool(_NAME.fullmatch(text)) and not text.startswith(".")


def audit_once(
    session: SparkSession, access: TopicAccess, audit: Audit, settings: AuditSettings, say: Say
) -> AuditReport:
    """Runs the audit, and replaces the files of its last run when it is done. Raises SessionError, AskError."""
    began = time.monotonic()
    doubts: list[str] = []
    if audit.source_group and not audit.source_topic:
        # Before the tables: they then have what was stored before these offsets were committed.
        due, doubts = committed_by(access, audit.source_group, audit.topic)
        audit = replace(audit, due=due)
    audit = audit.pinned(lambda table: pinned(session, table))
    notes = [note for table in audit.tables for note in prepared_transactions(session, table)]
    with unfinished(settings) as folder:
        file = None if folder is None else folder / f"{settings.name}{EVIDENCE_FILE}"
        findings = Findings(audit.topic, file, who_wrote(access), settings.most_shown)
        try:
            outcome = run(session, access, audit, findings.take, say)
        finally:
            findings.close()
        outcome = replace(outcome, unknown=(*outcome.unknown, *doubts), notes=(*outcome.notes, *notes))
        seconds = time.monotonic() - began
        report = report_of(audit, settings, outcome, findings.result(), time.time(), seconds)
        if folder is not None:
            report.write(folder, settings.name)
    return report


def who_wrote(access: TopicAccess) -> WhoWrote:
    """Look up producers. Those that cannot be read are left out of the evidence."""

    def ask(topic: str, places: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], RecordBatch]:
        deadline = access.deadline()
        try:
            metadata = access.client.metadata(deadline, [topic])
        except AskError:
            return {}
        found = {}
        for partition, offset in places:
            place = TopicPartition(topic, partition)
            at = batch_at(access.client, metadata, place, offset, Isolation.READ_UNCOMMITTED, deadline)
            if not isinstance(at, Fault) and at.batch is not None:
                found[partition, offset] = at.batch
        return found

    return ask


def report_of(
    audit: Audit,
    settings: AuditSettings,
    outcome: AuditOutcome,
    findings: tuple[Finding, ...],
    now: float,
    seconds: float,
) -> AuditReport:
    """The result, and the page of it: ``findings`` also when something is unknown; ``clean`` only when nothing is."""
    verdict = AuditVerdict.FINDINGS if findings else AuditVerdict.UNKNOWN if outcome.unknown else AuditVerdict.CLEAN
    offsets = {str(number): [span.start, span.end] for number, span in sorted(outcome.spans.items())}
    result = AuditResult(
        audit=settings.name,
        finished_at=now,
        verdict=verdict,
        topics={audit.topic: TopicResult(verdict, outcome.records, outcome.aborted)},
        findings=findings,
        records=outcome.records,
        aborted_records=outcome.aborted,
        checked=audit.checks,
        unknown=outcome.unknown,
        kafka_cluster=settings.kafka_cluster,
        more={
            "notes": list(outcome.notes),
            "settings": described(audit),
            "offsets": {audit.topic: offsets},
            "seconds": round(seconds, 1),
        },
    )
    return AuditReport(result, outcome.notes, render(page_of(result)))


def described(audit: Audit) -> dict[str, str]:
    """The audited topics and expressions, by flag, without secrets."""
    given = {
        **audit.expressions,
        "source.topic": audit.source_topic,
        "source.id": audit.source_id,
        "group": audit.source_group,
        "where": audit.where,
        "source.where": audit.source_where,
        "null_id": "" if audit.null_id is NullId.FAIL else audit.null_id,
        "format": "debezium" if audit.shape.envelope else "",
        "sparse": "yes" if audit.sparse else "",
        "sink": next((table.name for table in (audit.sink, audit.keyed and audit.keyed.table) if table), ""),
        **({} if audit.keyed is None else {**audit.keyed.expressions, "deleted": audit.deleted}),
        "outbox": audit.outbox.table.name if audit.outbox else "",
        "outbox.id": audit.outbox.id if audit.outbox else "",
        "outbox.where": audit.outbox.where if audit.outbox else "",
        "begin": audit.begin.text,
        "end": "" if audit.end is None else audit.end.text,
    }
    return {flag: text for flag, text in given.items() if text}


@contextmanager
def unfinished(settings: AuditSettings) -> Iterator[Path | None]:
    """A folder whose files replace those of the last run when the block ends without an error, the result last.

    Raises SessionError when it cannot be written to.
    """
    if settings.folder is None:
        yield None
        return
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{settings.name}-", dir=settings.folder))
    except OSError as error:
        raise SessionError(f"--output-dir {settings.folder}: {error.strerror}") from None
    try:
        yield partial
        for file in sorted(partial.iterdir(), key=lambda path: path.suffix == ".json"):
            file.replace(settings.folder / file.name)
    except OSError as error:
        raise SessionError(f"--output-dir {settings.folder}: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
