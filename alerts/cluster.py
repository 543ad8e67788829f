"""Rows about what exactly-once depends on: the transaction log with its replicas, and the posture."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.evidence import each
from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS,
    INTERNAL_TOPIC_PARTITIONS,
    POSTURE_CHECK,
    TRANSACTIONAL_IDS_UNAVAILABLE,
)

LOG_SECONDS = 240
"""Less than the five minutes after which its transactions are pages themselves, so that the cause is reported first."""


def alerts(_: Settings) -> Iterator[Alert]:
    """The transaction log with missing replicas, and failed posture checks."""
    at = '{kafka_cluster=%q, topic="__transaction_state", condition=~"offline|under_min_isr"}'
    broken = '{topic="__transaction_state", condition=~"offline|under_min_isr"}'
    yield Alert(
        "KafkaEosTransactionLogUnderMinIsr",
        Severity.CRITICAL,
        # The age of one partition's gap, whose start is exposed: three short gaps do not add up to a long one.
        f"time() - min by (kafka_cluster) ({INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS}{broken}) > {LOG_SECONDS}",
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
        when="a partition of `__transaction_state` is offline or under its minimum ISR for more than 4m",
    )
    yield Alert(
        "KafkaEosPostureFailed",
        Severity.WARNING,
        f"min by (kafka_cluster, check) (last_over_time({POSTURE_CHECK}[{BRIDGE}])) < 1",
        "A setting that exactly-once rests on is not sound.",
        "Check {{ $labels.check }} on {{ $labels.kafka_cluster }} has failed for a quarter of an hour, for"
        + each(
            f"count(group by (subject) ({POSTURE_CHECK}{{kafka_cluster=%q, check=%q}} < 1))",
            " {{ .Value }}",
            "kafka_cluster",
            "check",
        )
        + " subject(s)."
        + each(
            f"topk(10, group by (subject) ({POSTURE_CHECK}{{kafka_cluster=%q, check=%q}} < 1))",
            "\n- {{ .Labels.subject }}",
            "kafka_cluster",
            "check",
        )
        + "\nNothing has to be wrong yet: the guarantee does not hold when the next broker, client or worker fails."
        " `kafka-eos-exporter check posture` shows each value and what it should be.",
        "kafka-eos-overview",
        hold="15m",
        when="a check of the EOS posture fails for 15m; one alert lists all subjects of the check",
    )
