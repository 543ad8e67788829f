"""Rows about the disks and the cleaner that the internal topics rest on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from exporter.alerts.rule import BRIDGE, Alert, Severity
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    BROKER_DEAD_CLEANER_THREADS,
    BROKER_LOG_DIR_USABLE_BYTES,
    BROKER_PRODUCER_IDS,
    BROKER_UNCLEANABLE_PARTITIONS,
    INTERNAL_TOPIC_SIZE_BYTES,
)

DASHBOARD = "kafka-eos-brokers"
LEAST_DAYS = 7
MOST_PRODUCER_IDS = 1_000_000
_BROKER = "kafka_cluster, broker"


_of_broker = partial(Alert, dashboard=DASHBOARD, variables=("kafka_cluster", "broker"))


def alerts(_: Settings) -> Iterator[Alert]:
    """A cleaner that gave up, and internal topics that fill a disk."""
    yield _of_broker(
        "KafkaEosLogCleanerStuck",
        Severity.WARNING,
        f"""\
max by ({_BROKER}) (max_over_time({BROKER_UNCLEANABLE_PARTITIONS}[{BRIDGE}])) > 0
or
max by ({_BROKER}) (max_over_time({BROKER_DEAD_CLEANER_THREADS}[{BRIDGE}])) > 0""",
        "{{ $labels.kafka_cluster }}: the log cleaner of broker {{ $labels.broker }} has given up {{ $value }}"
        " partition(s) or thread(s). Compacted topics, the transaction log among them, grow there without bounds.",
        "First: find the partitions in log-cleaner.log of the broker (`uncleanable`), and the error beside them. A"
        " restart of the broker makes the cleaner try again; if it gives up again, the log is damaged or the version"
        " has a bug.",
        hold="15m",
        when="a broker's cleaner has given up partitions, or lost a thread, for 15m",
    )
    yield _of_broker(
        "KafkaEosProducerIdsMany",
        Severity.WARNING,
        f"max by ({_BROKER}) (max_over_time({BROKER_PRODUCER_IDS}[{BRIDGE}])) > {MOST_PRODUCER_IDS}",
        "{{ $labels.kafka_cluster }}: broker {{ $labels.broker }} keeps the state of {{ $value | humanize }} producers"
        " in memory. Each takes some hundred bytes of its heap until it expires.",
        "First: find clients that make a new producer for each record or request: each gets a producer id of its own,"
        " for every partition that it writes to. They are forgotten after producer.id.expiration.ms (a day).",
        hold="15m",
        when=f"a broker keeps the state of more than {MOST_PRODUCER_IDS:,} producers for 15m",
    )
    growth = f"sum by ({_BROKER}) (max by ({_BROKER}, topic) (deriv({INTERNAL_TOPIC_SIZE_BYTES}[6h])))"
    usable = f"min by ({_BROKER}) (max_over_time({BROKER_LOG_DIR_USABLE_BYTES}[15m]))"
    yield _of_broker(
        "KafkaEosInternalTopicGrows",
        Severity.WARNING,
        f"{usable} / ({growth} > 0) / 86400 < {LEAST_DAYS}",
        "{{ $labels.kafka_cluster }}: at the growth of the last 6 hours the internal topics fill the disk of broker"
        " {{ $labels.broker }} in {{ $value | printf `%.1f` }} days.",
        "First: look whether the cleaner works on that broker (log-cleaner.log), and which of __transaction_state and"
        " __consumer_offsets grows. An application that makes a new transactional.id at every start fills the first,"
        " and one that commits offsets far too often the second, until they are compacted.",
        hold="1h",
        when=f"at the growth of 6h the internal topics fill a broker's disk in less than {LEAST_DAYS} days, for 1h",
    )
