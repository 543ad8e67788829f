"""Rows about audits: findings, unknown verdicts and outdated runs.

Two replicas may have different runs, when a result was posted to one of them only: the newest one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.evidence import listed, per_row
from exporter.alerts.rule import Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    AUDIT_FINDINGS,
    AUDIT_LAST_RUN_TIMESTAMP_SECONDS,
    AUDIT_RECORDS,
    AUDIT_THRESHOLD_SECONDS,
    AUDIT_VERDICT,
    MARKERS_AUDIT,
)

DASHBOARD = "kafka-eos-audit"
_AUDIT = "kafka_cluster, audit, topic"
_LABELS = ("kafka_cluster", "audit", "topic")
_AT = "{kafka_cluster=%q, audit=%q, topic=%q}"
NEWEST_AUDIT = f"""\
({AUDIT_LAST_RUN_TIMESTAMP_SECONDS} == on ({_AUDIT}) group_left ()
  max by ({_AUDIT}) ({AUDIT_LAST_RUN_TIMESTAMP_SECONDS}))"""
_WHAT = "{{ $labels.kafka_cluster }}: audit {{ $labels.audit }} of topic {{ $labels.topic }}"
_RAN = per_row(
    f"floor(max by (audit) ({AUDIT_LAST_RUN_TIMESTAMP_SECONDS}{_AT}))",
    " Its last run ended at {{ .Value | humanizeTimestamp }}.",
    *_LABELS,
) + per_row(f"max by (audit) ({AUDIT_RECORDS}{_AT})", " It looked at {{ .Value }} records.", *_LABELS)


_alert = partial(Alert, "KafkaEosAuditFinding", Severity.WARNING, dashboard=DASHBOARD, variables=_LABELS, steady=True)


def alerts(_: Settings) -> Iterator[Alert]:
    """Findings, an unknown verdict, and an audit that does not run any more."""
    yield _alert(
        f'group by ({_AUDIT}) ({AUDIT_FINDINGS}{{kind!="torn_commit"}} > 0 and ignoring (kind) {NEWEST_AUDIT})',
        _WHAT
        + " found records that break exactly-once"
        + listed(
            f"max by (kind) ({AUDIT_FINDINGS}{_AT}) > 0",
            "{{ $row.Labels.kind }}: {{ $row.Value }}",
            *_LABELS,
        )
        + ".",
        "First: open its report, which has the evidence: partition, offset and key of the worst ones." + _RAN,
        labels=(("reason", "findings"),),
        when="the last run of an audit has findings",
    )
    yield _alert(
        # Compacted topics, which `audit markers` always leaves open, are on its report and on the page.
        f'group by ({_AUDIT}) ({AUDIT_VERDICT}{{verdict="unknown",audit!="{MARKERS_AUDIT}"}}'
        f" and ignoring (verdict) {NEWEST_AUDIT})",
        _WHAT + " could not tell whether the topic is exactly-once.",
        "First: open its report, which has what could not be determined, and why." + _RAN,
        labels=(("reason", "unknown"),),
        when="the last run of an audit ended without a verdict",
    )
    yield _alert(
        f"""\
time() - max by ({_AUDIT}) ({AUDIT_LAST_RUN_TIMESTAMP_SECONDS})
> on (kafka_cluster, audit) group_left () max by (kafka_cluster, audit) ({AUDIT_THRESHOLD_SECONDS})""",
        _WHAT + " last ran {{ $value | humanizeDuration }} ago. What it last said is old.",
        "First: look at what runs it. An audit that is not wanted any more is forgotten when its result file is"
        " deleted.",
        labels=(("reason", "overdue"),),
        when="the last run of an audit is older than 8d (audit: overdue_warning)",
    )
