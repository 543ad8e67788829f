"""Spark Structured Streaming: which queries get on, and what holds up those that do not."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    QUERY_THRESHOLD_SECONDS,
    SPARK_BATCH_DURATION_SECONDS,
    SPARK_BATCHES_TOTAL,
    SPARK_INPUT_ROWS_TOTAL,
    SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS,
    SPARK_QUERY_STATE,
    SPARK_QUERY_STATES,
    SPARK_QUERY_TERMINATIONS_TOTAL,
    SPARK_SOURCE_BLOCKED_OFFSETS,
    SPARK_SOURCE_LAG_OFFSETS,
    SPARK_UNCOMMITTED_BATCHES,
)
from exporter.dashboards.board import Board, Line, PanelRow, Variable
from exporter.dashboards.engines import failed_queries, starved_queries
from exporter.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    NEUTRAL,
    ORANGE,
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
from exporter.dashboards.shared import OF_THRESHOLD, SPARK, WINDOW

_OF = ('spark_application=~"$spark_application"', 'query=~"$query"')
_BY = "kafka_cluster, spark_application, query"
_NAME = "{{kafka_cluster}} {{spark_application}} / {{query}}"
_COLOURS = dict(zip(SPARK_QUERY_STATES, (GREEN, BLUE, GREY, RED), strict=True))
_WHOLE = 'phase="trigger_execution"'
_ERROR = 'reason!="stopped"'


def board() -> Board:
    """Spark by application and query."""
    return Board(
        uid=SPARK,
        title="Kafka EOS / Spark",
        description="Spark Structured Streaming: which queries get on, how far they are behind, what holds them up.",
        variables=(
            Variable("spark_application", "Spark application", SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS),
            Variable("query", "Query", SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS),
        ),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow(
                "Which queries",
                (Line(6, (_causes(),)), Line(7, (_queries(),)), Line(8, (_states(), _ends()), (14, 10))),
            ),
            PanelRow("What they wait for", (Line(8, (_lag(), _blocked())),)),
            PanelRow("Batches", (Line(8, (_batches(), _rows(), _phases())),)),
        ),
    )


def _silence() -> str:
    """Seconds without progress of each query that has not ended."""
    over = " or ".join(now(SPARK_QUERY_STATE, *_OF, f'state="{state}"') for state in ("terminated", "failed"))
    since = f"max by ({_BY}) ({now(SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS, *_OF)})"
    return f"time() - ({since} unless on ({_BY}) ({over}))"


def _of_threshold(silence: str) -> str:
    by = f"max by ({_BY}) ({silence})"
    return of_threshold(by, QUERY_THRESHOLD_SECONDS, "stalled_warning", *_OF)


def _now() -> tuple[core.Panel, ...]:
    return (
        failed_queries(*_OF),
        stat(
            f"Ended by errors, {WINDOW}",
            "Times that queries ended by an error; one that is restarted and ends again counts again.",
            f"round({total(gained(SPARK_QUERY_TERMINATIONS_TOTAL, WINDOW, *_OF, _ERROR))})",
            steps=((None, GREEN), (1, ORANGE), (3, RED)),
        ),
        stat(
            "Longest without progress, of its threshold",
            "Queries that have not ended, with neither a completed batch nor an idle event reported, as a share"
            " of the time after which that is a ticket.",
            f"max({_of_threshold(_silence())})",
            "percentunit",
            OF_THRESHOLD,
            none="no query",
        ),
        starved_queries(*_OF),
        stat(
            "Offsets behind",
            "Between what the queries completed and the high watermarks of their topics.",
            total(now(SPARK_SOURCE_LAG_OFFSETS, *_OF)),
            steps=NEUTRAL,
        ),
        stat(
            "Batches per second",
            "Completed by all of these queries.",
            total(per_second(SPARK_BATCHES_TOTAL, *_OF)),
            "ops",
            NEUTRAL,
        ),
    )


def _causes() -> core.Panel:
    ended = total(gained(SPARK_QUERY_TERMINATIONS_TOTAL, "1h", *_OF, _ERROR), f"{_BY}, reason")
    return table(
        "Queries that an error ended in the last hour, by cause",
        "The exception is on the agent's status page and in the driver's log.",
        [f"round({ended}) > 0"],
        [
            Column("spark_application", "Application"),
            Column("query", "Query"),
            Column("reason", "Cause", width=200),
            Column("Value #A", "Times", "none", steps=((None, RED),), width=100),
        ],
        sort=["Times"],
        none="none is known to have ended by an error",
    )


def _queries() -> core.Panel:
    return table(
        "Queries",
        "One row for each, those that an error ended on top. Uncommitted batches are known where the checkpoint is"
        " read: 1 while a batch runs, and while a query is stuck or dead in one. What is withheld belongs to"
        " transactions that are still open.",
        [
            f"max by ({_BY}) ({age(now(SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS, *_OF))})",
            f"max by ({_BY}) ({now(SPARK_UNCOMMITTED_BATCHES, *_OF)})",
            total(now(SPARK_SOURCE_LAG_OFFSETS, *_OF), _BY),
            total(now(SPARK_SOURCE_BLOCKED_OFFSETS, *_OF), _BY),
            f"max by ({_BY}) ({now(SPARK_BATCH_DURATION_SECONDS, *_OF, _WHOLE)})",
            f"round({total(gained(SPARK_QUERY_TERMINATIONS_TOTAL, '1h', *_OF, _ERROR), _BY)})",
            f"max by ({_BY}) ({_of_threshold(_silence())})",
        ],
        [
            Column("spark_application", "Application"),
            Column("query", "Query", link=(SPARK, "query", "This query alone")),
            Column("Value #A", "Without progress", "s", width=150),
            Column("Value #G", "Of its threshold", "percentunit", steps=OF_THRESHOLD, width=130),
            Column("Value #B", "Uncommitted batches", "none", steps=((None, GREEN), (1, BLUE)), width=170),
            Column("Value #C", "Offsets behind", "short", width=130),
            Column("Value #D", "Withheld offsets", "short", steps=((None, GREEN), (1, YELLOW)), width=150),
            Column("Value #E", "Last batch took", "s", width=140),
            Column("Value #F", "Errors, 1 h", "none", steps=((None, GREEN), (1, RED)), width=110),
        ],
        sort=["Errors, 1 h", "Of its threshold"],
        none="no query is reported",
    )


def _states() -> core.Panel:
    state_of = numbered(SPARK_QUERY_STATE, "state", SPARK_QUERY_STATES, *_OF)
    return timeline(
        "State of each query",
        "A band for each query; a gap where its driver fell silent.",
        Query(f"max by ({_BY}) ({state_of})", _NAME),
        states=[(index, state, _COLOURS[state]) for index, state in enumerate(SPARK_QUERY_STATES)],
    )


def _ends() -> core.Panel:
    ended = gained(SPARK_QUERY_TERMINATIONS_TOTAL, WINDOW, *_OF)
    return lines(
        f"Ends by reason, in {WINDOW}",
        "stopped is on purpose; the others are groups of exceptions: the runbook of KafkaEosSparkQueryTerminated has "
        "what to do for each.",
        Query(
            f"round({total(ended, 'kafka_cluster, query, reason')}) > 0",
            "{{kafka_cluster}} {{query}}: {{reason}}",
        ),
        "none",
    )


def _lag() -> core.Panel:
    return lines(
        "Offsets behind, by topic",
        "High watermark minus what the query completed.",
        Query(
            total(now(SPARK_SOURCE_LAG_OFFSETS, *_OF), "kafka_cluster, query, topic"),
            "{{kafka_cluster}} {{query}} / {{topic}}",
        ),
    )


def _blocked() -> core.Panel:
    return lines(
        "Offsets withheld by open transactions, by topic",
        "Records that a read_committed query cannot read yet. A line that only rises is a transaction that does not "
        "end: the dashboard of the last stable offset names it.",
        Query(
            total(now(SPARK_SOURCE_BLOCKED_OFFSETS, *_OF), "kafka_cluster, query, topic"),
            "{{kafka_cluster}} {{query}} / {{topic}}",
        ),
    )


def _batches() -> core.Panel:
    return lines(
        "Batches by query",
        "Completed per second.",
        Query(total(per_second(SPARK_BATCHES_TOTAL, *_OF), _BY), "{{kafka_cluster}} {{query}} ({{spark_application}})"),
        "ops",
    )


def _rows() -> core.Panel:
    return lines(
        "Rows by query",
        "Processed per second; transaction markers use offsets and are no rows.",
        Query(
            total(per_second(SPARK_INPUT_ROWS_TOTAL, *_OF), _BY),
            "{{kafka_cluster}} {{query}} ({{spark_application}})",
        ),
        "ops",
    )


def _phases() -> core.Panel:
    of_last = now(SPARK_BATCH_DURATION_SECONDS, *_OF, 'phase!="trigger_execution"')
    return lines(
        "Time of the last batch, by phase",
        "Of the query where it is longest: add_batch is the work and the sink, latest_offset and get_batch are Kafka, "
        "wal_commit and commit_offsets the checkpoint.",
        Query(f"max by (phase) ({of_last})", "{{phase}}"),
        "s",
        stacked=True,
    )
