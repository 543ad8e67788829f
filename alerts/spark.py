"""Rows about Spark Structured Streaming.

A query is identified by its application and its name only: its listener, event log and checkpoint have different
targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import BRIDGE, EVENT_WINDOW, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    LSO_BLOCKER_INFO,
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    QUERY_THRESHOLD_SECONDS,
    SPARK_INPUT_ROWS_TOTAL,
    SPARK_LAST_PROGRESS_TIMESTAMP_SECONDS,
    SPARK_QUERY_STATE,
    SPARK_QUERY_TERMINATIONS_TOTAL,
    SPARK_SOURCE_BLOCKED_OFFSETS,
    SPARK_SOURCE_LAG_OFFSETS,
    SPARK_UNCOMMITTED_BATCHES,
)

DASHBOARD = "kafka-eos-spark"
_QUERY = "kafka_cluster, spark_application, query"
_LABELS = ("kafka_cluster", "spark_application", "query")
_AT = "{kafka_cluster=%q, spark_application=%q, query=%q}"
_WHICH = "{{ $labels.kafka_cluster }}: query {{ $labels.query }} of Spark application {{ $labels.spark_application }}"
_OVER = f'{SPARK_QUERY_STATE}{{state=~"terminated|failed"}}'

_PAGED = 'ALERTS{alertname="KafkaEosSparkQueryTerminated", alertstate="firing", severity="critical"}'


_alert = partial(Alert, dashboard=DASHBOARD, variables=_LABELS)


def alerts(_: Settings) -> Iterator[Alert]:
    """Queries without progress, and queries that an error ended."""
    yield _no_progress()
    yield _blocked()
    yield from _terminated()


def _no_progress() -> Alert:
    lag = f"max by ({_QUERY}, topic) ({SPARK_SOURCE_LAG_OFFSETS})"
    return _alert(
        "KafkaEosSparkQueryStalled",
        Severity.WARNING,
        # A query that has a state, or whose driver counted rows before it fell silent, or whose checkpoint or lag says
        # that there is work. As long as there is none, a checkpoint alone cannot tell an idle query from a dead one.
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
unless on ({_QUERY}) {_OVER}""",
        _WHICH + " has completed no batch for {{ $value | humanizeDuration }}, nor said that it is idle.",
        "First: see whether its driver is alive. If it is gone, start it again: it goes on from its checkpoint."
        + per_row(
            f"max by (query) ({SPARK_UNCOMMITTED_BATCHES}{_AT}) > 0",
            " Its checkpoint has {{ .Value }} batch(es) that it began and did not commit.",
            *_LABELS,
        )
        + per_row(
            f"topk(5, max by (topic) ({SPARK_SOURCE_LAG_OFFSETS}{_AT}) > 0)",
            "\n- {{ .Labels.topic }}: {{ .Value }} offsets behind",
            *_LABELS,
        )
        + "\nIf it is alive, look in the driver's log and in Spark's page of streaming queries for what the batch waits"
        " for: a sink, a lock, executors.",
        labels=(("reason", "no_progress"),),
        steady=True,
        when="a query neither completed a batch nor was idle for more than 10m (query: stalled_warning)",
    )


def _blocked() -> Alert:
    return _alert(
        "KafkaEosSparkQueryStalled",
        Severity.WARNING,
        f"""\
group by ({_QUERY}, topic) ({SPARK_SOURCE_BLOCKED_OFFSETS} > 0)
and on (kafka_cluster, topic)
  time() - {LSO_STALLED_SINCE_TIMESTAMP_SECONDS} > 600
unless on ({_QUERY}) {_OVER}""",
        _WHICH
        + " cannot read on in {{ $labels.topic }}: a transaction that does not end withholds it. To Spark the query"
        " is idle and healthy.",
        "First: mend the stall (KafkaEosLsoStalled has the next step); nothing is wrong with the query, and it goes on."
        + per_row(
            f"max by (topic) ({SPARK_SOURCE_BLOCKED_OFFSETS}"
            "{kafka_cluster=%q, spark_application=%q, query=%q, topic=%q})",
            " {{ .Value }} offsets are withheld from it.",
            *_LABELS,
            "topic",
        )
        + per_row(
            f"topk(5, max by (partition, application, transactional_id, producer_id, kind) ({LSO_BLOCKER_INFO}"
            "{kafka_cluster=%q, topic=%q}))",
            "\n- partition {{ .Labels.partition }}: held by transactional.id {{ .Labels.transactional_id }} of"
            " application {{ .Labels.application }} (producer id {{ .Labels.producer_id }}), {{ .Labels.kind }}",
            "kafka_cluster",
            "topic",
        ),
        labels=(("reason", "blocked"),),
        when="a query is idle behind a last stable offset that has not moved for more than 10m",
    )


def _terminated() -> Iterator[Alert]:
    """A failure that is over is a ticket; one that lasts or recurs is a page."""
    failed = f'{SPARK_QUERY_STATE}{{state="failed"}}'
    ended = f'{SPARK_QUERY_TERMINATIONS_TOTAL}{{reason!="stopped"}}'
    summary = _WHICH + " was ended by an error. It reads nothing until it is started again."
    description = (
        "First: read the exception, on the agent's status page (page_url) or in the driver's log, mend what it names,"
        " and start the query again with the same checkpoint."
        + per_row(
            f"max by (reason) (increase({SPARK_QUERY_TERMINATIONS_TOTAL}"
            '{kafka_cluster=%q, spark_application=%q, query=%q, reason!="stopped"}[1h])) > 0',
            " In the last hour by {{ .Labels.reason }}: {{ .Value | humanize }}.",
            *_LABELS,
        )
        + "\ndata_loss: offsets that it needed are deleted: do not set failOnDataLoss=false before you know which."
        " concurrent_run: a second driver uses the same checkpoint: stop one. fenced: so does a producer of its with"
        " the same transactional.id."
    )
    # A query may restart between two reads: then only the count shows the failure. One that had failed when it was
    # first seen is found by its state.
    yield _alert(
        "KafkaEosSparkQueryTerminated",
        Severity.WARNING,
        f"""\
group by ({_QUERY}) (
  present_over_time({failed}[{EVENT_WINDOW}])
  or
  increase({ended}[{EVENT_WINDOW}]) > 0
)""",
        summary,
        description,
        keeps=False,
        when=f"an error ended a query; fires until {EVENT_WINDOW} after the end was last seen",
    )
    yield _alert(
        "KafkaEosSparkQueryTerminated",
        Severity.CRITICAL,
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
        description,
        hold="5m",
        when="such a query is not started again within 5m, or ends repeatedly; fires until it is started, for a day"
        " at most",
    )
