"""Rows about Connect and Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each
from exporter.alerts.rule import BRIDGE, EVENT_WINDOW, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    CONNECT_CONNECTOR_INFO,
    CONNECT_TASK_FAILURES_TOTAL,
    CONNECT_TASK_OFFSET_COMMIT_RATIO,
    CONNECT_TASK_STATE,
    CONNECTOR_THRESHOLD_RATIO,
    POSTURE_CHECK,
    SOURCE_UP,
    STREAMS_CHANGELOG_LAG_OFFSETS,
    STREAMS_RESTORE_REMAINING_RECORDS,
)

_TASK = "kafka_cluster, connect, connector, task"
_CONNECTOR_LABELS = ("kafka_cluster", "connect", "connector")
_TASK_LABELS = (*_CONNECTOR_LABELS, "task")
_WHICH = "Task {{ $labels.task }} of connector {{ $labels.connector }} (Connect cluster {{ $labels.connect }})"

# A subject of the posture is <Connect cluster>/<connector>.
_SHORT_TIMEOUT = (
    f'group by (kafka_cluster) (label_replace(label_replace({POSTURE_CHECK}{{check="connect_boundary_interval"}} == 0,'
    ' "connect", "$1", "subject", "([^/]*)/.*"), "connector", "$1", "subject", "[^/]*/(.*)")'
    f" and on (kafka_cluster, connect, connector) {CONNECT_CONNECTOR_INFO}"
    "{kafka_cluster=%q, connect=%q, connector=%q})"
)
"""The finding about the connector of an alert; no row without one."""

_PAGED = 'ALERTS{alertname="KafkaEosConnectTaskFailed", alertstate="firing", severity="critical"}'


def _answers(up: int) -> str:
    """Whether a Connect cluster answers an agent completely. The source's target is its name."""
    return f'label_replace({SOURCE_UP}{{source="connect"}} == {up}, "connect", "$1", "target", "(.*)")'


def alerts(_: Settings) -> Iterator[Alert]:
    """Connect tasks that fail or cannot commit, and Streams tasks that cannot restore."""
    yield from _task_failed()
    yield Alert(
        "KafkaEosConnectCommitsFailing",
        Severity.WARNING,
        f"""\
max by ({_TASK}) (last_over_time({CONNECT_TASK_OFFSET_COMMIT_RATIO}{{result="failure"}}[{BRIDGE}]))
> on (kafka_cluster, connect, connector) group_left ()
  max by (kafka_cluster, connect, connector) (last_over_time({CONNECTOR_THRESHOLD_RATIO}[{BRIDGE}]))""",
        "A Connect task cannot commit its offsets.",
        _WHICH
        + ": {{ $value | humanizePercentage }} of its recent offset commits failed. What it delivers meanwhile is"
        " delivered again after a restart, and an exactly-once source task makes no progress at all. Look for time-outs"
        " and fences in the worker's log, and at the transactions of {{ $labels.connector }}.",
        "kafka-eos-connect",
        _CONNECTOR_LABELS,
        hold="10m",
        when="more than a tenth (connector: commit_failures) of a task's recent offset commits failed, for 10m",
    )
    yield _restore()


def _task_failed() -> Iterator[Alert]:
    """A failure that is over is a ticket; one that lasts or recurs is a page."""
    failed = f'{CONNECT_TASK_STATE}{{state="failed"}}'
    summary = "A Connect task has failed; nothing restarts it by itself."
    description = (
        _WHICH
        + " failed."
        + each(
            f"round(max by (cause) (increase({CONNECT_TASK_FAILURES_TOTAL}"
            "{kafka_cluster=%q, connect=%q, connector=%q, task=%q}[1h]))) > 0",
            " In the last hour by cause {{ .Labels.cause }}: {{ .Value }}.",
            *_TASK_LABELS,
        )
        + each(
            _SHORT_TIMEOUT,
            " The posture finds its transaction.boundary.interval.ms at or above its transaction timeout"
            " (connect_boundary_interval): the coordinator ends each transaction before the task commits it, and the"
            " task fails with invalid_epoch. Set a shorter interval, or a longer"
            " producer.override.transaction.timeout.ms, before it is restarted.",
            *_CONNECTOR_LABELS,
        )
        + " The agent's status page (page_url) has the worker and the end of the trace; all of it is in GET"
        " /connectors/{{ $labels.connector }}/status of any worker. Caused by a fence (fenced, invalid_epoch),"
        " look first for a second worker or Connect cluster with the same group.id; a zombie is fenced on purpose after"
        " a rebalance. Then restart it: POST /connectors/{{ $labels.connector }}/tasks/{{ $labels.task }}/restart"
    )
    yield Alert(
        "KafkaEosConnectTaskFailed",
        Severity.WARNING,
        f"group by ({_TASK}) (present_over_time({failed}[{EVENT_WINDOW}]))",
        summary,
        description,
        "kafka-eos-connect",
        _CONNECTOR_LABELS,
        keeps=False,
        when=f"a task failed; fires until {EVENT_WINDOW} after the failure was last seen",
    )
    yield Alert(
        "KafkaEosConnectTaskFailed",
        Severity.CRITICAL,
        # A firing page stays while Connect does not answer: it is not known that the task runs again.
        f"""\
group by ({_TASK}) (
  present_over_time({failed}[{BRIDGE}])
  or
  {_PAGED}
  and on (kafka_cluster, connect) {_answers(0)}
  unless on (kafka_cluster, connect) {_answers(1)}
  unless on ({_TASK}) present_over_time({CONNECT_TASK_STATE}{{state!="failed"}}[10m])
)""",
        summary,
        description,
        "kafka-eos-connect",
        _CONNECTOR_LABELS,
        hold="5m",
        when="a task stays failed for 5m, or fails repeatedly; fires until Connect reports another state",
    )


def _restore() -> Alert:
    window = "15m"
    by = "kafka_cluster, target, thread, task"
    remaining = str(STREAMS_RESTORE_REMAINING_RECORDS)
    return Alert(
        "KafkaEosStreamsRestoreStuck",
        Severity.WARNING,
        f"""\
max by ({by}) (min_over_time({remaining}[{window}]))
>= max by ({by}) (last_over_time({remaining}[{BRIDGE}] offset {window}))
> 0""",
        "A Kafka Streams task restores its state and makes no progress.",
        "Task {{ $labels.task }} on thread {{ $labels.thread }} ({{ $labels.target }}) has {{ $value }} records to"
        f" restore, and had no fewer {window} ago; until it is done it processes nothing."
        + each(
            f"topk(5, max by (application, topic) ({STREAMS_CHANGELOG_LAG_OFFSETS}"
            "{kafka_cluster=%q, target=%q}) > 0)",
            "\n- {{ .Labels.topic }}: {{ .Value }} offsets are written and not committed",
            "kafka_cluster",
            "target",
        )
        + "\nA restore reads committed records only: an open or hanging transaction in the changelog stops it, and a"
        " stalled partition of that topic names who. Otherwise look at fetch errors in the application's log.",
        "kafka-eos-streams",
        ("kafka_cluster", "target"),
        hold="5m",  # the rest at the end of one restore is less than the minimum of the next one
        keeps=False,
        when=f"a task has no fewer records to restore than {window} ago, for 5m",
    )
