"""Rows about the canary: the cluster itself cannot do transactions."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each
from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    CANARY_FAILING_PARTITIONS,
    CANARY_FAILURES_TOTAL,
    CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS,
)

NO_SUCCESS_SECONDS = 120
"""Longer than a turn whose phases all time out, so that one slow turn is no page."""


def alerts(_: Settings) -> Iterator[Alert]:
    """No transaction succeeds, or none through one coordinator."""
    yield Alert(
        "KafkaEosCanaryFailing",
        Severity.CRITICAL,
        f"time() - max by (kafka_cluster) (max_over_time({CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS}[{BRIDGE}]))"
        f" > {NO_SUCCESS_SECONDS}",
        "No transaction of the canary succeeds: it is the cluster, not the applications.",
        "The canary's last transaction on {{ $labels.kafka_cluster }} that succeeded was {{ $value | humanizeDuration"
        " }} ago. It writes to a topic of its own through every coordinator: what fails for it fails for every"
        " transactional application."
        + each(
            f"topk(5, sum by (phase, error) (increase({CANARY_FAILURES_TOTAL}{{kafka_cluster=%q}}[5m])) > 0)",
            "\n- {{ .Labels.phase }}: {{ .Labels.error }}, {{ .Value | humanize }} times in 5m",
            "kafka_cluster",
        ),
        "kafka-eos-brokers",
        labels=(("reason", "cluster"),),
        when="no transaction of the canary succeeded for more than 2m",
    )
    yield Alert(
        "KafkaEosCanaryFailing",
        Severity.CRITICAL,
        f"max by (kafka_cluster, coordinator) (last_over_time({CANARY_FAILING_PARTITIONS}[{BRIDGE}])) > 0",
        "Transactions through one coordinator fail, also the canary's: it is the broker, not the applications.",
        "Transactions of {{ $value }} partition(s) of __transaction_state that broker {{ $labels.coordinator }} of"
        " {{ $labels.kafka_cluster }} coordinates have failed for more than two minutes."
        + each(
            f"topk(5, sum by (phase, error) (increase({CANARY_FAILURES_TOTAL}"
            "{kafka_cluster=%q, coordinator=%q}[5m])) > 0)",
            "\n- {{ .Labels.phase }}: {{ .Labels.error }}, {{ .Value | humanize }} times in 5m",
            "kafka_cluster",
            "coordinator",
        )
        + "\nApplications whose transactional.id hashes to one of these partitions have the same trouble, the others"
        " have none.",
        "kafka-eos-brokers",
        hold="2m",
        labels=(("reason", "coordinator"),),
        when="the canary's transactions through one coordinator have failed for more than 2m",
    )
