"""The cluster's own side: the internal topics, its posture, and what brokers say of the transaction protocol by JMX."""

from __future__ import annotations

from grafanalib import core

from exporter import catalogue
from exporter.dashboards import figures
from exporter.dashboards.board import APPLICATION, BROKERS, Dashboard, PanelRow, Variable
from exporter.dashboards.panels import BLUE, NEUTRAL, ORANGE, RED, Column, Query, lines, stat, table
from exporter.dashboards.queries import OF_APPLICATION, now, per_second, quantile, total
from exporter.dashboards.shared import TO_APPLICATION

_BROKER = 'broker=~"$broker"'
_NAME = "{{kafka_cluster}} broker {{broker}}"


def _posture() -> core.Panel:
    failed = f'label_replace({now(catalogue.POSTURE_CHECK)} == 0, "verdict", "failed", "", "")'
    information = f'label_replace({now(catalogue.POSTURE_INFORMATION)}, "verdict", "information", "", "")'
    return table(
        "Which posture checks fail?",
        "The agent's page, and kafka-eos-exporter check posture, say what was found and what to set; information is"
        " what no setting may mend.",
        [f"{failed} or {information}"],
        [
            Column("verdict", "Verdict", colours={"failed": ORANGE, "information": BLUE}, width=110),
            Column("check", "Check", page=("The agent's page", "${agent_page}")),
            Column("subject", "Subject"),
            Column("kafka_cluster", "Cluster", width=110),
        ],
        sort=["Verdict", "Check"],
        smallest_first=True,
        none="none is known to fail",
    )


def _internal() -> core.Panel:
    by = "kafka_cluster, topic, condition"
    return lines(
        "Are the internal topics whole?",
        "Partitions of __transaction_state and __consumer_offsets that are not, by condition: all lines should be zero,"
        " and are a no to stopping a broker while they are not.",
        Query(
            total(now(catalogue.INTERNAL_TOPIC_PARTITIONS, 'condition!="total"'), by),
            "{{kafka_cluster}} {{condition}} {{topic}}",
        ),
        "none",
    )


def _disks() -> core.Panel:
    usable, size = (
        now(metric, _BROKER) for metric in (catalogue.BROKER_LOG_DIR_USABLE_BYTES, catalogue.BROKER_LOG_DIR_SIZE_BYTES)
    )
    return lines(
        "How full are the disks below them?",
        "Share of each volume that is used, by everything on it (Kafka 3.3 or later).",
        Query(f"1 - {usable} / {size}", _NAME + " {{log_dir}}"),
        "percentunit",
    )


def _errors() -> core.Panel:
    errors = total(per_second(catalogue.BROKER_REQUEST_ERRORS_TOTAL, _BROKER), "request, error")
    return lines(
        "Which errors do clients get?",
        "Per second; CONCURRENT_TRANSACTIONS alone is a client that comes back too early and tries again.",
        Query(f"topk(10, {errors} > 0)", "{{request}} {{error}}"),
        "ops",
    )


def _durations() -> core.Panel:
    slow, verified = (
        now(metric, _BROKER, 'quantile="0.99"')
        for metric in (catalogue.BROKER_REQUEST_DURATION_SECONDS, catalogue.BROKER_TXN_VERIFICATION_SECONDS)
    )
    return lines(
        "How slow is the slowest broker? (p99)",
        "Of each request at the broker where it is largest, and of the verification of a transaction before a write.",
        [Query(f"max by (request) ({slow})", "{{request}}"), Query(f"max by (quantile) ({verified})", "verification")],
        "s",
        log=True,
    )


