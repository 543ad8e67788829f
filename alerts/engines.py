"""Rows about engines and clients: Connect, Debezium, Kafka Streams, Java producers, librdkafka.

A failure that is over is a ticket; one that lasts or recurs is a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, EVENT_WINDOW, Alert, Board, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    CONNECT_TASK_FAILURES_TOTAL,
    CONNECT_TASK_OFFSET_COMMIT_RATIO,
    CONNECT_TASK_STATE,
    CONNECTOR_THRESHOLD_RATIO,
    DEBEZIUM_CONNECTED,
    DEBEZIUM_LAG_SECONDS,
    DEBEZIUM_LAST_EVENT_AGE_SECONDS,
    DEBEZIUM_SNAPSHOT_STATE,
    PRODUCER_IDEMPOTENCE_STATE,
    PRODUCER_RECORD_ERRORS_TOTAL,
    PRODUCER_TXN_STATE,
    SOURCE_UP,
    STREAMS_CLIENT_STATE,
    STREAMS_FAILED_THREADS_TOTAL,
    STREAMS_RESTORE_REMAINING_RECORDS,
    STREAMS_THREAD_STATE,
)

LATE_SECONDS = 300
SILENT_SECONDS = 600
MOST_RESTORES = 3
"""In an hour: a rolling restart of a few instances moves a task as often."""
_TASK = "kafka_cluster, connect, connector, task"
_CLIENT = "kafka_cluster, target, client_id"
_JVM = "kafka_cluster, target"
_WHICH = (
    "{{ $labels.kafka_cluster }}: task {{ $labels.task }} of connector {{ $labels.connector }} (Connect"
    " {{ $labels.connect }})"
)
_DEBEZIUM = "{{ $labels.kafka_cluster }}: Debezium {{ $labels.server }} of Connect {{ $labels.connect }}"
_STREAMS_TASK = "{{ $labels.kafka_cluster }}: Streams task {{ $labels.task }} of {{ $labels.target }}"
_PAGED = 'ALERTS{alertname="KafkaEosConnectTaskFailed", alertstate="firing", severity="critical"}'


def connect_alerts(_: Settings) -> Iterator[Alert]:
    """Connect tasks that fail or cannot commit, and Debezium connectors that stopped or are late."""
    failed = f'{CONNECT_TASK_STATE}{{state="failed"}}'
    summary = _WHICH + " failed. Nothing restarts it by itself, and its data waits."
    first = (
        "First: read why, on the agent's status page (page_url) or by GET /connectors/{{ $labels.connector }}/status of"
        " any worker. Mend that, and restart it: POST"
        " /connectors/{{ $labels.connector }}/tasks/{{ $labels.task }}/restart"
    )
    yield Alert(
        "KafkaEosConnectTaskFailed",
        Severity.WARNING,
        Board.CLIENTS,
        f"group by ({_TASK}) (present_over_time({failed}[{EVENT_WINDOW}]))",
        summary,
        first,
        keeps=False,
        when=f"a task failed; fires until {EVENT_WINDOW} after the failure was last seen",
    )

    def answers(up: int) -> str:
        """Whether a Connect cluster answers an agent completely. The source's target is its name."""
        return f'label_replace({SOURCE_UP}{{source="connect"}} == {up}, "connect", "$1", "target", "(.*)")'

    yield Alert(
        "KafkaEosConnectTaskFailed",
        Severity.CRITICAL,
        Board.CLIENTS,
        # A firing page stays while Connect does not answer: it is not known that the task runs again.
        f"""\
group by ({_TASK}) (
  present_over_time({failed}[{BRIDGE}])
  or
  {_PAGED}
  and on (kafka_cluster, connect) {answers(0)}
  unless on (kafka_cluster, connect) {answers(1)}
  unless on ({_TASK}) present_over_time({CONNECT_TASK_STATE}{{state!="failed"}}[10m])
)""",
        summary,
        first
        + per_row(
            f"round(max by (cause) (increase({CONNECT_TASK_FAILURES_TOTAL}"
            "{kafka_cluster=%q, connect=%q, connector=%q, task=%q}[1h]))) > 0",
            "\n- in the last hour by cause {{ .Labels.cause }}: {{ .Value }}",
            *("kafka_cluster", "connect", "connector", "task"),
        )
        + "\nA transaction.boundary.interval.ms at or above the transaction timeout makes it fail again (check"
        " connect_boundary_interval). Caused by a fence (fenced, invalid_epoch), look for"
        " a second worker or Connect cluster with the same"
        " group.id; a zombie is fenced on purpose after a rebalance.",
        hold="5m",
        when="a task stays failed for 5m, or fails repeatedly; fires until Connect reports another state",
    )
    yield Alert(
        "KafkaEosConnectCommitsFailing",
        Severity.WARNING,
        Board.CLIENTS,
        f"""\
max by ({_TASK}) (last_over_time({CONNECT_TASK_OFFSET_COMMIT_RATIO}{{result="failure"}}[{BRIDGE}]))
> on (kafka_cluster, connect, connector) group_left ()
  max by (kafka_cluster, connect, connector) (last_over_time({CONNECTOR_THRESHOLD_RATIO}[{BRIDGE}]))""",
        _WHICH
        + ": {{ $value | humanizePercentage }} of its recent offset commits failed. What it delivers is delivered"
        " again after a restart, and an exactly-once source makes no progress.",
        "First: look for time-outs and fences in the worker's log, then at the transactions of"
        " {{ $labels.connector }}.",
        hold="10m",
        when="more than a tenth (connector: commit_failures) of a task's recent offset commits failed, for 10m",
    )
    yield from _debezium()


