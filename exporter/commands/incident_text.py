"""The report of an incident as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from exporter.bounds.text import printable
from exporter.core.durations import format_age
from exporter.journal.documents import EventDocument
from exporter.journal.incident import BlockedDocument, IncidentDocument
from exporter.lso.next_step import clock_time

DAY = 86_400.0
MOST_ROWS = 500
"""Rows of one table. The JSON has all."""
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")
NOTHING_UNKNOWN = "Nothing that the journal knows of."
BLOCKED = ("partition", "stalled", "for", "records", "held by", "application", "ended")
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
    yield "\n## What is not known\n"
    for sentence in report["unknown"] or [NOTHING_UNKNOWN]:
        yield f"- {_escaped(sentence)}"
    for gap in report["gaps"]:
        begin, end = _time(gap["begin_timestamp"], report), _time(gap["end_timestamp"], report)
        yield f"- Gap from {begin} to {end}: {_escaped(gap['why'])}"
    yield f"\nBy the journals of {_escaped(', '.join(report['agents'])) or 'no agent'}."


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


def _time(instant: float, report: IncidentDocument) -> str:
    """The time of the day of an instant within a report of less than a day, whose heading has the day."""
    begin, end = report["begin_timestamp"], report["end_timestamp"]
    text = clock_time(instant)
    return text.partition(" ")[2] if begin <= instant <= end < begin + DAY else text


def _span(report: IncidentDocument) -> str:
    return f"{clock_time(report['begin_timestamp'])} to {clock_time(report['end_timestamp'])}"


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", printable(text))
