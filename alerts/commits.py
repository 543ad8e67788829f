"""Rows about commits that are slow, and records that producers give up."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    BROKER_REQUEST_DURATION_SECONDS,
    PRODUCER_RECORD_ERRORS_TOTAL,
    PRODUCER_TXN_SECONDS_TOTAL,
)

_CLIENT = "kafka_cluster, target, client_id"
SLOW_SECONDS = 1
MOST_SHARE = 0.8


def alerts(_: Settings) -> Iterator[Alert]:
    """Slow EndTxn requests, clients that wait for commits, and records that could not be sent."""
    yield Alert(
        "KafkaEosCommitsSlow",
        Severity.WARNING,
        f"max by (kafka_cluster, broker) (max_over_time({BROKER_REQUEST_DURATION_SECONDS}"
        f'{{request="EndTxn", quantile="0.99"}}[{BRIDGE}])) > {SLOW_SECONDS}',
        "{{ $labels.kafka_cluster }}: one in a hundred commits and aborts takes {{ $value | humanizeDuration }} or"
        " longer at broker {{ $labels.broker }}. Producers wait as long before their next transaction.",
        "First: look at the in-sync replicas of __transaction_state and the disk of that broker: EndTxn is answered"
        " once the decision is replicated. Its request queue and the load of its partitions are on the dashboard.",
        "kafka-eos-brokers",
        ("kafka_cluster", "broker"),
        hold="15m",
        labels=(("reason", "broker"),),
        when=f"the 99th percentile of EndTxn at a broker is above {SLOW_SECONDS} s for 15m",
    )
    commit = f'rate({PRODUCER_TXN_SECONDS_TOTAL}{{operation="commit"}}[10m])'
    yield Alert(
        "KafkaEosCommitsSlow",
        Severity.WARNING,
        f"max by ({_CLIENT}) ({commit}) > {MOST_SHARE}",
        "{{ $labels.kafka_cluster }}: producer {{ $labels.client_id }} of {{ $labels.target }} spends"
        " {{ $value | humanizePercentage }} of its time in commitTransaction: its throughput is that of its commits.",
        "First: compare with the EndTxn times of the brokers. If those are short, the transactions are too small: put"
        " more records into one. A commit also waits for all records that are not acknowledged yet.",
        "kafka-eos-brokers",
        hold="15m",
        labels=(("reason", "client"),),
        when=f"a Java producer spends more than {MOST_SHARE:.0%} of its time in commits for 15m",
    )
    yield Alert(
        "KafkaEosProducerRecordErrors",
        Severity.WARNING,
        f"max by ({_CLIENT}) (increase({PRODUCER_RECORD_ERRORS_TOTAL}[10m])) > 0",
        "{{ $labels.kafka_cluster }}: producer {{ $labels.client_id }} of {{ $labels.target }} could not send"
        " {{ $value | humanize }} record(s) in 10 minutes. In a transaction they make it abort; outside of one they are"
        " lost unless the application sends them again.",
        "First: read the exception in the application's log. ProducerFencedException, OutOfOrderSequenceException and"
        " authorization errors are fatal to a Java producer: it has to be closed and made anew. After any other error"
        " the application aborts the transaction and goes on.",
        "kafka-eos-producers",
        when="a producer could not send records in the last 10m",
    )
