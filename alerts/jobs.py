"""Rows about Spark Structured Streaming and audits.

A query is identified by its application and its name only: its listener, event log and checkpoint have different
targets. Two replicas may have different runs of an audit, when a result was posted to one of them only: the newest one
counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter import catalogue
from exporter.alerts.rule import Alert, Board, Severity, labelled

_QUERY = "kafka_cluster, spark_application, query"
_WHICH = "{{ $labels.kafka_cluster }}: query {{ $labels.query }} of Spark application {{ $labels.spark_application }}"
_AUDIT = "kafka_cluster, audit, topic"
NEWEST_AUDIT = f"""\
({catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS} == on ({_AUDIT}) group_left ()
  max by ({_AUDIT}) ({catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS}))"""


def spark_alerts() -> Iterator[Alert]:
    """Queries without progress."""
    lag = f"max by ({_QUERY}, topic) ({catalogue.SPARK_SOURCE_LAG_OFFSETS})"
    yield Alert(
        "KafkaEosSparkQueryStalled",
        Severity.WARNING,
        Board.JOBS,
        # A query that has a state, or whose driver counted rows before it fell silent, or whose checkpoint or lag says
        # that there is work. As long as there is none, a checkpoint alone cannot tell an idle query from a dead one.
        # One that waits for a stalled partition is named by KafkaEosLsoStalled.
        f"""\
time() - max by ({_QUERY}) ({catalogue.SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS})
> on ({_QUERY}) max by ({_QUERY}) ({catalogue.QUERY_THRESHOLD_SECONDS})
and on ({_QUERY}) (
  {catalogue.SPARK_QUERY_STATE}
  or
  {catalogue.SPARK_INPUT_ROWS_TOTAL}
  or
  {catalogue.SPARK_UNCOMMITTED_BATCHES} > 0
  or
  (group by ({_QUERY}, topic) ({catalogue.SPARK_SOURCE_LAG_OFFSETS} > 0) unless
    max by ({_QUERY}, topic) ({catalogue.SPARK_SOURCE_BLOCKED_OFFSETS}) >= {lag})
)
unless on ({_QUERY}) {catalogue.SPARK_QUERY_STATE}{{state=~"terminated|failed"}}""",
        _WHICH + " has completed no batch for {{ $value | humanizeDuration }}, nor said that it is idle.",
        "First: see whether its driver is alive. If it is gone, start it again: it goes on from its checkpoint. If it"
        " is alive, look in the driver's log and in Spark's page of streaming queries for what the batch waits for: a"
        " sink, a lock, executors.",
        steady=True,
        when="a query neither completed a batch nor was idle for more than 10m (query: stalled_warning)",
    )


def audit_alerts() -> Iterator[Alert]:
    """An audit that is not clean."""
    # Compacted topics, which `audit markers` always leaves open, are on its report and on the page.
    undecided = f'verdict="unknown", audit!="{catalogue.MARKERS_AUDIT}"'
    unknown = f"{catalogue.AUDIT_VERDICT}{{{undecided}}} and ignoring (verdict) {NEWEST_AUDIT}"
    findings = f'{catalogue.AUDIT_FINDINGS}{{kind!="torn_commit"}} > 0 and ignoring (kind) {NEWEST_AUDIT}'
    overdue = f"""\
time() - max by ({_AUDIT}) ({catalogue.AUDIT_LAST_RUN_TIMESTAMP_SECONDS})
> on (kafka_cluster, audit) group_left () max by (kafka_cluster, audit) ({catalogue.AUDIT_THRESHOLD_SECONDS})"""
    verdicts = {"findings": findings, "unknown": unknown, "overdue": overdue}
    yield Alert(
        "KafkaEosAuditNotClean",
        Severity.WARNING,
        Board.JOBS,
        "\nor\n".join(
            labelled(f"group by ({_AUDIT}) ({expr})", "verdict", verdict) for verdict, expr in verdicts.items()
        ),
        "{{ $labels.kafka_cluster }}: audit {{ $labels.audit }} of topic {{ $labels.topic }}: {{ $labels.verdict }}."
        ' {{ if eq $labels.verdict "findings" }}It found records that break exactly-once{{ else }}Whether the topic is'
        " exactly-once is unknown{{ end }}.",
        "First: open its report: it has the partition, offset and key of the worst findings, or what could not be"
        " determined, and why. Overdue, look at what runs it; an audit that is not wanted any more is forgotten when"
        " its result file is deleted.",
        steady=True,
        when="the last run of an audit has findings, ended without a verdict, or is older than 8d (audit:"
        " overdue_warning)",
    )
