"""Rows about Spark Structured Streaming and audits.

A query is identified by its application and its name only: its listener, event log and checkpoint have different
targets. Two replicas may have different runs of an audit, when a result was posted to one of them only: the newest one
counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, EVENT_WINDOW, Alert, Board, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    AUDIT_FINDINGS,
    AUDIT_LAST_RUN_TIMESTAMP_SECONDS,
    AUDIT_THRESHOLD_SECONDS,
    AUDIT_VERDICT,
    MARKERS_AUDIT,
    QUERY_THRESHOLD_SECONDS,
    SPARK_INPUT_ROWS_TOTAL,
    SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS,
    SPARK_QUERY_STATE,
    SPARK_QUERY_TERMINATIONS_TOTAL,
    SPARK_SOURCE_BLOCKED_OFFSETS,
    SPARK_SOURCE_LAG_OFFSETS,
    SPARK_UNCOMMITTED_BATCHES,
)

_QUERY = "kafka_cluster, spark_application, query"
_LABELS = ("kafka_cluster", "spark_application", "query")
_WHICH = "{{ $labels.kafka_cluster }}: query {{ $labels.query }} of Spark application {{ $labels.spark_application }}"
_PAGED = 'ALERTS{alertname="KafkaEosSparkQueryTerminated", alertstate="firing", severity="critical"}'
_AUDIT = "kafka_cluster, audit, topic"
NEWEST_AUDIT = f"""\
({AUDIT_LAST_RUN_TIMESTAMP_SECONDS} == on ({_AUDIT}) group_left ()
  max by ({_AUDIT}) ({AUDIT_LAST_RUN_TIMESTAMP_SECONDS}))"""
_RUN = "{{ $labels.kafka_cluster }}: audit {{ $labels.audit }} of topic {{ $labels.topic }}"


def spark_alerts(_: Settings) -> Iterator[Alert]:
    """Queries without progress, and queries that an error ended."""
    lag = f"max by ({_QUERY}, topic) ({SPARK_SOURCE_LAG_OFFSETS})"
    yield Alert(
        "KafkaEosSparkQueryStalled",
        Severity.WARNING,
        Board.JOBS,
        # A query that has a state, or whose driver counted rows before it fell silent, or whose checkpoint or lag says
        # that there is work. As long as there is none, a checkpoint alone cannot tell an idle query from a dead one.
        # One that waits for a stalled partition is named by KafkaEosLsoStalled.
        f"""\
time() - max by ({_QUERY}) ({SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS})
> on ({_QUERY}) max by ({_QUERY}) ({QUERY_THRESHOLD_SECONDS})
and on ({_QUERY}) (
  {SPARK_QUERY_STATE}
  or
  {SPARK_INPUT_ROWS_TOTAL}
  or
  {SPARK_UNCOMMITTED_BATCHES} > 0
  or
  (group by ({_QUERY}, topic) ({SPARK_SOURCE_LAG_OFFSETS} > 0) unless
    max by ({_QUERY}, topic) ({SPARK_SOURCE_BLOCKED_OFFSETS}) >= {lag})
)
unless on ({_QUERY}) {SPARK_QUERY_STATE}{{state=~"terminated|failed"}}""",
        _WHICH + " has completed no batch for {{ $value | humanizeDuration }}, nor said that it is idle.",
        "First: see whether its driver is alive. If it is gone, start it again: it goes on from its checkpoint. If it"
        " is alive, look in the driver's log and in Spark's page of streaming queries for what the batch waits for: a"
        " sink, a lock, executors.",
        steady=True,
        when="a query neither completed a batch nor was idle for more than 10m (query: stalled_warning)",
    )
    yield from _terminated()


def _terminated() -> Iterator[Alert]:
    """A failure that is over is a ticket; one that lasts or recurs is a page."""
    failed = f'{SPARK_QUERY_STATE}{{state="failed"}}'
    ended = f'{SPARK_QUERY_TERMINATIONS_TOTAL}{{reason!="stopped"}}'
    summary = _WHICH + " was ended by an error. It reads nothing until it is started again."
    first = (
        "First: read the exception, on the agent's status page (page_url) or in the driver's log, mend what it names,"
        " and start the query again with the same checkpoint."
    )
    # A query may restart between two reads: then only the count shows the failure. One that had failed when it was
    # first seen is found by its state.
    yield Alert(
        "KafkaEosSparkQueryTerminated",
        Severity.WARNING,
        Board.JOBS,
        f"""\
