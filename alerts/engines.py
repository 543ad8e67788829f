"""Rows about engines: Connect's commits, Debezium, threads and restores of Kafka Streams, Java producers."""

from __future__ import annotations

from collections.abc import Iterator

from exporter import catalogue
from exporter.alerts.rule import BRIDGE, Alert, Board, Severity

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


def connect_alerts() -> Iterator[Alert]:
    """Connect tasks that cannot commit, and Debezium connectors that stopped or are late."""
    yield Alert(
        "KafkaEosConnectCommitsFailing",
        Severity.WARNING,
        Board.CLIENTS,
        f"""\
max by ({_TASK}) (last_over_time({catalogue.CONNECT_TASK_OFFSET_COMMIT_RATIO}{{result="failure"}}[{BRIDGE}]))
> on (kafka_cluster, connect, connector) group_left ()
  max by (kafka_cluster, connect, connector) (last_over_time({catalogue.CONNECTOR_THRESHOLD_RATIO}[{BRIDGE}]))""",
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
    age = f"max_over_time({catalogue.DEBEZIUM_LAST_EVENT_AGE_SECONDS}"
    state = f"group by ({by}) (present_over_time({catalogue.DEBEZIUM_SNAPSHOT_STATE}"
    yield Alert(
        "KafkaEosDebeziumStopped",
        Severity.WARNING,
        Board.CLIENTS,
        f"""\
group by ({by}) (
  max by ({by}) (max_over_time({catalogue.DEBEZIUM_CONNECTED}[{BRIDGE}])) == 0
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
        "KafkaEosDebeziumSnapshotRepeated",
        Severity.WARNING,
        Board.CLIENTS,
        f"max by ({by}) (increase({catalogue.DEBEZIUM_SNAPSHOT_RESTARTS_TOTAL}[1h])) > 0",
        _DEBEZIUM
        + " began its snapshot again before it was complete. Rows that were read before are in the topic twice,"
        " also with exactly-once.",
        "First: let it end, then remove the repeated rows where a sink does not replace them by key: `audit` with"
        " `format: debezium` finds them. Read the task's log for why it failed before the next table is added.",
        keeps=False,
        when="a snapshot of a Debezium connector began again in the last hour before it was complete",
    )
    yield Alert(
        "KafkaEosDebeziumLate",
        Severity.WARNING,
        Board.CLIENTS,
        f"""\
max by ({by}) (max_over_time({catalogue.DEBEZIUM_LAG_SECONDS}[{BRIDGE}])) > {LATE_SECONDS}
and
min by ({by}) ({age}{{context="streaming"}}[{BRIDGE}])) < {SILENT_SECONDS}""",
        _DEBEZIUM + " sends changes {{ $value | humanizeDuration }} after the database made them.",
        "First: see whether its queue is full (then Kafka or the transactions of its task are slow) or empty (then the"
        " database is). Nothing is repeated or lost by it.",
        hold="10m",
        when=f"a Debezium connector sends changes {LATE_SECONDS // 60}m late, for 10m",
    )


def streams_alerts() -> Iterator[Alert]:
    """Threads of Streams, and restores."""
    alive = f'count by ({_JVM}) (group by ({_JVM}, thread) ({catalogue.STREAMS_THREAD_STATE}{{state!="dead"}}))'
    dead = f'count by ({_JVM}) (group by ({_JVM}, thread) ({catalogue.STREAMS_THREAD_STATE}{{state="dead"}}))'
    yield Alert(
        "KafkaEosStreamsFailed",
        Severity.WARNING,
        Board.CLIENTS,
        # The metrics of a dead thread may disappear with it: then there are fewer than before. Where the client counts
        # failed threads, and none failed meanwhile, the instance was scaled down.
        f"""\
{dead}
or
0 - ({alive} - max_over_time(({alive})[1h:1m])) > 0
unless on ({_JVM})
  max by ({_JVM}) (increase({catalogue.STREAMS_FAILED_THREADS_TOTAL}[1h])) == 0""",
        "{{ $labels.kafka_cluster }}: {{ $value }} stream thread(s) of {{ $labels.target }} are dead or gone. The"
        " others do their work, and it may be too much for them.",
        "First: read the exception in the application's log, mend what it names, and start the instance again."
        "\nA thread is replaced only where the uncaught exception handler says so (REPLACE_THREAD).",
        hold="10m",
        reason="thread",
        when="a stream thread is dead, or an instance has fewer threads than in the last hour and one failed, for 10m",
    )
    remaining = catalogue.STREAMS_RESTORE_REMAINING_RECORDS
    yield Alert(
        "KafkaEosStreamsRestoring",
        Severity.WARNING,
        Board.CLIENTS,
        # A restore that began and ended is two changes. The series on the left keep their order, which those of a
        # subquery do not, so that the same twenty are taken each time.
        f"""\
group by ({_JVM}, task) (
  {remaining}
  and on ({_JVM}, task) (max by ({_JVM}, thread, task) (min_over_time({remaining}[15m]))
  >= max by ({_JVM}, thread, task) (last_over_time({remaining}[{BRIDGE}] offset 15m))
  > 0
  or
  floor(changes((max by ({_JVM}, task) ({remaining}) > bool 0)[1h:30s]) / 2) > {MOST_RESTORES})
)""",
        "{{ $labels.kafka_cluster }}: Streams task {{ $labels.task }} of {{ $labels.target }} does not get beyond the"
        f" restore of its state, or restored it more than {MOST_RESTORES} times in an hour. Meanwhile it processes"
        " nothing.",
        "First: look for a stalled partition of its changelog topic (KafkaEosLsoStalled names who holds it): a restore"
        " reads committed records only. Otherwise look in the application's log for fetch errors. Restored again and"
        " again: with exactly-once each unclean end throws the state away; look for TaskCorruptedException, or for what"
        " ended the transaction before each restore: a fence, a timeout (KafkaEosTransactionTimeouts), a rebalance.",
        hold="5m",  # the rest at the end of one restore is less than the minimum of the next one
        keeps=False,
        when="a Streams task has no fewer records to restore than 15m ago, or restored its state more than"
        f" {MOST_RESTORES} times in 1h; for 5m",
    )


def client_alerts() -> Iterator[Alert]:
    """Producers that lost records."""
    yield Alert(
        "KafkaEosProducerRecordErrors",
        Severity.WARNING,
        Board.CLIENTS,
        f"max by ({_CLIENT}) (increase({catalogue.PRODUCER_RECORD_ERRORS_TOTAL}[10m])) > 0",
        "{{ $labels.kafka_cluster }}: producer {{ $labels.client_id }} of {{ $labels.target }} could not send"
        " {{ $value | humanize }} record(s) in 10 minutes. In a transaction they make it abort; outside of one they are"
        " lost unless the application sends them again.",
        "First: read the exception in the application's log. ProducerFencedException, OutOfOrderSequenceException and"
        " authorization errors are fatal to a Java producer: it has to be closed and made anew. After any other error"
        " the application aborts the transaction and goes on.",
        when="a producer could not send records in the last 10m",
    )
