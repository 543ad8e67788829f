"""Rows about what exactly-once rests on: the internal topics, and the brokers' verification."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each
from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    BROKER_TXN_VERIFICATION_FAILURES_TOTAL,
    INTERNAL_TOPIC_PARTITIONS,
    POSTURE_CHECK,
    TRANSACTIONAL_IDS_UNAVAILABLE,
)


def alerts(_: Settings) -> Iterator[Alert]:
    """The transaction log without its replicas, and writes that verification refused."""
    at = '{kafka_cluster=%q, topic="__transaction_state", condition=~"offline|under_min_isr"}'
    broken = '{topic="__transaction_state", condition=~"offline|under_min_isr"}'
    yield Alert(
        "KafkaEosTransactionLogUnderMinIsr",
        Severity.CRITICAL,
        f"group by (kafka_cluster) (last_over_time({INTERNAL_TOPIC_PARTITIONS}{broken}[{BRIDGE}]) > 0)",
        "Partitions of __transaction_state take no writes: their transactions can neither begin nor end.",
        "__transaction_state of {{ $labels.kafka_cluster }}:"
        + each(
            f"max by (condition) ({INTERNAL_TOPIC_PARTITIONS}{at}) > 0",
            " {{ .Value }} partition(s) {{ .Labels.condition }}.",
            "kafka_cluster",
        )
        + " Every transaction whose coordinator is one of them waits, and holds its last stable offsets meanwhile."
        + each(
            f"topk(5, max by (application) ({TRANSACTIONAL_IDS_UNAVAILABLE}{{kafka_cluster=%q}}) > 0)",
            "\n- {{ .Labels.application }}: {{ .Value }} transactional id(s)",
            "kafka_cluster",
        )
        + "\nBring the missing brokers back. Do not lower min.insync.replicas to get on: what is then lost is lost.",
        "kafka-eos-overview",
        hold="5m",
        when="partitions of `__transaction_state` are offline or under their minimum ISR for 5m",
    )
    yield Alert(
        "KafkaEosVerificationFailures",
        Severity.WARNING,
        f"max by (kafka_cluster, broker) (increase({BROKER_TXN_VERIFICATION_FAILURES_TOTAL}[15m])) > 10",
        "Producers write into transactions that their coordinator does not know to be open.",
        "Broker {{ $labels.broker }} of {{ $labels.kafka_cluster }} refused writes to {{ $value | humanize }}"
        " partitions in 15 minutes because the coordinator did not know the transaction as open there (KIP-890)."
        " Each would have left a hanging transaction; none did. Producers that were fenced or timed out and go on"
        " writing do that, and clients with a bug. Look which application aborts, times out or is fenced at the same"
        " time.",
        "kafka-eos-brokers",
        ("kafka_cluster", "broker"),
        when="a broker refused writes to more than 10 partitions in 15m",
    )
    yield Alert(
        "KafkaEosPostureFailed",
        Severity.WARNING,
        f"min by (kafka_cluster, check, subject) (last_over_time({POSTURE_CHECK}[{BRIDGE}])) < 1",
        "A setting that exactly-once rests on is not sound.",
        "Check {{ $labels.check }} of {{ $labels.subject }} on {{ $labels.kafka_cluster }} has failed for a quarter of"
        " an hour. Nothing has to be wrong yet: the guarantee does not hold when the next broker, client or worker"
        " fails. `kafka-eos-exporter check posture` tells each value and what it should be.",
        "kafka-eos-overview",
        hold="15m",
        when="a check of the EOS posture fails for 15m",
    )
