"""Rows about Connect and Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import per_row
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

MOST_RESTORES = 3
"""In an hour: a rolling restart of a few instances moves a task as often."""
_TASK = "kafka_cluster, connect, connector, task"
_CONNECTOR_LABELS = ("kafka_cluster", "connect", "connector")
_TASK_LABELS = (*_CONNECTOR_LABELS, "task")
_WHICH = (
    "{{ $labels.kafka_cluster }}: task {{ $labels.task }} of connector {{ $labels.connector }} (Connect"
    " {{ $labels.connect }})"
)

# A subject of the posture is <Connect cluster>/<connector>.
_SHORT_TIMEOUT = (
    f"group by (kafka_cluster) (label_replace(label_replace({POSTURE_CHECK}{{kafka_cluster=%q, "
    'check="connect_boundary_interval"}} == 0,'
    ' "connect", "$1", "subject", "([^/]*)/.*"), "connector", "$1", "subject", "[^/]*/(.*)")'
    f" and on (kafka_cluster, connect, connector) {CONNECT_CONNECTOR_INFO}"
    "{kafka_cluster=%q, connect=%q, connector=%q})"
)
"""The finding about the connector of an alert; no row without one."""

_PAGED = 'ALERTS{alertname="KafkaEosConnectTaskFailed", alertstate="firing", severity="critical"}'


def _answers(up: int) -> str:
    """Return whether a Connect cluster answers an agent completely. The source's target is its name."""
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
        _WHICH
        + ": {{ $value | humanizePercentage }} of its recent offset commits failed. What it delivers is delivered"
        " again after a restart, and an exactly-once source makes no progress.",
        "First: look for time-outs and fences in the worker's log, then at the transactions of"
        " {{ $labels.connector }}.",
        "kafka-eos-connect",
        _CONNECTOR_LABELS,
        hold="10m",
        when="more than a tenth (connector: commit_failures) of a task's recent offset commits failed, for 10m",
    )
    yield _restore()
    yield _restored_again()


def _task_failed() -> Iterator[Alert]:
    """A failure that is over is a ticket; one that lasts or recurs is a page."""
    failed = f'{CONNECT_TASK_STATE}{{state="failed"}}'
    summary = _WHICH + " failed. Nothing restarts it by itself, and its data waits."
    description = (
        "First: read why, on the agent's status page (page_url) or by GET /connectors/{{ $labels.connector }}/status of"
        " any worker."
        + per_row(
            f"round(max by (cause) (increase({CONNECT_TASK_FAILURES_TOTAL}"
            "{kafka_cluster=%q, connect=%q, connector=%q, task=%q}[1h]))) > 0",
            " In the last hour by cause {{ .Labels.cause }}: {{ .Value }}.",
            *_TASK_LABELS,
        )
        + per_row(
            _SHORT_TIMEOUT,
            " Its transaction.boundary.interval.ms is at or above its transaction timeout (check"
            " connect_boundary_interval): the coordinator ends each transaction before the task commits it. Set a"
            " shorter interval, or a longer producer.override.transaction.timeout.ms, before it is restarted.",
            "kafka_cluster",
            *_CONNECTOR_LABELS,
        )
        + "\nCaused by a fence (fenced, invalid_epoch), look for a second worker or Connect cluster with the same"
        " group.id; a zombie is fenced on purpose after a rebalance."
        "\nThen restart it: POST /connectors/{{ $labels.connector }}/tasks/{{ $labels.task }}/restart"
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
        "{{ $labels.kafka_cluster }}: Streams task {{ $labels.task }} of {{ $labels.target }} has {{ $value }}"
        " records to"
        f" restore, and had no fewer {window} ago. Until it is done it processes nothing.",
        "First: look for a stalled partition of its changelog topic (KafkaEosLsoStalled names who holds it): a restore"
        " reads committed records only. Otherwise look for fetch errors in the log of thread {{ $labels.thread }}."
        + per_row(
            f"topk(5, max by (application, topic) ({STREAMS_CHANGELOG_LAG_OFFSETS}"
            "{kafka_cluster=%q, target=%q}) > 0)",
            "\n- {{ .Labels.topic }}: {{ .Value }} offsets are written and not committed",
            "kafka_cluster",
            "target",
        ),
        "kafka-eos-streams",
        ("kafka_cluster", "target"),
        hold="5m",  # the rest at the end of one restore is less than the minimum of the next one
        keeps=False,
        when=f"a task has no fewer records to restore than {window} ago, for 5m",
    )


def _restored_again() -> Alert:
    by = "kafka_cluster, target, task"
    return Alert(
        "KafkaEosStreamsRestoreRepeated",
        Severity.WARNING,
        # A restore that began and ended is two changes.
        f"floor(changes((max by ({by}) ({STREAMS_RESTORE_REMAINING_RECORDS}) > bool 0)[1h:30s]) / 2) > {MOST_RESTORES}",
        "{{ $labels.kafka_cluster }}: Streams task {{ $labels.task }} of {{ $labels.target }} restored its state"
        " {{ $value | humanize }} times in an hour. With exactly-once it throws its state away at each unclean end, and"
        " processes nothing until it is restored.",
        "First: look in the application's log for TaskCorruptedException, or for what ended the transaction before"
        " each restore: a fence, a timeout (KafkaEosTransactionTimeouts), a rebalance.",
        "kafka-eos-streams",
        ("kafka_cluster", "target"),
        keeps=False,
        when=f"a task restored its state more than {MOST_RESTORES} times in 1h",
    )
