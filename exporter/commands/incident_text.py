"""The report of an incident as Markdown, and as a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from exporter.bounds.text import printable
from exporter.core.durations import format_age
from exporter.journal.beside_history import HistoryApplicationDocument, HistoryDocument
from exporter.journal.documents import EventDocument
from exporter.journal.incident import BlockedDocument, IncidentDocument
from exporter.lso.next_step import clock_time

if TYPE_CHECKING:
    from exporter.jobs.report.html_page import ReportPage

DAY = 86_400.0
MOST_ROWS = 500
"""Rows of one table. The JSON has all."""
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")
SAME = "History and journals have the same numbers of what timed out and what was fenced."
NOTHING_UNKNOWN = "Nothing that the journal knows of."
BLOCKED = ("partition", "stalled", "for", "records", "held by", "application", "ended")
BY_HISTORY = "How transactions ended, by the history"
HISTORY = ("application", "committed", "aborted", "timed out", "fenced", "longest open", "by the journals")
TIMELINE = ("when", "kind", "what", "for")


def markdown(report: IncidentDocument) -> Iterator[str]:
    """Yield the lines of the report. Names of the cluster are escaped."""
    yield f"# Incident on {_escaped(report['cluster'])}: {_span(report)}"
    yield ""
    if report["applications"]:
        yield f"Of {_escaped(', '.join(report['applications']))}, and of what no application is known of.\n"
    for sentence in report["summary"]:
        yield f"- {_escaped(sentence)}"
    yield from _section("Who was blocked", BLOCKED, [_blocked(stall, report) for stall in report["blocked"]])
    yield "\n## How it ended\n"
    for how, number in sorted(report["ends"].items()):
        yield f"- {_escaped(how.replace('_', ' '))}: {number}"
    if not report["ends"]:
        yield "No stall ended in this time."
    yield from _section("Timeline", TIMELINE, [_event(event, report) for event in report["timeline"]])
    if (history := report["history"]) is not None:
        yield from _section(BY_HISTORY, HISTORY, [_of_history(row) for row in history["applications"]])
        yield ""
        for sentence in _beside(history):
            yield f"- {_escaped(sentence)}"
    yield "\n## What is not known\n"
    for sentence in report["unknown"] or [NOTHING_UNKNOWN]:
        yield f"- {_escaped(sentence)}"
    for gap in report["gaps"]:
        begin, end = _time(gap["begin_timestamp"], report), _time(gap["end_timestamp"], report)
        yield f"- Gap from {begin} to {end}: {_escaped(gap['why'])}"
    yield f"\nBy the journals of {_escaped(', '.join(report['agents'])) or 'no agent'}."


def report_page(report: IncidentDocument) -> ReportPage:
    """Return the report as a page."""
    from exporter.jobs.report.html_page import Note, PageSection, ReportPage, Table  # noqa: PLC0415 -- templates

    def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table | Note:
        more = f"{len(rows) - MOST_ROWS} more: --format json has all." if len(rows) > MOST_ROWS else ""
        return Table(columns, rows[:MOST_ROWS], more=more) if rows else Note("None.")

    history = report["history"]
    rows = [_of_history(row) for row in history["applications"]] if history is not None else []
    gaps = [
        (_time(gap["begin_timestamp"], report), _time(gap["end_timestamp"], report), gap["why"])
        for gap in report["gaps"]
    ]
    ends = [(how.replace("_", " "), str(number)) for how, number in sorted(report["ends"].items())]
    level = "bad" if report["blocked"] else "blind" if report["unknown"] else "good"
    return ReportPage(
        title=f"Incident on {report['cluster']}",
        level=level,
        verdict=report["summary"][0],
        details=report["summary"][1:],
        facts=[
            ("cluster", report["cluster"]),
            ("time", _span(report)),
            ("applications", ", ".join(report["applications"]) or "all"),
            ("by the journals of", ", ".join(report["agents"]) or "no agent"),
        ],
        sections=[
            PageSection("Who was blocked", [table(BLOCKED, [_blocked(stall, report) for stall in report["blocked"]])]),
            PageSection("How it ended", [table(("how", "stalls"), ends)]),
            PageSection("Timeline", [table(TIMELINE, [_event(event, report) for event in report["timeline"]])]),
            *(
                [PageSection(BY_HISTORY, [table(HISTORY, rows), *map(Note, _beside(history))])]
                if history is not None
                else []
            ),
            PageSection(
                "What is not known",
                [
                    *map(Note, report["unknown"] or [NOTHING_UNKNOWN]),
                    *([table(("from", "to", "why"), gaps)] if gaps else []),
                ],
            ),
        ],
        footer=f"Made from the journals{'' if history is None else ' and the history'}: kafka-eos-exporter incident.",
    )


def _section(heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"\n## {heading}\n"
    if not rows:
        yield "None."
        return
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows[:MOST_ROWS]:
        yield f"| {' | '.join(map(_escaped, row))} |"
    if len(rows) > MOST_ROWS:
        yield f"\n{len(rows) - MOST_ROWS} more: `--format json` has all."


def _blocked(stall: BlockedDocument, report: IncidentDocument) -> tuple[str, ...]:
    ended = "no end is told"
    if stall["ended_timestamp"] is not None:
        ended = f"{_time(stall['ended_timestamp'], report)}, {(stall['how'] or 'unknown').replace('_', ' ')}"
        ended += "" if stall["end_seen"] else " (not seen; this or earlier)"
    holder = stall["transactional_id"] or (
        "" if stall["producer_id"] is None else f"producer id {stall['producer_id']}"
    )
    kind = f" ({stall['holder']})" if stall["holder"] else ""
    groups = f"; groups that waited: {stall['waiting_groups']}" if stall["waiting_groups"] else ""
    return (
        f"{stall['topic']}-{stall['partition']}",
        _time(stall["began_timestamp"], report),
        format_age(stall["seconds"]),
        f"{stall['records']}{'' if stall['ended_timestamp'] else ' or more'}",
        f"{holder or 'not known'}{kind}{groups}",
        stall["application"] or "not known",
        ended,
    )


def _event(event: EventDocument, report: IncidentDocument) -> tuple[str, ...]:
    times = f" ({event['count']} times)" if event["count"] > 1 else ""
    duration = event["duration_seconds"]
    return (
        _time(event["timestamp"], report),
        f"{event['kind'].replace('_', ' ')}{times}",
        event["what"],
        "" if duration is None else format_age(duration),
    )


def _of_history(row: HistoryApplicationDocument) -> tuple[str, ...]:
    longest = row["longest_seconds"]
    return (
        row["application"] or "not known",
        *(str(row[outcome]) for outcome in ("committed", "aborted", "timed_out", "fenced")),
        "not known" if longest is None else format_age(longest),
        f"{row['journal_timed_out']} timed out, {row['journal_fenced']} fenced",
    )


def _beside(history: HistoryDocument) -> list[str]:
    """How far the history goes, and where it and the journals differ."""
    written = f"The history of {history['cluster']} was written until {history['written_until'] or 'an unknown time'}."
    caveats = [f"{text[:1].upper()}{text[1:]}." for text in history["caveats"]]
    return [written, *(history["differences"] or [SAME]), *caveats]


def _time(instant: float, report: IncidentDocument) -> str:
    """The time of the day of an instant within a report of less than a day, whose heading has the day."""
    begin, end = report["begin_timestamp"], report["end_timestamp"]
    text = clock_time(instant)
    return text.partition(" ")[2] if begin <= instant <= end < begin + DAY else text


def _span(report: IncidentDocument) -> str:
    return f"{clock_time(report['begin_timestamp'])} to {clock_time(report['end_timestamp'])}"


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", printable(text))