def _debezium() -> Iterator[Alert]:
    by = "kafka_cluster, connect, server"
    age = f"max_over_time({DEBEZIUM_LAST_EVENT_AGE_SECONDS}"
    state = f"group by ({by}) (present_over_time({DEBEZIUM_SNAPSHOT_STATE}"
    yield Alert(
        "KafkaEosDebeziumStopped",
        Severity.WARNING,
        Board.CLIENTS,
        f"""\
group by ({by}) (
  max by ({by}) (max_over_time({DEBEZIUM_CONNECTED}[{BRIDGE}])) == 0
  unless
  {state}{{state=~"running|paused"}}[{BRIDGE}]))
  or
  max by ({by}) ({age}{{context="snapshot"}}[{BRIDGE}])) > {SILENT_SECONDS}
  and
  {state}{{state="running"}}[{BRIDGE}]))
)""",
        _DEBEZIUM + " reads nothing from its database: it is not connected, or its snapshot stands still. No change"
        " reaches Kafka; with exactly-once none is repeated when it goes on.",
        "First: read the task's log: the database, its user, its slot, a lock, or the network. The database keeps the"
        " log of changes for it meanwhile, so its disk fills. A restart of the task begins a snapshot again, so every"
        " row of it is in the topic twice.",
        hold="5m",
        when=f"a Debezium connector has had no connection to its database for 5m, outside of a snapshot; or its"
        f" snapshot has read nothing for {SILENT_SECONDS // 60}m, and for 5m more",
    )
    yield Alert(
        "KafkaEosDebeziumLate",
        Severity.WARNING,
        Board.CLIENTS,
        f"""\
max by ({by}) (max_over_time({DEBEZIUM_LAG_SECONDS}[{BRIDGE}])) > {LATE_SECONDS}
and
min by ({by}) ({age}{{context="streaming"}}[{BRIDGE}])) < {SILENT_SECONDS}""",
        _DEBEZIUM + " sends changes {{ $value | humanizeDuration }} after the database made them.",
        "First: see whether its queue is full (then Kafka or the transactions of its task are slow) or empty (then the"
        " database is). Nothing is repeated or lost by it.",
        hold="10m",
        when=f"a Debezium connector sends changes {LATE_SECONDS // 60}m late, for 10m",
    )


