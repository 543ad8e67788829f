"""Kafka Connect: tasks, their failures and transactions."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    CONNECT_CONNECTOR_INFO,
    CONNECT_TASK_COMMITS_TOTAL,
    CONNECT_TASK_FAILURES_TOTAL,
    CONNECT_TASK_OFFSET_COMMIT_RATIO,
    CONNECT_TASK_OFFSET_COMMIT_SECONDS,
    CONNECT_TASK_RECORDS_WRITTEN_TOTAL,
    CONNECT_TASK_STATE,
    CONNECT_TASK_TRANSACTION_SIZE_RECORDS,
    CONNECT_WORKER_INFO,
    CONNECTOR_THRESHOLD_RATIO,
    DEBEZIUM_CONNECTED,
    DEBEZIUM_LAG_SECONDS,
    DEBEZIUM_LAST_EVENT_AGE_SECONDS,
    DEBEZIUM_QUEUE_CAPACITY_RECORDS,
    DEBEZIUM_QUEUE_RECORDS,
    DEBEZIUM_SNAPSHOT_REMAINING_TABLES,
    DEBEZIUM_SNAPSHOT_STATE,
    DEBEZIUM_SNAPSHOT_STATES,
    TASK_STATES,
)
from exporter.dashboards.board import Board, Line, Needs, PanelRow, Variable
from exporter.dashboards.engines import failed_tasks
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
from exporter.dashboards.queries import gained, now, numbered, of_threshold, per_second, total
from exporter.dashboards.shared import CONNECT, OF_THRESHOLD, WINDOW

_OF = ('connect=~"$connect"', 'connector=~"$connector"')
_JMX = Needs("no_jmx", (CONNECT_TASK_RECORDS_WRITTEN_TOTAL,), "needs JMX of the workers (connect: workers)")
_DEBEZIUM = Needs("no_debezium", (DEBEZIUM_CONNECTED,), "needs Debezium, and JMX of its workers (connect: workers)")
_CAPTURED = "{{kafka_cluster}} {{connect}} {{server}}"
_TASK = "{{kafka_cluster}} {{connect}} {{connector}}-{{task}}"
_COLOURS = dict(zip(TASK_STATES, (GREEN, YELLOW, GREY, RED, ORANGE, BLUE, PURPLE), strict=True))


def board() -> Board:
    """Connect by connector and task."""
    return Board(
        uid=CONNECT,
        title="Kafka EOS / Connect",
        description="Exactly-once Connect: which tasks fail and why, and how their transactions and commits go.",
        variables=(
            Variable("connect", "Connect cluster", CONNECT_TASK_STATE),
            Variable("connector", "Connector", CONNECT_TASK_STATE),
        ),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow(
                "Tasks",
                (
                    Line(7, (_failed(), _causes()), (12, 12)),
                    Line(8, (_states(), _failures()), (14, 10)),
                    Line(7, (_connectors(), _workers()), (16, 8)),
                ),
            ),
            PanelRow("Transactions and commits", (Line(8, (_commits(),)),)),
            PanelRow(
                "Size of transactions, offset commits of sinks",
                (Line(8, (_size(), _written())), Line(8, (_ratio(), _time()))),
                _JMX,
            ),
            PanelRow(
                "Debezium", (Line(7, (_snapshots(), _connections())), Line(7, (_capture_lag(), _queue()))), _DEBEZIUM
            ),
        ),
    )


def _tasks(state: str) -> str:
    return total(now(CONNECT_TASK_STATE, *_OF, f'state="{state}"'))


def _now() -> tuple[core.Panel, ...]:
    failed = now(CONNECT_TASK_OFFSET_COMMIT_RATIO, *_OF, 'result="failure"')
    return (
        failed_tasks(*_OF),
        stat(
            f"Task failures, {WINDOW}",
            "Times that tasks failed, for any cause; a task that is restarted and fails again counts again.",
            f"round({total(gained(CONNECT_TASK_FAILURES_TOTAL, WINDOW, *_OF))})",
            steps=((None, GREEN), (1, ORANGE), (3, RED)),
        ),
        stat("Running tasks", "Tasks that are at work.", _tasks("running"), "none", NEUTRAL),
        stat(
            "Commits per second",
            "Transactions that exactly-once source tasks committed, and offset commits of sink tasks (by JMX).",
            total(per_second(CONNECT_TASK_COMMITS_TOTAL, *_OF)),
            "ops",
            NEUTRAL,
            none="no EOS source or sink",
        ),
        stat(
            "Worst offset commits, of their threshold",
            "How much of the share of offset commits that may fail did fail, of the task where most did. Needs JMX of"
            " the workers.",
            f"max({of_threshold(failed, CONNECTOR_THRESHOLD_RATIO, 'commit_failures', *_OF)})",
            "percentunit",
            OF_THRESHOLD,
            none="no JMX",
        ),
    )


def _states() -> core.Panel:
    state_of = numbered(CONNECT_TASK_STATE, "state", TASK_STATES, *_OF)
    return timeline(
        "State of each task",
        "A band for each task.",
        Query(f"max by (kafka_cluster, connect, connector, task) ({state_of})", _TASK),
        states=[(index, state, _COLOURS[state]) for index, state in enumerate(TASK_STATES)],
    )


def _failures() -> core.Panel:
    return lines(
        f"Failures by cause, in {WINDOW}",
        "By the exception in the task's trace. Connect reports a fence as an expired transaction, and so as "
        "invalid_epoch, more often than as fenced.",
        Query(f"round({total(gained(CONNECT_TASK_FAILURES_TOTAL, WINDOW, *_OF), 'cause')})", "{{cause}}"),
        "none",
    )


def _failed() -> core.Panel:
    return table(
        "Tasks that do not run",
        "Which, and in what state.",
        [now(CONNECT_TASK_STATE, *_OF, 'state!="running"')],
        [
            Column("connector", "Connector"),
            Column("task", "Task", width=80),
            Column("state", "State", colours=_COLOURS, width=130),
            Column("connect", "Connect cluster", width=150),
        ],
        sort=["Connector"],
        none="none is known that does not run",
    )


def _causes() -> core.Panel:
    failures = total(gained(CONNECT_TASK_FAILURES_TOTAL, "1h", *_OF), "kafka_cluster, connect, connector, task, cause")
    return table(
        "Failures in the last hour, by task and cause",
        "By the exception in the task's trace; invalid_epoch is what most fences and timeouts look like to a task.",
        [f"round({failures}) > 0"],
        [
            Column("connector", "Connector"),
            Column("task", "Task", width=80),
            Column("cause", "Cause", width=150),
            Column("Value #A", "Failures", "none", steps=((None, RED),), width=100),
            Column("connect", "Connect cluster", width=150),
        ],
        sort=["Failures"],
        none="none is known to have failed",
    )


def _connectors() -> core.Panel:
    return table(
        "Connectors, and their exactly-once settings",
        "required: the connector must say that it supports exactly-once. Empty for sinks, and where REST is not read.",
        [now(CONNECT_CONNECTOR_INFO, *_OF)],
        [
            Column("connector", "Connector"),
            Column("type", "Type", width=100),
            Column("exactly_once_support", "Exactly-once support", width=180),
            Column("transaction_boundary", "Transaction boundary", width=180),
            Column("connect", "Connect cluster", width=150),
        ],
        sort=["Connector"],
    )


def _workers() -> core.Panel:
    return table(
        "Workers, and their versions",
        "Exactly-once for source connectors needs Kafka 3.3 on every worker. Empty where REST is not read.",
        [now(CONNECT_WORKER_INFO, _OF[0])],
        [
            Column("worker", "Worker"),
            Column("version", "Version", width=120),
            Column("connect", "Connect cluster", width=150),
        ],
        sort=["Version"],
    )


def _commits() -> core.Panel:
    return lines(
        "Commits",
        "Per second, by task: transactions of exactly-once sources, from the log, and offset commits of sinks.",
        Query(total(per_second(CONNECT_TASK_COMMITS_TOTAL, *_OF), "kafka_cluster, connect, connector, task"), _TASK),
        "ops",
    )


def _size() -> core.Panel:
    return lines(
        "Records in a transaction",
        "Largest and average; nothing while a task is idle.",
        Query(now(CONNECT_TASK_TRANSACTION_SIZE_RECORDS, *_OF, 'stat=~"avg|max"'), f"{_TASK} {{{{stat}}}}"),
    )


def _written() -> core.Panel:
    return lines(
        "Records written",
        "Per second, by task; for a sink those that it was given.",
        Query(
            total(per_second(CONNECT_TASK_RECORDS_WRITTEN_TOTAL, *_OF), "kafka_cluster, connect, connector, task"),
            _TASK,
        ),
        "ops",
    )


def _ratio() -> core.Panel:
    return lines(
        "Offset commits that fail",
        "Share of recent ones, by task.",
        Query(now(CONNECT_TASK_OFFSET_COMMIT_RATIO, *_OF, 'result="failure"'), _TASK),
        "percentunit",
    )


def _time() -> core.Panel:
    return lines(
        "Offset commit time",
        "Largest of recent ones, by task.",
        Query(now(CONNECT_TASK_OFFSET_COMMIT_SECONDS, *_OF, 'stat="max"'), _TASK),
        "s",
    )


def _snapshots() -> core.Panel:
    state_of = numbered(DEBEZIUM_SNAPSHOT_STATE, "state", DEBEZIUM_SNAPSHOT_STATES, _OF[0])
    colours = (BLUE, YELLOW, GREEN, RED, GREY)
    return timeline(
        "Snapshots",
        "A snapshot that ends early begins again: its rows are in the topic twice, with exactly-once as well.",
        Query(f"max by (kafka_cluster, connect, server) ({state_of})", _CAPTURED),
        states=[(index, state, colours[index]) for index, state in enumerate(DEBEZIUM_SNAPSHOT_STATES)],
    )


def _connections() -> core.Panel:
    return lines(
        "Connected, and tables left to snapshot",
        "0 outside of a snapshot: no change reaches Kafka, and the database keeps its log for the connector.",
        [
            Query(now(DEBEZIUM_CONNECTED, _OF[0]), f"{_CAPTURED} connected"),
            Query(now(DEBEZIUM_SNAPSHOT_REMAINING_TABLES, _OF[0]), f"{_CAPTURED} tables left"),
        ],
        "none",
    )


def _capture_lag() -> core.Panel:
    return lines(
        "Lag behind the database, and age of the last event",
        "The lag is that of the last change; it stands while nothing changes.",
        [
            Query(now(DEBEZIUM_LAG_SECONDS, _OF[0]), f"{_CAPTURED} lag"),
            Query(now(DEBEZIUM_LAST_EVENT_AGE_SECONDS, _OF[0]), f"{_CAPTURED} last event ({{{{context}}}})"),
        ],
        "s",
    )


def _queue() -> core.Panel:
    full = f"{now(DEBEZIUM_QUEUE_RECORDS, _OF[0])} / {now(DEBEZIUM_QUEUE_CAPACITY_RECORDS, _OF[0])}"
    return lines(
        "Queue between reader and task",
        "Full: Kafka, or the transactions of the task, are slower than the database. Empty: the database is.",
        Query(full, _CAPTURED),
        "percentunit",
    )