group by ({_QUERY}) (
  present_over_time({failed}[{EVENT_WINDOW}])
  or
  increase({ended}[{EVENT_WINDOW}]) > 0
)""",
        summary,
        first,
        keeps=False,
        when=f"an error ended a query; fires until {EVENT_WINDOW} after the end was last seen",
    )
    yield Alert(
        "KafkaEosSparkQueryTerminated",
        Severity.CRITICAL,
        Board.JOBS,
        # A state is exposed for an hour after a driver's last report. A firing page stays until another state comes.
        f"""\
group by ({_QUERY}) (
  present_over_time({failed}[{BRIDGE}])
  or
  {_PAGED}
  and on ({_QUERY})
  present_over_time({failed}[1d])
  unless on ({_QUERY})
  present_over_time({SPARK_QUERY_STATE}{{state!="failed"}}[10m])
)""",
        summary,
        first
        + per_row(
            f"max by (reason) (increase({SPARK_QUERY_TERMINATIONS_TOTAL}"
            '{kafka_cluster=%q, spark_application=%q, query=%q, reason!="stopped"}[1h])) > 0',
            "\n- in the last hour by {{ .Labels.reason }}: {{ .Value | humanize }}",
            *_LABELS,
        )
        + "\ndata_loss: offsets that it needed are deleted: do not set failOnDataLoss=false before you know which."
        " concurrent_run: a second driver uses the same checkpoint: stop one. fenced: so does a producer of its with"
        " the same transactional.id.",
        hold="5m",
        when="such a query is not started again within 5m, or ends repeatedly; fires until it is started, for a day"
        " at most",
    )


def audit_alerts(_: Settings) -> Iterator[Alert]:
    """Findings, and an audit that has no verdict or does not run any more."""
    yield Alert(
        "KafkaEosAuditFinding",
        Severity.WARNING,
        Board.JOBS,
        f'group by ({_AUDIT}) ({AUDIT_FINDINGS}{{kind!="torn_commit"}} > 0 and ignoring (kind) {NEWEST_AUDIT})',
        _RUN + " found records that break exactly-once.",
        "First: open its report, which has the evidence: partition, offset and key of the worst ones.",
        steady=True,
        when="the last run of an audit has findings",
    )
    yield Alert(
        "KafkaEosAuditUnknown",
        Severity.WARNING,
        Board.JOBS,
        # Compacted topics, which `audit markers` always leaves open, are on its report and on the page.
        f"""\
group by ({_AUDIT}) (
  {AUDIT_VERDICT}{{verdict="unknown",audit!="{MARKERS_AUDIT}"}} and ignoring (verdict) {NEWEST_AUDIT}
  or
  time() - max by ({_AUDIT}) ({AUDIT_LAST_RUN_TIMESTAMP_SECONDS})
  > on (kafka_cluster, audit) group_left () max by (kafka_cluster, audit) ({AUDIT_THRESHOLD_SECONDS})
)""",
        _RUN + " has no verdict: its last run could not decide, or is too old. Whether the topic is exactly-once is"
        " unknown.",
        "First: open its report, which has what could not be determined, and why, and when it ran. Where that is long"
        " ago, look at what runs it. An audit that is not wanted any more is forgotten when its result file is"
        " deleted.",
        steady=True,
        when="the last run of an audit ended without a verdict, or is older than 8d (audit: overdue_warning)",
    )