def streams_alerts(_: Settings) -> Iterator[Alert]:
    """Streams clients, threads and restores."""
    failed = f'{STREAMS_CLIENT_STATE}{{state=~"error|pending_error"}}'
    yield from _ticket_and_page(
        "KafkaEosStreamsFailed",
        Board.CLIENTS,
        lambda window: f"group by ({_CLIENT}) (present_over_time({failed}[{window}]))",
        "{{ $labels.kafka_cluster }}: Streams client {{ $labels.client_id }} ({{ $labels.target }}) is in state"
        " ERROR. It processes nothing, and does not start again by itself.",
        "First: mend what the exception in the application's log names (uncaught exception handler), then start the"
        " instance again. Its tasks go to other instances if there are any; otherwise their input waits.",
        ("a Streams client failed", "a Streams client stays failed for 5m, or fails repeatedly"),
        "client",
    )
    alive = f'count by ({_JVM}) (group by ({_JVM}, thread) ({STREAMS_THREAD_STATE}{{state!="dead"}}))'
    dead = f'count by ({_JVM}) (group by ({_JVM}, thread) ({STREAMS_THREAD_STATE}{{state="dead"}}))'
    yield Alert(
        "KafkaEosStreamsFailed",
        Severity.WARNING,
        Board.CLIENTS,
        # The metrics of a dead thread may disappear with it: then there are fewer than before. Where the client counts
        # failed threads, and none failed meanwhile, the instance was scaled down.
        f"""\
{dead}
or
max_over_time(({alive})[1h:1m]) - {alive} > 0
unless on ({_JVM})
  max by ({_JVM}) (increase({STREAMS_FAILED_THREADS_TOTAL}[1h])) == 0""",
        "{{ $labels.kafka_cluster }}: {{ $value }} stream thread(s) of {{ $labels.target }} are dead or gone. The"
        " others do their work, and it may be too much for them.",
        "First: read the exception in the application's log, mend what it names, and start the instance again."
        "\nA thread is replaced only where the uncaught exception handler says so (REPLACE_THREAD).",
        hold="10m",
        reason="thread",
        when="a stream thread is dead, or an instance has fewer threads than in the last hour and one failed, for 10m",
    )
    remaining = str(STREAMS_RESTORE_REMAINING_RECORDS)
    yield Alert(
        "KafkaEosStreamsRestoreStuck",
        Severity.WARNING,
        Board.CLIENTS,
        f"""\
max by ({_JVM}, thread, task) (min_over_time({remaining}[15m]))
>= max by ({_JVM}, thread, task) (last_over_time({remaining}[{BRIDGE}] offset 15m))
> 0""",
        _STREAMS_TASK + " has {{ $value }} records to restore, and had no fewer 15m ago. Until it is done it processes"
        " nothing.",
        "First: look for a stalled partition of its changelog topic (KafkaEosLsoStalled names who holds it): a restore"
        " reads committed records only. Otherwise look for fetch errors in the log of thread {{ $labels.thread }}.",
        hold="5m",  # the rest at the end of one restore is less than the minimum of the next one
        keeps=False,
        when="a task has no fewer records to restore than 15m ago, for 5m",
    )
    yield Alert(
        "KafkaEosStreamsRestoreRepeated",
        Severity.WARNING,
        Board.CLIENTS,
        # A restore that began and ended is two changes.
        f"floor(changes((max by ({_JVM}, task) ({remaining}) > bool 0)[1h:30s]) / 2) > {MOST_RESTORES}",
        _STREAMS_TASK + " restored its state {{ $value | humanize }} times in an hour. With exactly-once it throws its"
        " state away at each unclean end, and processes nothing until it is restored.",
        "First: look in the application's log for TaskCorruptedException, or for what ended the transaction before"
        " each restore: a fence, a timeout (KafkaEosTransactionTimeouts), a rebalance.",
        keeps=False,
        when=f"a task restored its state more than {MOST_RESTORES} times in 1h",
    )


def client_alerts(_: Settings) -> Iterator[Alert]:
    """Producers that lost records or cannot recover."""
    yield Alert(
        "KafkaEosProducerRecordErrors",
        Severity.WARNING,
        Board.CLIENTS,
        f"max by ({_CLIENT}) (increase({PRODUCER_RECORD_ERRORS_TOTAL}[10m])) > 0",
        "{{ $labels.kafka_cluster }}: producer {{ $labels.client_id }} of {{ $labels.target }} could not send"
        " {{ $value | humanize }} record(s) in 10 minutes. In a transaction they make it abort; outside of one they are"
        " lost unless the application sends them again.",
        "First: read the exception in the application's log. ProducerFencedException, OutOfOrderSequenceException and"
        " authorization errors are fatal to a Java producer: it has to be closed and made anew. After any other error"
        " the application aborts the transaction and goes on.",
        when="a producer could not send records in the last 10m",
    )
    transactional, idempotent = (
        f'{metric}{{state="fatal_error"}}' for metric in (PRODUCER_TXN_STATE, PRODUCER_IDEMPOTENCE_STATE)
    )
    yield from _ticket_and_page(
        "KafkaEosProducerFatalError",
        Board.CLIENTS,
        lambda window: (
            f"""\
group by ({_CLIENT}) (
  present_over_time({transactional}[{window}])
  or
  present_over_time({idempotent}[{window}])
)"""
        ),
        "{{ $labels.kafka_cluster }}: client {{ $labels.client_id }} of {{ $labels.target }} had a fatal error. It"
        " sends nothing any more until its application makes a new one.",
        "First: read the error in the application's log (rd_kafka_fatal_error, KafkaException with fatal())."
        " Fenced: stop the second instance with its transactional.id before you start this one again. Let the"
        " application close the client and make a new one; if it goes on with the old one, start it again.",
        (
            "a librdkafka client had a fatal error",
            "such a client is still in use 5m later, or has fatal errors repeatedly",
        ),
    )


def _ticket_and_page(
    name: str,
    board: Board,
    expr: Callable[[str], str],
    summary: str,
    description: str,
    when: tuple[str, str],
    reason: str = "",
) -> Iterator[Alert]:
    yield Alert(
        name,
        Severity.WARNING,
        board,
        expr(EVENT_WINDOW),
        summary,
        description,
        keeps=False,
        reason=reason,
        when=f"{when[0]}; fires until {EVENT_WINDOW} after it was last seen",
    )
    yield Alert(
        name, Severity.CRITICAL, board, expr(BRIDGE), summary, description, hold="5m", reason=reason, when=when[1]
    )
