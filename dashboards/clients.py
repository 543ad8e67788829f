"""Producers, Connect, Debezium, Kafka Streams and Flink: what clients and engines say of their transactions."""

from __future__ import annotations

from collections.abc import Sequence

from grafanalib import core

from exporter import catalogue
from exporter.dashboards import figures
from exporter.dashboards.board import APPLICATION, CLIENTS, Dashboard, PanelRow, Variable
from exporter.dashboards.figures import WINDOW
from exporter.dashboards.panels import (
    ANY_IS_ODD,
    BLUE,
    GREEN,
    GREY,
    OF_THRESHOLD,
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
from exporter.dashboards.queries import (
    OF_APPLICATION,
    age,
    gained,
    in_state,
    now,
    numbered,
    of_threshold,
    per_second,
    total,
)
from exporter.dashboards.shared import TO_APPLICATION
from exporter.model import Metric

_CLIENT, _JVM, _CONNECT = 'client_id=~"$client_id"', 'target=~"$target"', 'connect=~"$connect"'
_TASKS = (_CONNECT, 'connector=~"$connector"')
_BY_TASK, _BY_THREAD = "kafka_cluster, connect, connector, task", "kafka_cluster, thread"
_TASK = "{{kafka_cluster}} {{connect}} {{connector}}-{{task}}"
_CAPTURED = "{{kafka_cluster}} {{connect}} {{server}}"
_NAME = "{{kafka_cluster}} {{name}}"
_TASK_COLOURS = dict(zip(catalogue.TASK_STATES, (GREEN, YELLOW, GREY, RED, ORANGE, BLUE, PURPLE), strict=True))
_CLIENT_COLOURS = dict(zip(catalogue.STREAMS_CLIENT_STATES, (GREY, YELLOW, GREEN, ORANGE, GREY, RED, RED), strict=True))
_THREAD_COLOURS = dict(
    zip(catalogue.STREAMS_THREAD_STATES, (GREY, BLUE, YELLOW, PURPLE, GREEN, ORANGE, RED), strict=True)
)
_SNAPSHOT_COLOURS = dict(zip(catalogue.DEBEZIUM_SNAPSHOT_STATES, (BLUE, YELLOW, GREEN, RED, GREY), strict=True))
_GUARANTEE_COLOURS = dict(zip(catalogue.STREAMS_GUARANTEES, (GREEN, GREEN, GREY), strict=True))
_PRODUCER_COLOURS = {
    "abortable_error": ORANGE,
    "aborting_transaction": ORANGE,
    "fatal_error": RED,
    "in_transaction": GREEN,
}


def _figures() -> tuple[core.Panel, ...]:
    failed = now(catalogue.CONNECT_TASK_OFFSET_COMMIT_RATIO, *_TASKS, 'result="failure"')
    clients = total(now(catalogue.STREAMS_CLIENT_STATE, _JVM))
    running = total(now(catalogue.STREAMS_CLIENT_STATE, _JVM, 'state="running"'))
    return (
        figures.TASKS_FAILED.on(*_TASKS),
        stat(
            "Worst offset commits, of their threshold",
            "How much of the share of offset commits that may fail did fail, of the task where most did.",
            f"max({of_threshold(failed, catalogue.CONNECTOR_THRESHOLD_RATIO, 'commit_failures', *_TASKS)})",
            "percentunit",
            OF_THRESHOLD,
            none="no JMX",
        ),
        stat(
            "Streams clients not running",
            "In any state but running; rebalancing counts while it lasts.",
            f"{clients} - ({running} or {clients} * 0)",
            steps=ANY_IS_ODD,
        ),
        stat(
            "Dead stream threads",
            "Threads that ended by an error.",
            in_state(catalogue.STREAMS_THREAD_STATE, "dead", _JVM),
        ),
        stat(
            f"Records not sent, {WINDOW}",
            "Records that producers gave up on.",
            f"round({total(gained(catalogue.PRODUCER_RECORD_ERRORS_TOTAL, WINDOW, _CLIENT))})",
            none="no client watched",
        ),
        stat(
            "Fatal librdkafka clients",
            "In state fatal_error, fenced or broken for good: only a new client helps.",
            # A producer that is idempotent only has no transactional state.
            f"count(max by (kafka_cluster, target, client_id) ({now(catalogue.PRODUCER_TXN_STATE, _CLIENT, _FATAL)}"
            f" or {now(catalogue.PRODUCER_IDEMPOTENCE_STATE, _CLIENT, _FATAL)}))"
            f" or {total(now(catalogue.PRODUCER_IDEMPOTENCE_STATE, _CLIENT))} * 0",
            none="no librdkafka",
        ),
    )


_FATAL = 'state="fatal_error"'


def _states_of(metric: Metric, states: Sequence[str], by: str, *matchers: str) -> str:
    """The state of each as its place in the list."""
    return f"max by ({by}) ({numbered(metric, 'state', states, *matchers)})"


def _causes() -> core.Panel:
    failures = total(gained(catalogue.CONNECT_TASK_FAILURES_TOTAL, "1h", *_TASKS), f"{_BY_TASK}, cause")
    return table(
        "Why did tasks fail in the last hour?",
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


def _snapshots() -> core.Panel:
    by = "kafka_cluster, connect, server"
    return timeline(
        "Did snapshots end early?",
        "One that ends early begins again: its rows are in the topic twice, with exactly-once as well.",
        Query(
            _states_of(catalogue.DEBEZIUM_SNAPSHOT_STATE, catalogue.DEBEZIUM_SNAPSHOT_STATES, by, _CONNECT), _CAPTURED
        ),
        [(index, state, _SNAPSHOT_COLOURS[state]) for index, state in enumerate(catalogue.DEBEZIUM_SNAPSHOT_STATES)],
    )


def _queue() -> core.Panel:
    capacity = now(catalogue.DEBEZIUM_QUEUE_CAPACITY_RECORDS, _CONNECT)
    full = f"{now(catalogue.DEBEZIUM_QUEUE_RECORDS, _CONNECT)} / {capacity}"
    return lines(
        "Is Kafka slower than the database?",
        "A full queue says so; a connector that is not connected outside of a snapshot captures nothing.",
        [
            Query(full, f"{_CAPTURED} queue"),
            Query(now(catalogue.DEBEZIUM_CONNECTED, _CONNECT), f"{_CAPTURED} connected"),
            Query(now(catalogue.DEBEZIUM_SNAPSHOT_REMAINING_TABLES, _CONNECT), f"{_CAPTURED} tables to snapshot"),
        ],
        "none",
    )


def _clients() -> core.Panel:
    states = _states_of(
        catalogue.STREAMS_CLIENT_STATE, catalogue.STREAMS_CLIENT_STATES, "kafka_cluster, client_id", _JVM
    )
    return timeline(
        "What state was each client in?",
        "A band for each Kafka Streams client.",
        Query(_named(states, "client_id"), _NAME),
        [(index, state, _CLIENT_COLOURS[state]) for index, state in enumerate(catalogue.STREAMS_CLIENT_STATES)],
    )


def _named(series: str, label: str) -> str:
    """The series with a label ``name``: a client's id with the first 8 digits of its process's UUID, and before it the
    number of a thread.

    Ids of threads differ at their ends, which a legend has no room for.
    """
    process = "(.+-[0-9a-f]+)-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"
    named = f'label_replace({series}, "name", "$1", "{label}", "(.*)")'
    named = f'label_replace({named}, "name", "$1", "{label}", "{process}")'
    return f'label_replace({named}, "name", "thread $2 of $1", "{label}", "{process}-[A-Za-z]+-([0-9]+)")'


def _rebalances() -> core.Panel:
    rebalances = total(gained(catalogue.STREAMS_REBALANCES_TOTAL, WINDOW, _JVM), "kafka_cluster, target, result")
    return lines(
        f"How often do they rebalance? ({WINDOW})",
        "Each rebalance commits what is open; many show a member that comes and goes.",
        Query(f"round({rebalances})", "{{kafka_cluster}} {{target}} {{result}}"),
        "none",
    )


def _idempotence() -> core.Panel:
    since = age(now(catalogue.PRODUCER_IDEMPOTENCE_STATE_SINCE_TIMESTAMP_SECONDS, _CLIENT))
    return table(
        "Which producers have a producer id?",
        "Those that are in state assigned.",
        [since, now(catalogue.PRODUCER_IDEMPOTENCE_STATE, _CLIENT)],
        [
            Column("Value #A", "In it for", "s", width=120),
            Column("client_id", "Client"),
            Column("state", "State", width=200),
            Column("target", "Target"),
        ],
        sort=["In it for"],
        none="no librdkafka client",
    )


_NOT_RUNNING = table(
    "Which tasks do not run?",
    "Which, and in what state.",
    [now(catalogue.CONNECT_TASK_STATE, *_TASKS, 'state!="running"')],
    [
        Column("connector", "Connector"),
        Column("task", "Task", width=80),
        Column("state", "State", colours=_TASK_COLOURS, width=130),
        Column("connect", "Connect cluster", width=150),
    ],
    sort=["Connector"],
    none="none is known that does not run",
)
_TASK_STATES = timeline(
    "What state was each task in?",
    "A band for each task.",
    Query(_states_of(catalogue.CONNECT_TASK_STATE, catalogue.TASK_STATES, _BY_TASK, *_TASKS), _TASK),
    [(index, state, _TASK_COLOURS[state]) for index, state in enumerate(catalogue.TASK_STATES)],
)
_TASK_COMMITS = lines(
    "How often do tasks commit?",
    "Per second: transactions of exactly-once sources, from the log, and offset commits of sinks, by JMX.",
    Query(total(per_second(catalogue.CONNECT_TASK_COMMITS_TOTAL, *_TASKS), _BY_TASK), _TASK),
    "ops",
)
_CONNECTORS = table(
    "How do connectors support exactly-once?",
    "Empty for sinks, and where REST is not read.",
    [now(catalogue.CONNECT_CONNECTOR_INFO, *_TASKS)],
    [
        Column("connector", "Connector"),
        Column("type", "Type", width=80),
        Column("exactly_once_support", "Support", width=120),
        Column("transaction_boundary", "Boundary", width=120),
        Column("connect", "Connect cluster", width=150),
    ],
    sort=["Connector"],
)
_WORKERS = table(
    "Which versions do workers have?",
    "Exactly-once for source connectors needs Kafka 3.3 on every worker.",
    [now(catalogue.CONNECT_WORKER_INFO, _CONNECT)],
    [
        Column("worker", "Worker"),
        Column("version", "Version", width=120),
        Column("connect", "Connect cluster", width=150),
    ],
    sort=["Version"],
)
_RECORDS_OF_TASKS = lines(
    "How many records do tasks write, and in a transaction?",
    "Written per second, for a sink those that it was given, and the average and largest transaction of a task.",
    [
        Query(
            total(per_second(catalogue.CONNECT_TASK_RECORDS_WRITTEN_TOTAL, *_TASKS), _BY_TASK), f"{_TASK} per second"
        ),
        Query(
            now(catalogue.CONNECT_TASK_TRANSACTION_SIZE_RECORDS, *_TASKS, 'stat=~"avg|max"'), f"{_TASK} {{{{stat}}}}"
        ),
    ],
    log=True,
)
_COMMIT_TIME = lines(
    "How long do offset commits take?",
    "Largest of recent ones, by task.",
    Query(now(catalogue.CONNECT_TASK_OFFSET_COMMIT_SECONDS, *_TASKS, 'stat="max"'), _TASK),
    "s",
)
_CAPTURE_LAG = lines(
    "How far is capture behind the database?",
    "Lag of the last change, which stands while nothing changes, and age of the last event.",
    [
        Query(now(catalogue.DEBEZIUM_LAG_SECONDS, _CONNECT), f"{_CAPTURED} lag"),
        Query(now(catalogue.DEBEZIUM_LAST_EVENT_AGE_SECONDS, _CONNECT), f"{_CAPTURED} last event ({{{{context}}}})"),
    ],
    "s",
)
_THREAD_COMMITS = lines(
    "How often do threads commit?",
    "Per second: a thread that runs and commits nothing is stuck in its transaction.",
    Query(_named(total(per_second(catalogue.STREAMS_THREAD_COMMITS_TOTAL, _JVM), _BY_THREAD), "thread"), _NAME),
    "ops",
)
_LATENCY = lines(
    "How long do commits take?",
    "Largest of recent commits, by thread: beware from a quarter of transaction.timeout.ms on.",
    Query(_named(now(catalogue.STREAMS_THREAD_COMMIT_LATENCY_SECONDS, _JVM, 'stat="max"'), "thread"), _NAME),
    "s",
)
_REMAINING = lines(
    "How much is left to restore?",
    "Records by task, tasks that restore by thread, and offsets of changelogs that open transactions hold back.",
    [
        Query(
            total(now(catalogue.STREAMS_RESTORE_REMAINING_RECORDS, _JVM), "kafka_cluster, target, task"),
            "{{kafka_cluster}} {{target}} {{task}}",
        ),
        Query(_named(total(now(catalogue.STREAMS_RESTORING_TASKS, _JVM), _BY_THREAD), "thread"), _NAME + " tasks"),
        Query(
            total(now(catalogue.STREAMS_CHANGELOG_LAG_OFFSETS, _JVM), "kafka_cluster, topic"),
            "{{kafka_cluster}} {{topic}} not committed",
        ),
    ],
)
_GUARANTEES = table(
    "Which guarantee is in use?",
    "By what the clients of the application did: transactions, or offsets of the consumer.",
    [now(catalogue.STREAMS_PROCESSING_GUARANTEE, _JVM)],
    [
        Column("application", "Application", link=TO_APPLICATION),
        Column("guarantee", "Guarantee", colours=_GUARANTEE_COLOURS, width=180),
        Column("target", "JVM", width=200),
    ],
    sort=["Application"],
)
_AT_RISK = table(
    "Which precommitted transactions will time out?",
    "A Flink job has precommitted them and does not commit: at the timeout their records are lost.",
    [f"{now(catalogue.FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS, OF_APPLICATION)} - time()"],
    [
        Column("Value #A", "Lost in", "s", steps=((None, RED), (3600, ORANGE)), width=110),
        Column("application", "Application", link=TO_APPLICATION),
        Column("transactional_id", "Transactional id"),
        Column("precommitted", "Precommitted", width=120),
    ],
    sort=["Lost in"],
    smallest_first=True,
    none="none is known to be at risk",
)
_LOST = table(
    "Which precommitted transactions were lost in the last hour?",
    "Ended by the server; completed is whether another subtask committed the same checkpoint.",
    [age(now(catalogue.FLINK_LOSS_TIMESTAMP_SECONDS, OF_APPLICATION))],
    [
        Column("Value #A", "Ago", "s", width=110),
        Column("application", "Application", link=TO_APPLICATION),
        Column("transactional_id", "Transactional id"),
        Column("checkpoint", "Checkpoint", width=100),
        Column("completed", "Completed", width=100),
    ],
    sort=["Ago"],
    smallest_first=True,
    none="none is known to be lost",
)
_OPERATIONS = lines(
    "Where does the time of producers go?",
    "Seconds per second in each transactional operation over all clients.",
    Query(total(per_second(catalogue.PRODUCER_TXN_SECONDS_TOTAL, _CLIENT), "operation"), "{{operation}}"),
    "percentunit",
    stacked=True,
)
_RECORDS = lines(
    "What do producers send, send again, and give up?",
    "Records per second, the ten clients with most of each.",
    [
        Query(
            f"topk(10, {total(per_second(metric, _CLIENT), 'kafka_cluster, client_id')})",
            f"{{{{kafka_cluster}}}} {{{{client_id}}}} {word}",
        )
        for metric, word in (
            (catalogue.PRODUCER_RECORDS_SENT_TOTAL, "sent"),
            (catalogue.PRODUCER_RECORD_RETRIES_TOTAL, "sent again"),
            (catalogue.PRODUCER_RECORD_ERRORS_TOTAL, "given up"),
        )
    ],
    "ops",
)
_STATES = table(
    "What state is each transaction in?",
    "in_transaction for long is a transaction that does not end.",
    [
        age(now(catalogue.PRODUCER_TXN_STATE_SINCE_TIMESTAMP_SECONDS, _CLIENT)),
        now(catalogue.PRODUCER_TXN_STATE, _CLIENT),
    ],
    [
        Column("Value #A", "In it for", "s", steps=((None, GREEN), (60, YELLOW), (900, RED)), width=120),
        Column("client_id", "Client"),
        Column("state", "State", colours=_PRODUCER_COLOURS, width=200),
        Column("target", "Target"),
    ],
    sort=["In it for"],
    none="no librdkafka client",
)


def board() -> Dashboard:
    """Producers by client, Connect by task, Kafka Streams by JVM, Flink by application."""
    return Dashboard(
        uid=CLIENTS,
        title="Clients and engines",
        description="What producers, Connect, Debezium, Kafka Streams and Flink say of their transactions.",
        variables=(
            APPLICATION,
            Variable("client_id", "Producer", catalogue.PRODUCER_RECORDS_SENT_TOTAL),
            Variable("connect", "Connect cluster", catalogue.CONNECT_TASK_STATE),
            Variable("connector", "Connector", catalogue.CONNECT_TASK_STATE),
            Variable("target", "JVM of Streams", catalogue.STREAMS_CLIENT_STATE),
        ),
        rows=(
            PanelRow("Does any of them fail?", (_figures(),)),
            PanelRow("Connect: which tasks, and why?", ((_NOT_RUNNING, _causes()), (_TASK_STATES, _TASK_COMMITS))),
            PanelRow(
                "Connect: what do they write? (needs JMX of the workers: connect.workers)",
                ((_CONNECTORS, _WORKERS), (_RECORDS_OF_TASKS, _COMMIT_TIME)),
            ),
            PanelRow("Debezium (needs JMX of the workers: connect.workers)", ((_snapshots(), _CAPTURE_LAG, _queue()),)),
            PanelRow(
                "Kafka Streams (needs JMX: streams)",
                ((_clients(),), (_THREAD_COMMITS, _LATENCY), (_REMAINING, _rebalances(), _GUARANTEES)),
            ),
            PanelRow("Flink: will data be lost?", ((_AT_RISK, _LOST),)),
            PanelRow(
                "Producers (needs JMX: producers; of librdkafka, their statistics: ingest)",
                ((_OPERATIONS, _RECORDS), (_STATES, _idempotence())),
            ),
        ),
    )
