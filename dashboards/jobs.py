"""Spark Structured Streaming, and the audits of topics."""

from __future__ import annotations

from grafanalib import core

from exporter import catalogue
from exporter.dashboards import figures
from exporter.dashboards.board import JOBS, Dashboard, PanelRow, Variable
from exporter.dashboards.figures import WINDOW
from exporter.dashboards.panels import (
    ANY_IS_BAD,
    BLUE,
    GREEN,
    GREY,
    OF_THRESHOLD,
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
from exporter.dashboards.queries import age, gained, now, numbered, of_threshold, per_second, total
from exporter.dashboards.shared import TO_TOPIC

_QUERY = ('spark_application=~"$spark_application"', 'query=~"$query"')
_AUDIT = ('audit=~"$audit"', 'topic=~"$topic"')
_BY_QUERY, _BY_AUDIT = "kafka_cluster, spark_application, query", "kafka_cluster, audit, topic"
_QUERY_NAME = "{{kafka_cluster}} {{spark_application}} / {{query}}"
_QUERY_COLOURS = dict(zip(catalogue.SPARK_QUERY_STATES, (GREEN, BLUE, GREY, RED), strict=True))
_VERDICT_COLOURS = dict(zip(catalogue.AUDIT_VERDICTS, (GREEN, RED, PURPLE), strict=True))
_ERROR = 'reason!="stopped"'


def _progress() -> str:
    """How much of its threshold each query that has not ended has been without progress for."""
    over = " or ".join(
        now(catalogue.SPARK_QUERY_STATE, *_QUERY, f'state="{state}"') for state in ("terminated", "failed")
    )
    since = f"max by ({_BY_QUERY}) ({now(catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS, *_QUERY)})"
    silence = age(f"({since} unless on ({_BY_QUERY}) ({over}))")
    return of_threshold(
        f"max by ({_BY_QUERY}) ({silence})", catalogue.QUERY_THRESHOLD_SECONDS, "stalled_warning", *_QUERY
    )


def _overdue() -> str:
    ran = age(now(catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS, *_AUDIT))
    return of_threshold(ran, catalogue.AUDIT_THRESHOLD_SECONDS, "overdue_warning", _AUDIT[0])


def _queries() -> core.Panel:
    whole = 'phase="trigger_execution"'
    return table(
        "Which queries do not get on?",
        "Those that an error ended on top; a batch is uncommitted while it runs, and while a query is stuck or dead in"
        " it.",
        [
            f"max by ({_BY_QUERY}) ({age(now(catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS, *_QUERY))})",
            f"max by ({_BY_QUERY}) ({now(catalogue.SPARK_UNCOMMITTED_BATCHES, *_QUERY)})",
            total(now(catalogue.SPARK_SOURCE_LAG_OFFSETS, *_QUERY), _BY_QUERY),
            total(now(catalogue.SPARK_SOURCE_BLOCKED_OFFSETS, *_QUERY), _BY_QUERY),
            f"max by ({_BY_QUERY}) ({now(catalogue.SPARK_BATCH_DURATION_SECONDS, *_QUERY, whole)})",
            f"round({total(gained(catalogue.SPARK_QUERY_TERMINATIONS_TOTAL, '1h', *_QUERY, _ERROR), _BY_QUERY)})",
            f"max by ({_BY_QUERY}) ({_progress()})",
        ],
        [
            Column("spark_application", "Application"),
            Column("query", "Query", link=(JOBS, "query", "This query alone")),
            Column("Value #A", "Without progress", "s", width=150),
            Column("Value #G", "Of its threshold", "percentunit", steps=OF_THRESHOLD, width=130),
            Column("Value #B", "Uncommitted batches", "none", steps=((None, GREEN), (1, BLUE)), width=170),
            Column("Value #C", "Offsets behind", "short", width=130),
            Column("Value #D", "Withheld offsets", "short", steps=((None, GREEN), (1, YELLOW)), width=150),
            Column("Value #E", "Last batch took", "s", width=140),
            Column("Value #F", "Errors, 1 h", "none", steps=ANY_IS_BAD, width=110),
        ],
        sort=["Errors, 1 h", "Of its threshold"],
        none="no query is reported",
    )


def _states() -> core.Panel:
    state_of = numbered(catalogue.SPARK_QUERY_STATE, "state", catalogue.SPARK_QUERY_STATES, *_QUERY)
    return timeline(
        "What state was each query in?",
        "A band for each query; a gap where its driver fell silent.",
        Query(f"max by ({_BY_QUERY}) ({state_of})", _QUERY_NAME),
        [(index, state, _QUERY_COLOURS[state]) for index, state in enumerate(catalogue.SPARK_QUERY_STATES)],
    )


def _ends() -> core.Panel:
    ended = total(gained(catalogue.SPARK_QUERY_TERMINATIONS_TOTAL, WINDOW, *_QUERY), "kafka_cluster, query, reason")
    return lines(
        f"Why did queries end? ({WINDOW})",
        "stopped is on purpose; the runbook of KafkaEosSparkQueryTerminated has what to do for each other reason.",
        Query(f"round({ended}) > 0", "{{kafka_cluster}} {{query}}: {{reason}}"),
        "none",
    )


def _phases() -> core.Panel:
    of_last = now(catalogue.SPARK_BATCH_DURATION_SECONDS, *_QUERY, 'phase!="trigger_execution"')
    return lines(
        "Where does the time of the last batch go?",
        "Of the slowest query: add_batch is the work and the sink, latest_offset and get_batch are Kafka, wal_commit"
        " and commit_offsets the checkpoint.",
        Query(f"max by (phase) ({of_last})", "{{phase}}"),
        "s",
        stacked=True,
    )


def _audits() -> core.Panel:
    verdicts = f"max by ({_BY_AUDIT}, verdict) ({now(catalogue.AUDIT_VERDICT, *_AUDIT)})"
    facts = (
        f"max by ({_BY_AUDIT}) ({age(now(catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS, *_AUDIT))})",
        total(now(catalogue.AUDIT_FINDINGS, *_AUDIT), _BY_AUDIT),
        f"max by ({_BY_AUDIT}) ({now(catalogue.AUDIT_RECORDS, *_AUDIT)})",
        f"max by ({_BY_AUDIT}) ({_overdue()})",
    )
    return table(
        "What did the last run of each audit say?",
        "The run's own report has the evidence, or why it could not tell.",
        [f"{verdicts} * on ({_BY_AUDIT}) group_left () {fact}" for fact in facts],
        [
            Column("audit", "Audit"),
            Column("topic", "Topic", link=TO_TOPIC),
            Column("verdict", "Verdict", colours=_VERDICT_COLOURS, width=90),
            Column("Value #B", "Findings", "short", width=90),
            Column("Value #C", "Records", "short", width=90),
            Column("Value #A", "Ended, ago", "s", width=100),
            Column("Value #D", "Of its threshold", "percentunit", steps=OF_THRESHOLD, width=130),
        ],
        sort=["Findings"],
        none="no audit has run",
    )


_FIGURES = (
    figures.QUERIES_FAILED.on(*_QUERY),
    stat(
        "Longest without progress, of its threshold",
        "Of the queries that have not ended: 1 is where it becomes a ticket.",
        f"max({_progress()})",
        "percentunit",
        OF_THRESHOLD,
        none="no query",
    ),
    figures.QUERIES_STARVED.on(*_QUERY),
    figures.WITH_FINDINGS.on(*_AUDIT),
    stat(
        "Oldest audit, of its threshold",
        "How much of the time after which an audit is overdue has passed since it ran, of the one where most has.",
        f"max({_overdue()})",
        "percentunit",
        OF_THRESHOLD,
        none="no audit",
    ),
)
_BATCHES = lines(
    "How many batches and rows do queries complete?",
    "Per second; transaction markers use offsets and are no rows.",
    [
        Query(total(per_second(metric, *_QUERY), _BY_QUERY), f"{_QUERY_NAME} {word}")
        for metric, word in ((catalogue.SPARK_BATCHES_TOTAL, "batches"), (catalogue.SPARK_INPUT_ROWS_TOTAL, "rows"))
    ],
    "ops",
    log=True,
)
_KINDS = table(
    "Which kinds of findings?",
    "docs/audit.md has what each kind means, in the topic, of its markers, or in a sink against its topic.",
    [f"{now(catalogue.AUDIT_FINDINGS, *_AUDIT)} > 0"],
    [
        Column("kind", "Kind", width=140),
        Column("audit", "Audit"),
        Column("topic", "Topic", link=TO_TOPIC),
        Column("Value #A", "Findings", "short", steps=((None, RED),), width=110),
    ],
    sort=["Findings"],
    none="none was found, or no audit has run",
)


def board() -> Dashboard:
    """Spark by application and query, audits by name and topic."""
    return Dashboard(
        uid=JOBS,
        title="Spark and audits",
        description="Which Spark queries get on, what holds them up, and what the audits of topics say.",
        variables=(
            Variable("spark_application", "Spark application", catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS),
            Variable("query", "Query", catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS),
            Variable("audit", "Audit", catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS),
            Variable("topic", "Audited topic", catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS),
        ),
        rows=(
            PanelRow("Do queries get on, and are audits clean?", (_FIGURES,)),
            PanelRow(
                "Which queries, and what do they wait for?",
                ((_queries(),), (_states(), _ends()), (_BATCHES, _phases())),
            ),
            PanelRow("What did audits find?", ((_audits(), _KINDS),)),
        ),
    )
