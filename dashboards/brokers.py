"""The cluster's own side: the internal topics, its posture, and what brokers say of the transaction protocol by JMX."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    BROKER_DEAD_CLEANER_THREADS,
    BROKER_INFO,
    BROKER_LATE_TRANSACTION_PARTITIONS,
    BROKER_LOG_DIR_SIZE_BYTES,
    BROKER_LOG_DIR_USABLE_BYTES,
    BROKER_PRODUCER_IDS,
    BROKER_REQUEST_DURATION_SECONDS,
    BROKER_REQUEST_ERRORS_TOTAL,
    BROKER_REQUESTS_TOTAL,
    BROKER_TRANSACTION_VERSION,
    BROKER_TXN_COORDINATOR_LOAD_SECONDS,
    BROKER_TXN_MARKER_QUEUE_SIZE,
    BROKER_TXN_VERIFICATION_FAILURES_TOTAL,
    BROKER_TXN_VERIFICATION_SECONDS,
    BROKER_UNCLEANABLE_PARTITIONS,
    CANARY_FAILING_PARTITIONS,
    CANARY_FAILURES_TOTAL,
    CANARY_PHASE_SECONDS,
    INTERNAL_TOPIC_PARTITIONS,
    INTERNAL_TOPIC_SIZE_BYTES,
    POSTURE_CHECK,
    POSTURE_INFORMATION,
    TRANSACTIONAL_IDS_UNAVAILABLE,
    TRANSACTIONS_OPEN,
)
from exporter.dashboards.board import Board, Line, Needs, PanelRow, Variable
from exporter.dashboards.engines import failed_checks
from exporter.dashboards.panels import BLUE, GREEN, NEUTRAL, ORANGE, RED, YELLOW, Column, Query, lines, stat, table
from exporter.dashboards.posture_advice import WHAT_TO_SET
from exporter.dashboards.queries import gained, now, per_second, quantile, total
from exporter.dashboards.shared import BROKERS, TRANSACTIONS, WINDOW

OF_BROKER = 'broker=~"$broker"'
_JMX = Needs("no_jmx", (BROKER_PRODUCER_IDS, BROKER_REQUEST_ERRORS_TOTAL), "needs JMX (clusters: brokers)")
_FENCING = 'error=~"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"'
_COORDINATOR = "{{kafka_cluster}} broker {{coordinator}}"
_UNSOUND = 'condition=~"offline|under_min_isr"'


def board() -> Board:
    """Brokers, by JMX; the internal topics and the posture without it."""
    return Board(
        uid=BROKERS,
        title="Kafka EOS / Brokers",
        description="Internal topics and posture of the cluster, and what brokers say of the transaction protocol.",
        variables=(Variable("broker", "Broker", BROKER_PRODUCER_IDS, all_value=".*"),),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow(
                "What exactly-once rests on",
                (
                    Line(8, (_posture(),)),
                    Line(8, (_internal(), _unavailable(), _software()), (10, 7, 7)),
                    Line(7, (_sizes(), _disks())),
                ),
            ),
            PanelRow(
                "Before a broker is stopped: kafka-eos-exporter check roll has the answer", (Line(7, (_roll(),)),)
            ),
            PanelRow(
                "Requests of the transaction protocol",
                (Line(8, (_errors(), _requests())), Line(8, (_durations(), _versions()))),
                _JMX,
            ),
            PanelRow(
                "Coordinators and partitions",
                (
                    Line(7, (_queues(), _loads(), _late())),
                    Line(7, (_verification(), _verification_time())),
                    Line(7, (_cleaner(), _producer_ids())),
                ),
                _JMX,
            ),
            PanelRow("The canary's transactions (needs the command canary)", (Line(7, _canary()),)),
        ),
    )


def _now() -> tuple[core.Panel, ...]:
    return (
        stat(
            "Unsound internal partitions",
            "Partitions of __transaction_state and __consumer_offsets that are offline or under their minimum ISR.",
            total(now(INTERNAL_TOPIC_PARTITIONS, _UNSOUND)),
        ),
        stat(
            "Ids without coordinator",
            "Transactional ids whose partition of __transaction_state is offline or under its minimum ISR.",
            total(now(TRANSACTIONAL_IDS_UNAVAILABLE)),
        ),
        failed_checks(),
        stat(
            f"Fencing errors, {WINDOW}",
            "PRODUCER_FENCED and INVALID_PRODUCER_EPOCH in the brokers' answers; older request versions book the "
            "first as the second. Needs JMX.",
            f"round({total(gained(BROKER_REQUEST_ERRORS_TOTAL, WINDOW, OF_BROKER, _FENCING))})",
            steps=((None, GREEN), (1, ORANGE)),
            none="no JMX",
        ),
        stat(
            f"Verification failures, {WINDOW}",
            "Partitions whose transaction the coordinator did not confirm before a write (KIP-890). Needs JMX.",
            f"round({total(gained(BROKER_TXN_VERIFICATION_FAILURES_TOTAL, WINDOW, OF_BROKER))})",
            steps=((None, GREEN), (1, YELLOW)),
            none="no JMX",
        ),
        stat(
            "Transaction version",
            "The finalised transaction.version of the brokers: 2 is Transactions V2. Needs JMX.",
            f"min({now(BROKER_TRANSACTION_VERSION, OF_BROKER)})",
            "none",
            NEUTRAL,
            none="no JMX",
        ),
    )


def _sizes() -> core.Panel:
    return lines(
        "Size of the internal topics",
        "Bytes on each broker. Compaction keeps them flat; a line that only rises is a cleaner that does not work."
        " Needs DESCRIBE on Cluster.",
        Query(now(INTERNAL_TOPIC_SIZE_BYTES, OF_BROKER), "{{kafka_cluster}} {{topic}} broker {{broker}}"),
        "bytes",
    )


def _disks() -> core.Panel:
    used = f"1 - {now(BROKER_LOG_DIR_USABLE_BYTES, OF_BROKER)} / {now(BROKER_LOG_DIR_SIZE_BYTES, OF_BROKER)}"
    return lines(
        "Disks below the internal topics",
        "Share of each volume that is used, by everything on it. Kafka 3.3 or later.",
        Query(used, "{{kafka_cluster}} broker {{broker}} {{log_dir}}"),
        "percentunit",
    )


def _cleaner() -> core.Panel:
    return lines(
        "Log cleaner",
        "Partitions that the cleaner has given up, and its dead threads; both should be zero.",
        [
            Query(now(BROKER_UNCLEANABLE_PARTITIONS, OF_BROKER), "{{kafka_cluster}} broker {{broker}} uncleanable"),
            Query(now(BROKER_DEAD_CLEANER_THREADS, OF_BROKER), "{{kafka_cluster}} broker {{broker}} dead threads"),
        ],
        "none",
    )


def _software() -> core.Panel:
    return table(
        "Brokers, and their versions",
        "The version of Kafka by the broker's JVM. Empty without Jolokia.",
        [now(BROKER_INFO, OF_BROKER)],
        [Column("broker", "Broker"), Column("version", "Version", width=120)],
        sort=["Version"],
    )


def _canary() -> tuple[core.Panel, ...]:
    return (
        lines(
            "Canary: partitions that fail, by coordinator",
            "Partitions of the transaction log whose last canary transaction failed. Applications whose ids hash to"
            " them have the same trouble.",
            Query(total(now(CANARY_FAILING_PARTITIONS), "kafka_cluster, coordinator"), _COORDINATOR),
            "none",
        ),
        lines(
            "Canary: p99 by phase",
            "Time of each phase of the canary's transactions; read is from the commit until a consumer has them.",
            Query(quantile(0.99, CANARY_PHASE_SECONDS, "phase"), "{{phase}}"),
            "s",
            log=True,
        ),
        lines(
            "Canary: failures",
            "Per second, by phase and error.",
            Query(f"{total(per_second(CANARY_FAILURES_TOTAL), 'phase, error')} > 0", "{{phase}} {{error}}"),
            "ops",
        ),
    )


def _internal() -> core.Panel:
    return lines(
        "Internal topics by condition",
        "Partitions of __transaction_state and __consumer_offsets that are not whole: all lines should be zero.",
        Query(
            total(now(INTERNAL_TOPIC_PARTITIONS, 'condition!="total"'), "kafka_cluster, topic, condition"),
            "{{kafka_cluster}} {{condition}} {{topic}}",
        ),
        "none",
    )


def _roll() -> core.Panel:
    return lines(
        "What speaks against a stop",
        "Partitions of the internal topics that are not whole, and decided transactions whose markers are not written."
        " What stays above zero is a no; the topics that transactions write to are read by check roll only.",
        [
            Query(
                total(now(INTERNAL_TOPIC_PARTITIONS, 'condition!="total"'), "kafka_cluster, topic, condition"),
                "{{kafka_cluster}} {{condition}} {{topic}}",
            ),
            Query(total(now(TRANSACTIONS_OPEN, 'state=~"prepare_.*"'), "state"), "{{state}}"),
        ],
        "none",
    )


def _posture() -> core.Panel:
    failed = f'label_replace({now(POSTURE_CHECK)} == 0, "verdict", "failed", "", "")'
    information = f'label_replace({now(POSTURE_INFORMATION)}, "verdict", "information", "", "")'
    return table(
        "Posture checks that failed, and information",
        "kafka-eos-exporter check posture says what was found and what to set. Information is what no setting may"
        " mend.",
        [f'label_replace({failed} or {information}, "mend", "$1", "check", "(.*)")'],
        [
            Column("verdict", "Verdict", colours={"failed": ORANGE, "information": BLUE}, width=110),
            Column("check", "Check"),
            Column("subject", "Subject"),
            Column("mend", "What to set", texts=WHAT_TO_SET),
            Column("kafka_cluster", "Cluster", width=110),
        ],
        sort=["Verdict", "Check"],
        smallest_first=True,
        none="none is known to fail",
    )


def _unavailable() -> core.Panel:
    return table(
        "Ids without coordinator, by application",
        "None of these can begin or end a transaction now.",
        [f"{now(TRANSACTIONAL_IDS_UNAVAILABLE)} > 0"],
        [
            Column("application", "Application", link=(TRANSACTIONS, "application", "Its transactions")),
            Column("Value #A", "Ids", "none", steps=((None, RED),), width=80),
        ],
        sort=["Ids"],
        none="none known",
    )


def _errors() -> core.Panel:
    return lines(
        "Errors in answers",
        "Per second by request and error. CONCURRENT_TRANSACTIONS alone is a client that comes back too early and "
        "tries again.",
        Query(
            f"topk(10, {total(per_second(BROKER_REQUEST_ERRORS_TOTAL, OF_BROKER), 'request, error')} > 0)",
            "{{request}} {{error}}",
        ),
        "ops",
    )


def _requests() -> core.Panel:
    return lines(
        "Requests",
        "Of the transaction protocol, per second.",
        Query(total(per_second(BROKER_REQUESTS_TOTAL, OF_BROKER), "request"), "{{request}}"),
        "reqps",
    )


def _durations() -> core.Panel:
    slow = now(BROKER_REQUEST_DURATION_SECONDS, OF_BROKER, 'quantile="0.99"')
    return lines(
        "Slowest broker, p99",
        "99th percentile of each request at the broker where it is largest: quantiles have no average.",
        Query(f"max by (request) ({slow})", "{{request}}"),
        "s",
        log=True,
    )


def _versions() -> core.Panel:
    return table(
        "Request versions in use",
        "Requests of clients with an old protocol version: Transactions V2 needs EndTxn 5 and Produce 12.",
        [f"{total(per_second(BROKER_REQUESTS_TOTAL, OF_BROKER), 'request, version')} > 0"],
        [
            Column("request", "Request"),
            Column("version", "Version", width=100),
            Column("Value #A", "Per second", "reqps", steps=((None, BLUE),), width=130),
        ],
        sort=["Per second"],
        cluster=False,
    )


def _queues() -> core.Panel:
    return lines(
        "Markers that wait",
        "unknown_destination: no leader to send them to. log_append_retry: the end waits to be written.",
        Query(now(BROKER_TXN_MARKER_QUEUE_SIZE, OF_BROKER), "{{queue}}, {{kafka_cluster}} broker {{broker}}"),
        "none",
    )


def _loads() -> core.Panel:
    return lines(
        "Coordinator loads",
        "Time to load a partition of __transaction_state: there is a line while a coordinator has just moved.",
        Query(now(BROKER_TXN_COORDINATOR_LOAD_SECONDS, OF_BROKER, 'stat="max"'), "{{kafka_cluster}} broker {{broker}}"),
        "s",
    )


def _late() -> core.Panel:
    return lines(
        "Late transactions, as brokers see them",
        "Partitions with a transaction open for longer than transaction.max.timeout.ms and 5 minutes.",
        Query(now(BROKER_LATE_TRANSACTION_PARTITIONS, OF_BROKER), "{{kafka_cluster}} broker {{broker}}"),
        "none",
    )


def _verification() -> core.Panel:
    return lines(
        "Verification failures",
        "Per second, by broker.",
        Query(per_second(BROKER_TXN_VERIFICATION_FAILURES_TOTAL, OF_BROKER), "{{kafka_cluster}} broker {{broker}}"),
        "ops",
    )


def _verification_time() -> core.Panel:
    return lines(
        "Verification time, p99",
        "Time to have a transaction's partitions verified or added before a write.",
        Query(
            now(BROKER_TXN_VERIFICATION_SECONDS, OF_BROKER, 'quantile="0.99"'),
            "{{kafka_cluster}} broker {{broker}}",
        ),
        "s",
    )


def _producer_ids() -> core.Panel:
    return lines(
        "Producer ids",
        "In the state of the partitions on each broker: memory, and the start of a leak when clients init without end.",
        Query(now(BROKER_PRODUCER_IDS, OF_BROKER), "{{kafka_cluster}} broker {{broker}}"),
    )
