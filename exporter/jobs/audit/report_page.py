"""An audit's result as an HTML page, and its texts on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from exporter import __version__
from exporter.audit_results.result import AuditResult, Finding
from exporter.jobs.report.html_page import Note, PageSection, ReportPage, Table
from exporter.words import AuditVerdict

LEVELS = {AuditVerdict.CLEAN: "good", AuditVerdict.FINDINGS: "bad", AuditVerdict.UNKNOWN: "blind"}

MEANING = {
    "duplicate": "the same id, or the same number of a key, is there more than once",
    "gap": "numbers of a key are missing between two that are there",
    "reordered": "a record is after a later number of its key in the same partition",
    "aborted_visible": "a record of an aborted transaction was taken as committed downstream",
    "missing": "a committed record did not arrive downstream",
    "repeated": "the sink stored a record more than once",
    "ahead": "downstream has a record that is not decided yet: the last stable offset is before it",
    "stale": "the sink has an older record of the key than the topic",
    "phantom": "the sink has a row that no committed record explains",
}
"""The meaning of each kind of finding, in one line; docs/audit.md has the names of the literature."""

_NOUNS = {
    "duplicate": ("duplicate", "duplicates"),
    "gap": ("gap", "gaps"),
    "reordered": ("record out of order", "records out of order"),
    "aborted_visible": ("aborted record taken as committed", "aborted records taken as committed"),
    "missing": ("missing record", "missing records"),
    "repeated": ("repeated record", "repeated records"),
    "ahead": ("record ahead of the LSO", "records ahead of the LSO"),
    "stale": ("stale row", "stale rows"),
    "phantom": ("phantom row", "phantom rows"),
}

NUMBERS = frozenset(
    {"partition", "offset", "times", "missing", "sequence", "before_sequence", "producer_id", "producer_epoch",
     "first_partition", "first_offset"}
)  # fmt: skip


def counted(finding: Finding) -> str:
    """A number and its noun, in singular or plural."""
    one, many = _NOUNS[finding.kind]
    return f"{finding.count:,} {one if finding.count == 1 else many}"


def sentence(result: AuditResult) -> str:
    """The verdict in one line."""
    topics = ", ".join(result.topics)
    if result.verdict is AuditVerdict.FINDINGS:
        return f"{topics}: {', '.join(map(counted, result.findings))}"
    if result.verdict is AuditVerdict.UNKNOWN:
        return f"{topics}: not known"
    return f"{topics}: clean"


def aborted(result: AuditResult) -> str:
    """The cost of aborts, in words."""
    if result.aborted_records is None:
        return "an unknown number"
    records, lost = result.records or 0, result.aborted_records
    share = f" ({100 * lost / (records + lost):.2g} % of all that was written)" if lost else ""
    return f"{lost:,}{share}"


def columns_of(finding: Finding) -> tuple[str, ...]:
    """The names in the evidence of a finding, in their order."""
    return tuple(dict.fromkeys(name for example in finding.examples for name in example))


def cell(example: Mapping[str, Any], column: str) -> str:
    """One value of an example as it is shown."""
    value = example.get(column)
    return "" if value is None else str(value)


def page_of(result: AuditResult) -> ReportPage:
    """The report."""
    ended = datetime.fromtimestamp(result.finished_at, UTC)
    facts = [
        ("audit", result.audit),
        ("records", f"{result.records or 0:,}"),
        ("aborted records", aborted(result)),
        ("looked for", ", ".join(result.checked) or "nothing"),
        *result.more["settings"].items(),
        ("ended", ended.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")),
    ]
    found = [PageSection(counted(finding), _blocks(finding)) for finding in result.findings]
    kinds = {finding.kind for finding in result.findings}
    others = [(kind, MEANING[kind]) for kind in result.checked if kind not in kinds]
    none = [PageSection("Looked for and not found", [Table(("kind", "meaning"), others)])] if others else []
    covered = [_covered(topic, parts) for topic, parts in result.more.get("offsets", {}).items()]
    return ReportPage(
        title="Exactly-once audit",
        level=LEVELS[result.verdict],
        verdict=sentence(result),
        details=[*result.unknown, *result.more["notes"]],
        facts=facts,
        sections=[*found, *none, PageSection("What was read", covered)],
        footer=f"kafka-eos-exporter {__version__}",
    )


def _blocks(finding: Finding) -> list[Note | Table]:
    columns = columns_of(finding)
    rows = [[cell(example, column) for column in columns] for example in finding.examples]
    more = finding.count - len(finding.examples)
    text = f"and {more:,} more: --output-dir keeps all, in *.findings.parquet" if more > 0 else ""
    numbers = NUMBERS & set(columns)
    return [
        Note(f"{MEANING[finding.kind][0].upper()}{MEANING[finding.kind][1:]}."),
        Table(columns, rows, frozenset(numbers), ["bad"] * len(rows), text),
    ]


def _covered(topic: str, parts: Mapping[str, Sequence[int]]) -> Table:
    rows = [(topic, number, f"{start:,}", f"{end:,}", f"{end - start:,}") for number, (start, end) in parts.items()]
    columns = ("topic", "partition", "from offset", "to before", "offsets")
    return Table(columns, rows, frozenset({"partition", "from offset", "to before", "offsets"}))
