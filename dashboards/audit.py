"""Audits: what the last run of each says of its topics."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    AUDIT_FINDINGS,
    AUDIT_LAST_RUN_TIMESTAMP_SECONDS,
    AUDIT_RECORDS,
    AUDIT_THRESHOLD_SECONDS,
    AUDIT_VERDICT,
    AUDIT_VERDICTS,
)
from exporter.dashboards.board import Board, Line, PanelRow, Variable
from exporter.dashboards.engines import topics_of, topics_with_findings
from exporter.dashboards.panels import (
    GREEN,
    NEUTRAL,
    PURPLE,
    RED,
    YELLOW,
    Column,
    Query,
    lines,
    stat,
    table,
    timeline,
)
from exporter.dashboards.queries import age, now, numbered, of_threshold, total
from exporter.dashboards.shared import AUDIT, OF_THRESHOLD, TO_TOPIC

_OF = ('audit=~"$audit"', 'topic=~"$topic"')
_BY = "kafka_cluster, audit, topic"
_NAME = "{{kafka_cluster}} {{audit}} / {{topic}}"
_COLOURS = dict(zip(AUDIT_VERDICTS, (GREEN, RED, PURPLE), strict=True))


def board() -> Board:
    """Audits by name and topic."""
    return Board(
        uid=AUDIT,
        title="Kafka EOS / Audit",
        description="What the audits of topics found: duplicates, gaps, aborted records that were read, and sinks that "
        "differ from their topics.",
        variables=(
            Variable("audit", "Audit", AUDIT_LAST_RUN_TIMESTAMP_SECONDS),
            Variable("topic", "Topic", AUDIT_LAST_RUN_TIMESTAMP_SECONDS),
        ),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow("Audits", (Line(7, (_audits(), _kinds()), (14, 10)),)),
            PanelRow("Over time", (Line(8, (_verdicts(), _findings())), Line(7, (_records(), _ages())))),
        ),
        since="now-7d",
    )


def _overdue() -> str:
    ran = age(now(AUDIT_LAST_RUN_TIMESTAMP_SECONDS, *_OF))
    return of_threshold(ran, AUDIT_THRESHOLD_SECONDS, "overdue_warning", 'audit=~"$audit"')


def _now() -> tuple[core.Panel, ...]:
    return (
        topics_with_findings(*_OF),
        stat(
            "Topics not known",
            "Topics whose last audit could not tell; its report says why. Not the same as clean.",
            topics_of("unknown", *_OF),
            steps=((None, GREEN), (1, PURPLE)),
            none="no audit",
        ),
        stat(
            "Clean topics",
            "Topics whose last audit found nothing.",
            topics_of("clean", *_OF),
            "none",
            ((None, YELLOW), (1, GREEN)),
            none="no audit",
        ),
        stat(
            "Oldest last run, of its threshold",
            "How much of the time after which an audit is overdue has passed since it ran, of the one where most has.",
            f"max({_overdue()})",
            "percentunit",
            OF_THRESHOLD,
            none="no audit",
        ),
        stat(
            "Records looked at",
            "By the last runs of these audits together.",
            total(now(AUDIT_RECORDS, *_OF)),
            steps=NEUTRAL,
            none="no audit",
        ),
    )


def _audits() -> core.Panel:
    said = f"max by ({_BY}, verdict) ({now(AUDIT_VERDICT, *_OF)})"
    facts = (
        f"max by ({_BY}) ({age(now(AUDIT_LAST_RUN_TIMESTAMP_SECONDS, *_OF))})",
        total(now(AUDIT_FINDINGS, *_OF), _BY),
        f"max by ({_BY}) ({now(AUDIT_RECORDS, *_OF)})",
        f"max by ({_BY}) ({_overdue()})",
    )
    return table(
        "Last run of each audit",
        "Findings are counted over all kinds; the run's own report has the evidence, or why it could not tell.",
        [f"{said} * on ({_BY}) group_left () {fact}" for fact in facts],
        [
            Column("audit", "Audit"),
            Column("topic", "Topic", link=TO_TOPIC),
            Column("verdict", "Verdict", colours=_COLOURS, width=110),
            Column("Value #B", "Findings", "short", width=110),
            Column("Value #C", "Records", "short", width=120),
            Column("Value #A", "Ended, ago", "s", width=130),
            Column("Value #D", "Of its threshold", "percentunit", steps=OF_THRESHOLD, width=130),
        ],
        sort=["Findings"],
        none="no audit has run",
    )


def _kinds() -> core.Panel:
    return table(
        "Findings by kind",
        "duplicate, gap, reordered: in the topic. torn_commit, torn_abort: it has another marker than was decided. "
        "aborted_visible: a record that was rolled back and that a reader takes for good. missing, repeated, ahead, "
        "stale, phantom: in a sink against its topic.",
        [f"{now(AUDIT_FINDINGS, *_OF)} > 0"],
        [
            Column("kind", "Kind", width=140),
            Column("audit", "Audit"),
            Column("topic", "Topic", link=TO_TOPIC),
            Column("Value #A", "Findings", "short", steps=((None, RED),), width=110),
        ],
        sort=["Findings"],
        none="none was found, or no audit has run",
    )


def _verdicts() -> core.Panel:
    of = numbered(AUDIT_VERDICT, "verdict", AUDIT_VERDICTS, *_OF)
    return timeline(
        "Verdict of each audit",
        "A band for each audit and topic.",
        Query(f"max by ({_BY}) ({of})", _NAME),
        states=[(index, verdict, _COLOURS[verdict]) for index, verdict in enumerate(AUDIT_VERDICTS)],
    )


def _findings() -> core.Panel:
    return lines(
        "Findings of the last run",
        "By kind; a line that rises run by run is still going wrong.",
        Query(f"max by ({_BY}, kind) ({now(AUDIT_FINDINGS, *_OF)}) > 0", _NAME + " {{kind}}"),
    )


def _records() -> core.Panel:
    return lines(
        "Records by audit",
        "That the last run of each looked at.",
        Query(f"max by ({_BY}) ({now(AUDIT_RECORDS, *_OF)})", _NAME),
    )


def _ages() -> core.Panel:
    return lines(
        "Age of the last run",
        "A saw: each tooth is a run. A tooth that goes on growing is an audit that does not run any more.",
        Query(f"max by ({_BY}) ({age(now(AUDIT_LAST_RUN_TIMESTAMP_SECONDS, *_OF))})", _NAME),
        "s",
    )