_FIGURES = (
    stat(
        "Unsound internal partitions",
        "Partitions of __transaction_state and __consumer_offsets that are offline or under their minimum ISR.",
        total(now(catalogue.INTERNAL_TOPIC_PARTITIONS, 'condition=~"offline|under_min_isr"')),
    ),
    figures.IDS_UNAVAILABLE.on(OF_APPLICATION),
    figures.CHECKS_FAILED.on(),
    stat(
        "Transaction version",
        "The finalised transaction.version of the brokers: 2 is Transactions V2.",
        f"min({now(catalogue.BROKER_TRANSACTION_VERSION, _BROKER)})",
        "none",
        NEUTRAL,
        none="no JMX",
    ),
)
_UNAVAILABLE = table(
    "Whose ids have no coordinator?",
    "None of these can begin or end a transaction now.",
    [f"{now(catalogue.TRANSACTIONAL_IDS_UNAVAILABLE, OF_APPLICATION)} > 0"],
    [
        Column("application", "Application", link=TO_APPLICATION),
        Column("Value #A", "Ids", "none", steps=((None, RED),), width=80),
    ],
    sort=["Ids"],
)
_SIZES = lines(
    "Do the internal topics grow?",
    "Bytes on each broker, which compaction keeps flat: a line that only rises is a cleaner that does not work.",
    Query(now(catalogue.INTERNAL_TOPIC_SIZE_BYTES, _BROKER), "{{kafka_cluster}} {{topic}} broker {{broker}}"),
    "bytes",
)
_QUEUES = lines(
    "Do markers wait?",
    "unknown_destination has no leader to send them to; in log_append_retry the end waits to be written.",
    Query(now(catalogue.BROKER_TXN_MARKER_QUEUE_SIZE, _BROKER), "{{queue}}, " + _NAME),
    "none",
)
_LATE = lines(
    "Do brokers see late transactions?",
    "Partitions with a transaction open for longer than transaction.max.timeout.ms and 5 minutes.",
    Query(now(catalogue.BROKER_LATE_TRANSACTION_PARTITIONS, _BROKER), _NAME),
    "none",
)
_PRODUCER_IDS = lines(
    "How many producer ids do brokers keep?",
    "They are memory: a line that only rises is clients that start without end.",
    Query(now(catalogue.BROKER_PRODUCER_IDS, _BROKER), _NAME),
)
_VERSIONS = table(
    "Which versions of requests are in use?",
    "Transactions V2 needs EndTxn 5 and Produce 12.",
    [f"{total(per_second(catalogue.BROKER_REQUESTS_TOTAL, _BROKER), 'request, version')} > 0"],
    [
        Column("request", "Request"),
        Column("version", "Version", width=100),
        Column("Value #A", "Per second", "reqps", steps=((None, BLUE),), width=130),
    ],
    sort=["Per second"],
    cluster=False,
)
_SOFTWARE = table(
    "Which Kafka do brokers run?",
    "By the broker's JVM, where Jolokia is read.",
    [now(catalogue.BROKER_INFO, _BROKER)],
    [Column("broker", "Broker"), Column("version", "Version", width=120)],
    sort=["Version"],
)
_CANARY = (
    lines(
        "Which coordinators fail the canary?",
        "Partitions of the transaction log whose last canary transaction failed: applications whose ids hash to"
        " them have the same trouble.",
        Query(
            total(now(catalogue.CANARY_FAILING_PARTITIONS), "kafka_cluster, coordinator"),
            "{{kafka_cluster}} broker {{coordinator}}",
        ),
        "none",
    ),
    lines(
        "How long do its phases take? (p99)",
        "read is from the commit until a consumer has the records.",
        Query(quantile(0.99, catalogue.CANARY_PHASE_SECONDS, "phase"), "{{phase}}"),
        "s",
        log=True,
    ),
)


def board() -> Dashboard:
    """The internal topics and the posture; brokers, by JMX."""
    return Dashboard(
        uid=BROKERS,
        title="Brokers and the transaction log",
        description="Internal topics and posture of the cluster, and what brokers say of the transaction protocol.",
        variables=(APPLICATION, Variable("broker", "Broker", catalogue.BROKER_PRODUCER_IDS)),
        rows=(
            PanelRow("Is what exactly-once rests on sound?", (_FIGURES,)),
            PanelRow("What is not as it should be?", ((_posture(),), (_internal(), _UNAVAILABLE))),
            PanelRow("Will the disks last, and are they compacted?", ((_SIZES, _disks()),)),
            PanelRow(
                "What do brokers say? (needs JMX of brokers: clusters.brokers)",
                ((_errors(), _durations()), (_QUEUES, _LATE), (_PRODUCER_IDS, _VERSIONS, _SOFTWARE)),
            ),
            PanelRow("Do the canary's transactions work? (needs the command canary)", (_CANARY,)),
        ),
    )
