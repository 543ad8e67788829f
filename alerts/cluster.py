"""Rows about what exactly-once depends on: the transaction log with its replicas, and the posture."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import listed, per_row
from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    BROKER_REQUEST_ERRORS_TOTAL,
    INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS,
    INTERNAL_TOPIC_PARTITIONS,
    POSTURE_CHECK,
    TRANSACTIONAL_IDS_UNAVAILABLE,
)
from exporter.dashboards.posture_advice import WHAT_TO_SET

LOG_SECONDS = 240
"""Less than the five minutes after which its transactions are pages themselves, so that the cause is reported first."""


def alerts(_: Settings) -> Iterator[Alert]:
    """The transaction log that cannot be made or has missing replicas, and failed posture checks."""
    yield from _not_made()
    at = '{kafka_cluster=%q, topic="__transaction_state", condition=~"offline|under_min_isr"}'
    broken = '{topic="__transaction_state", condition=~"offline|under_min_isr"}'
    yield Alert(
        "KafkaEosTransactionLogUnderMinIsr",
        Severity.CRITICAL,
        # The age of one partition's gap, whose start is exposed: three short gaps do not add up to a long one.
        f"time() - min by (kafka_cluster) ({INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS}{broken}) > {LOG_SECONDS}",
        "{{ $labels.kafka_cluster }}:"
        + per_row(
            f"sum(max by (condition) ({INTERNAL_TOPIC_PARTITIONS}{at}))",
            " {{ .Value }}",
            "kafka_cluster",
        )
        + per_row(
            f'max({INTERNAL_TOPIC_PARTITIONS}{{kafka_cluster=%q, topic="__transaction_state", condition="total"}})',
            " of {{ .Value }}",
            "kafka_cluster",
        )
        + " transaction-log partitions take no writes for {{ $value | humanizeDuration }}. Producers whose ids live"
        " there can neither commit nor start.",
        "First: bring back the missing brokers. Do not lower min.insync.replicas: what is then lost is lost."
        + per_row(
            f"max by (condition) ({INTERNAL_TOPIC_PARTITIONS}{at}) > 0",
            "\n- {{ .Value }} partition(s) {{ .Labels.condition }}",
            "kafka_cluster",
        )
        + per_row(
            f"topk(5, max by (application) ({TRANSACTIONAL_IDS_UNAVAILABLE}{{kafka_cluster=%q}}) > 0)",
            "\n- application {{ .Labels.application }}: {{ .Value }} transactional id(s) can do nothing",
            "kafka_cluster",
        ),
        "kafka-eos-overview",
        when="a partition of `__transaction_state` is offline or under its minimum ISR for more than 4m",
    )
    yield Alert(
        "KafkaEosPostureFailed",
        Severity.WARNING,
        f"min by (kafka_cluster, check) (last_over_time({POSTURE_CHECK}[{BRIDGE}])) < 1",
        "{{ $labels.kafka_cluster }}: check {{ $labels.check }} fails"
        + per_row(
            f"count(group by (subject) ({POSTURE_CHECK}{{kafka_cluster=%q, check=%q}} < 1))",
            " for {{ .Value }} subject(s)",
            "kafka_cluster",
            "check",
        )
        + listed(
            f"topk(3, group by (subject) ({POSTURE_CHECK}{{kafka_cluster=%q, check=%q}} < 1))",
            "{{ $row.Labels.subject }}",
            "kafka_cluster",
            "check",
        )
        + ". Exactly-once does not survive the next failure there; office hours are soon enough.",
        "First: run `kafka-eos-exporter check posture`, or open the agent's status page (page_url): both show each"
        " value and what it should be.{{ with $labels.check }}"
        + "".join(
            f'{{{{ if eq . "{name}" }}}} What to set: {remedy}.{{{{ end }}}}'
            for name, remedy in sorted(WHAT_TO_SET.items())
        )
        + "{{ end }}"
        + per_row(
            f"topk(10, group by (subject) ({POSTURE_CHECK}{{kafka_cluster=%q, check=%q}} < 1))",
            "\n- {{ .Labels.subject }}",
            "kafka_cluster",
            "check",
        ),
        "kafka-eos-overview",
        hold="15m",
        when="a check of the EOS posture fails for 15m; one alert lists all subjects of the check",
    )


def _not_made() -> Iterator[Alert]:
    """A ticket by the settings alone; a page once brokers refuse those that look for a coordinator."""
    check = f'{POSTURE_CHECK}{{check="internal_topic_creation", subject="__transaction_state"}}'
    fails = f"min by (kafka_cluster) (last_over_time({check}[{BRIDGE}])) < 1"
    unavailable = 'request="FindCoordinator", error="COORDINATOR_NOT_AVAILABLE"'
    refused = f"max by (kafka_cluster) (increase({BROKER_REQUEST_ERRORS_TOTAL}{{{unavailable}}}[10m])) > 0"
    fix = (
        "First: set transaction.state.log.replication.factor no higher than the number of brokers, on every broker, and"
        " restart them; or start the missing brokers. `kafka-eos-exporter check posture` has both numbers. Nothing is"
        " lost: no transaction has begun."
    )
    what = (
        "{{ $labels.kafka_cluster }}: __transaction_state cannot be made, more replicas are set than there are brokers."
    )
    yield Alert(
        "KafkaEosTransactionLogNotMade",
        Severity.CRITICAL,
        f"{fails} and on (kafka_cluster) {refused}",
        f"{what} Clients look for a coordinator and are refused: no transactional producer can start.",
        fix,
        "kafka-eos-overview",
        hold="5m",
        when="the same, for 5m, while brokers refuse FindCoordinator with COORDINATOR_NOT_AVAILABLE (needs their JMX)",
    )
    yield Alert(
        "KafkaEosTransactionLogNotMade",
        Severity.WARNING,
        fails,
        f"{what} No transactional producer can start.",
        fix,
        "kafka-eos-overview",
        hold="10m",
        when="there is no `__transaction_state`, and its replication factor is above the number of brokers, for 10m",
    )
