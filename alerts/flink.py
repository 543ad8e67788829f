"""Flink jobs: precommitted transactions that are not committed, and losses by that.

The agent decides what is at risk, by the job's rhythm. The deadline is a series, so that the alert's text has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.evidence import per_row
from exporter.alerts.rule import EVENT_SECONDS, EVENT_WINDOW, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS,
    FLINK_CHECKPOINT_INTERVAL_SECONDS,
    FLINK_LOSS_INFO,
    FLINK_LOSS_TIMESTAMP_SECONDS,
)

DASHBOARD = "kafka-eos-transactions"
_BY = "kafka_cluster, application"
_LABELS = ("kafka_cluster", "application")
_AT = "{kafka_cluster=%q, application=%q}"
_DEADLINE = FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS


_alert = partial(Alert, dashboard=DASHBOARD, variables=_LABELS)


def alerts(_: Settings) -> Iterator[Alert]:
    """Precommitted transactions that are not committed, a page if proven and a ticket if likely; and lost ones."""
    yield _at_risk(
        Severity.CRITICAL,
        "proven",
        "has precommitted transactions",
        "the job's usual interval, or within a third of its timeout",
        "",
    )
    yield _at_risk(
        Severity.WARNING,
        "likely",
        "likely has precommitted transactions",
        "a third of its timeout: before that, the job may only have a longer interval now",
        f'\nunless on ({_BY}) {_DEADLINE}{{precommitted="proven"}}',
    )
    yield _alert(
        "KafkaEosFlinkDataLost",
        Severity.CRITICAL,
        f"time() - max by ({_BY}) ({FLINK_LOSS_TIMESTAMP_SECONDS}) < {EVENT_SECONDS}",
        "{{ $labels.kafka_cluster }}: Flink job {{ $labels.application }} lost what it had precommitted,"
        " {{ $value | humanizeDuration }} ago. Where its checkpoint was complete, no restart writes these records"
        " again.",
        "First: tell the owner of the data which records are missing, by the list below."
        + per_row(
            f"topk(5, floor(max by (transactional_id, checkpoint, completed) ({FLINK_LOSS_TIMESTAMP_SECONDS}{_AT})))",
            "\n- transactional.id {{ .Labels.transactional_id }}, number {{ .Labels.checkpoint }}, at"
            " {{ .Value | humanizeTimestamp }}; checkpoint complete: {{ .Labels.completed }}",
            *_LABELS,
        )
        + per_row(
            f"topk(10, max by (transactional_id, topic, partition, start_offset, end_offset) ({FLINK_LOSS_INFO}{_AT}))",
            "\n- {{ .Labels.topic }}-{{ .Labels.partition }} of {{ .Labels.transactional_id }}"
            "{{ if .Labels.start_offset }}, from offset {{ .Labels.start_offset }}, before {{ .Labels.end_offset }}"
            "{{ end }}",
            *_LABELS,
        ),
        when=f"the server ended a transaction that a Flink job had precommitted; fires until {EVENT_WINDOW} after the"
        " last one",
    )


def _at_risk(severity: Severity, precommitted: str, has: str, within: str, otherwise: str) -> Alert:
    mine = f'{_DEADLINE}{{kafka_cluster=%q, application=%q, precommitted="{precommitted}"}}'
    return _alert(
        "KafkaEosFlinkTransactionAtRisk",
        severity,
        f'min by ({_BY}) ({_DEADLINE}{{precommitted="{precommitted}"}}) - time(){otherwise}',
        "{{ $labels.kafka_cluster }}: Flink job {{ $labels.application }} "
        + has
        + " and does not commit them. The first is lost in {{ $value | humanizeDuration }}.",
        "First: start the job from its last checkpoint before that. Do not end these transactions by hand, and do not"
        " start the job from an older checkpoint or without one."
        + per_row(
            f"max({FLINK_CHECKPOINT_INTERVAL_SECONDS}{_AT})",
            " Its checkpoints are usually {{ .Value | humanizeDuration }} apart.",
            *_LABELS,
        )
        + per_row(
            f"bottomk(5, floor(min by (transactional_id) ({mine})))",
            "\n- transactional.id {{ .Labels.transactional_id }} is lost at {{ .Value | humanizeTimestamp }}",
            *_LABELS,
        )
        + "\nIf it cannot be started, tell the owner of the data which records will be missing.",
        keeps=False,
        when=f"a transaction of a Flink job is precommitted ({precommitted}) and not committed within {within}",
    )
