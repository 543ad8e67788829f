"""Kafka Streams: clients and threads, commits, and what is left to restore."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    STREAMS_CHANGELOG_LAG_OFFSETS,
    STREAMS_CLIENT_STATE,
    STREAMS_CLIENT_STATES,
    STREAMS_FAILED_THREADS_TOTAL,
    STREAMS_GUARANTEES,
    STREAMS_PROCESSING_GUARANTEE,
    STREAMS_REBALANCES_TOTAL,
    STREAMS_RESTORE_REMAINING_RECORDS,
    STREAMS_RESTORING_TASKS,
    STREAMS_THREAD_COMMIT_LATENCY_SECONDS,
    STREAMS_THREAD_COMMITS_TOTAL,
    STREAMS_THREAD_STATE,
    STREAMS_THREAD_STATES,
)
from exporter.dashboards.board import Board, Line, PanelRow, Variable
from exporter.dashboards.engines import records_to_restore
from exporter.dashboards.panels import (
    BLUE,
    GREEN,
    GREY,
    NEUTRAL,
    ORANGE,
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
from exporter.dashboards.queries import gained, in_state, now, numbered, per_second, total
from exporter.dashboards.shared import STREAMS
from exporter.model import Metric

_OF = 'target=~"$target"'
_THREAD = "kafka_cluster, thread"
_NAME = "{{kafka_cluster}} {{name}}"
_CLIENT_COLOURS = dict(zip(STREAMS_CLIENT_STATES, (GREY, YELLOW, GREEN, ORANGE, GREY, RED, RED), strict=True))
_GUARANTEE_COLOURS = dict(zip(STREAMS_GUARANTEES, (GREEN, GREEN, GREY), strict=True))
_THREAD_COLOURS = dict(zip(STREAMS_THREAD_STATES, (GREY, BLUE, YELLOW, PURPLE, GREEN, ORANGE, RED), strict=True))


def board() -> Board:
    """Kafka Streams by JVM, client and thread."""
    return Board(
        uid=STREAMS,
        title="Kafka EOS / Streams",
        description="Kafka Streams: who runs, with which guarantee it commits, and how far a restoration has come.",
        variables=(Variable("target", "JVM", STREAMS_CLIENT_STATE),),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow("States", (Line(8, (_clients(), _threads())),)),
            PanelRow("Commits", (Line(8, (_commits(), _latency())),)),
            PanelRow("Guarantees and rebalances", (Line(8, (_guarantees(), _rebalances())),)),
            PanelRow("Restoration", (Line(8, (_remaining(), _restoring(), _changelogs())),)),
        ),
    )


def _now() -> tuple[core.Panel, ...]:
    known = total(now(STREAMS_CLIENT_STATE, _OF))
    running = total(now(STREAMS_CLIENT_STATE, _OF, 'state="running"'))
    return (
        stat(
            "Clients not running",
            "Kafka Streams clients in any state but running; rebalancing counts while it lasts.",
            f"{known} - ({running} or {known} * 0)",
            steps=((None, GREEN), (1, ORANGE)),
        ),
        stat(
            "Dead threads",
            "Stream threads that ended by an error.",
            in_state(STREAMS_THREAD_STATE, "dead", _OF),
        ),
        stat(
            "Threads that failed in the last hour",
            "By an exception, also those that were replaced.",
            f"round({total(gained(STREAMS_FAILED_THREADS_TOTAL, '1h', _OF))})",
        ),
        records_to_restore(_OF),
        stat(
            "Offsets not committed in changelogs",
            "Written by open transactions, and held back from a restoring task.",
            total(now(STREAMS_CHANGELOG_LAG_OFFSETS, _OF)),
            "short",
            NEUTRAL,
        ),
        stat(
            "Commits per second",
            "With exactly-once a transaction each.",
            total(per_second(STREAMS_THREAD_COMMITS_TOTAL, _OF)),
            "ops",
            NEUTRAL,
        ),
    )


def _clients() -> core.Panel:
    return timeline(
        "State of each client",
        "A band for each Kafka Streams client.",
        Query(
            _named(_state(STREAMS_CLIENT_STATE, STREAMS_CLIENT_STATES, "kafka_cluster, client_id"), "client_id"),
            _NAME,
        ),
        states=[(index, state, _CLIENT_COLOURS[state]) for index, state in enumerate(STREAMS_CLIENT_STATES)],
    )


def _threads() -> core.Panel:
    return timeline(
        "State of each thread",
        "A band for each stream thread.",
        Query(_named(_state(STREAMS_THREAD_STATE, STREAMS_THREAD_STATES, _THREAD), "thread"), _NAME),
        states=[(index, state, _THREAD_COLOURS[state]) for index, state in enumerate(STREAMS_THREAD_STATES)],
    )


def _state(metric: Metric, states: tuple[str, ...], by: str) -> str:
    """The state as its place in the list."""
    return f"max by ({by}) ({numbered(metric, 'state', states, _OF)})"


def _named(series: str, label: str) -> str:
    """The series with a label ``name``: a client's id with the first 8 digits of its process's UUID, and before it the
    number of a thread.

    Ids of threads differ at their ends, which a legend has no room for.
    """
    process = "(.+-[0-9a-f]+)-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"
    named = f'label_replace({series}, "name", "$1", "{label}", "(.*)")'
    named = f'label_replace({named}, "name", "$1", "{label}", "{process}")'
    return f'label_replace({named}, "name", "thread $2 of $1", "{label}", "{process}-[A-Za-z]+-([0-9]+)")'


def _commits() -> core.Panel:
    return lines(
        "Commits by thread",
        "Per second. A thread that runs and commits nothing is stuck in its transaction.",
        Query(_named(total(per_second(STREAMS_THREAD_COMMITS_TOTAL, _OF), _THREAD), "thread"), _NAME),
        "ops",
    )


def _latency() -> core.Panel:
    return lines(
        "Commit latency",
        "Largest of recent commits, by thread. Beware from a quarter of transaction.timeout.ms on.",
        Query(_named(now(STREAMS_THREAD_COMMIT_LATENCY_SECONDS, _OF, 'stat="max"'), "thread"), _NAME),
        "s",
    )


def _guarantees() -> core.Panel:
    return table(
        "Guarantee in use, by application",
        "By what its clients did: transactions, or offsets of the consumer. Empty until the first of them.",
        [now(STREAMS_PROCESSING_GUARANTEE, _OF)],
        [
            Column("application", "Application"),
            Column("guarantee", "Guarantee", colours=_GUARANTEE_COLOURS, width=180),
            Column("target", "JVM", width=200),
        ],
        sort=["Application"],
    )


def _rebalances() -> core.Panel:
    rebalances = gained(STREAMS_REBALANCES_TOTAL, "15m", _OF)
    return lines(
        "Rebalances in 15 minutes, by JVM and result",
        "Of the consumers of its threads. Each one commits what is open; many show a member that comes and goes.",
        Query(
            f"round({total(rebalances, 'kafka_cluster, target, result')})",
            "{{kafka_cluster}} {{target}} {{result}}",
        ),
    )


def _remaining() -> core.Panel:
    return lines(
        "Records to restore, by task",
        "A line that does not fall is a restoration that is stuck.",
        Query(
            total(now(STREAMS_RESTORE_REMAINING_RECORDS, _OF), "kafka_cluster, target, task"),
            "{{kafka_cluster}} {{target}} {{task}}",
        ),
    )


def _restoring() -> core.Panel:
    return lines(
        "Tasks that restore",
        "In progress or paused, by state updater thread.",
        Query(_named(total(now(STREAMS_RESTORING_TASKS, _OF), _THREAD), "thread"), _NAME),
        "none",
    )


def _changelogs() -> core.Panel:
    return lines(
        "Offsets not committed, by changelog",
        "End minus last stable offset: what no restoring task can read yet.",
        Query(total(now(STREAMS_CHANGELOG_LAG_OFFSETS, _OF), "kafka_cluster, topic"), "{{kafka_cluster}} {{topic}}"),
    )
