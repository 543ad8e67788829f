"""The exporter itself: can what the other dashboards say be trusted now."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    CLOCK_DISTANCE_SECONDS,
    CLUSTER_INFO,
    COORDINATOR_CLOCK_SKEW_SECONDS,
    EVENTS_TOTAL,
    EXPORTER_BUILD_INFO,
    INGEST_KEPT_BYTES,
    JOURNAL_LOST_EVENTS_TOTAL,
    JOURNAL_SIZE_BYTES,
    SOURCE_FAULTS_TOTAL,
    SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
    SOURCE_READ_DURATION_SECONDS,
    SOURCE_UP,
    TRANSACTION_LOG_LOST_RECORDS_TOTAL,
    TRANSACTION_LOG_TAIL_LAG_RECORDS,
    TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL,
)
from exporter.dashboards.board import Board, Line, PanelRow
from exporter.dashboards.panels import GREEN, RED, YELLOW, Column, Query, lines, stat, table, timeline
from exporter.dashboards.queries import age, dropped, now, own, own_per_second, total
from exporter.model import Kind, Metric

AGENT = "kafka-eos-exporter"
# Not ours: what prometheus_client and Prometheus say of every process and target.
UP = Metric("up", Kind.GAUGE, "Prometheus could scrape the target.")
PROCESS_CPU_SECONDS_TOTAL = Metric("process_cpu_seconds_total", Kind.COUNTER, "CPU time.")
PROCESS_RESIDENT_MEMORY_BYTES = Metric("process_resident_memory_bytes", Kind.GAUGE, "Resident memory.")


def board() -> Board:
    """Each replica for itself."""
    return Board(
        uid=AGENT,
        title="Kafka EOS / The exporter itself",
        description="What the exporter reads, what did not answer, and what it costs.",
        rows=(
            PanelRow("Can it be trusted now?", (Line(4, _now()),)),
            PanelRow("What it reads", (Line(9, (_sources(),)), Line(8, (_faults(), _last_success()), (10, 14)))),
            PanelRow("The tail of the transaction log", (Line(7, (_tail(), _clock(), _records())),)),
            PanelRow("What it costs", (Line(7, (_durations(), _cpu(), _memory())),)),
            PanelRow("The journal", (Line(7, (_events(), _journal())),)),
            PanelRow("Who watches what", (Line(6, (_clusters(), _builds(), _dropped()), (10, 8, 6)),)),
        ),
    )


def _now() -> tuple[core.Panel, ...]:
    return (
        stat(
            "Replicas that answer",
            "Targets of this job that Prometheus can scrape.",
            total(own(UP)),
            "none",
            ((None, RED), (1, GREEN)),
        ),
        stat(
            "Sources not answering",
            "What is read and gave no full answer, counted once for each replica.",
            total(f"1 - {own(SOURCE_UP)}"),
        ),
        stat(
            "Tail lag",
            "Records of the transaction log that the slowest replica has still to read: counts are late by them.",
            f"max({own(TRANSACTION_LOG_TAIL_LAG_RECORDS)})",
            "short",
            ((None, GREEN), (1000, YELLOW), (100000, RED)),
        ),
        stat(
            "Records not understood",
            "Of the transaction log: garbage, or a layout newer than this exporter.",
            f"max({own(TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL)})",
        ),
        stat(
            "Records lost",
            "Of the transaction log: compaction took them before they were read after an outage, so counts miss them.",
            f"max({own(TRANSACTION_LOG_LOST_RECORDS_TOTAL)})",
            "short",
            ((None, GREEN), (1, YELLOW)),
        ),
        stat(
            "Series kept out by a cap",
            "Or folded into application _other; sums stay true.",
            f"{total(dropped())} or {total(own(SOURCE_UP))} * 0",
            "short",
            ((None, GREEN), (1, YELLOW)),
        ),
    )


def _sources() -> core.Panel:
    return timeline(
        "Sources",
        "A band for each kind of thing read: all targets answer each replica in full, or one does not; the table names "
        "it.",
        Query(f"min by (source) ({own(SOURCE_UP)})", "{{source}}"),
        states=((1, "answers", GREEN), (0, "does not answer", RED)),
    )


def _faults() -> core.Panel:
    by = "source, reason"
    return lines(
        "Faults by reason",
        "Things that did not answer when a source was read, per second.",
        Query(f"{total(own_per_second(SOURCE_FAULTS_TOTAL), by)} > 0", "{{source}} {{reason}}"),
        "ops",
    )


def _last_success() -> core.Panel:
    return table(
        "Last full answer",
        "The oldest on top, coloured from 6 minutes on: posture is read every 5. A source that never gave one is not"
        " listed here and red above.",
        [age(own(SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS)), own(SOURCE_READ_DURATION_SECONDS)],
        [
            Column("Value #A", "Ago", "s", steps=((None, GREEN), (360, YELLOW), (900, RED)), width=110),
            Column("source", "Source", width=130),
            Column("target", "Target"),
            Column("kafka_cluster", "Cluster"),
            Column("instance", "Instance"),
            Column("Value #B", "Last read took", "s", width=140),
        ],
        sort=["Ago"],
    )


def _tail() -> core.Panel:
    return lines(
        "Tail lag over time",
        "Records of the transaction log that are not read yet.",
        Query(own(TRANSACTION_LOG_TAIL_LAG_RECORDS), "{{instance}} {{kafka_cluster}}"),
    )


def _clock() -> core.Panel:
    return lines(
        "Our clock and the coordinators'",
        "By how much the exporter's clock is ahead of the transaction coordinators', negative behind.",
        [
            Query(own(CLOCK_DISTANCE_SECONDS), "{{instance}} {{kafka_cluster}}"),
            Query(own(COORDINATOR_CLOCK_SKEW_SECONDS), "{{instance}} {{kafka_cluster}} broker {{broker}}"),
        ],
        "s",
        signed=True,
    )


def _records() -> core.Panel:
    return lines(
        "Records not understood, or lost",
        "Per second; both stay at zero on a healthy day.",
        [
            Query(
                own_per_second(TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL),
                "{{instance}} {{kafka_cluster}} not understood",
            ),
            Query(own_per_second(TRANSACTION_LOG_LOST_RECORDS_TOTAL), "{{instance}} {{kafka_cluster}} lost"),
        ],
        "ops",
    )


def _durations() -> core.Panel:
    return lines(
        "Duration of the last read",
        "By source, the slowest target of any replica.",
        Query(f"max by (source) ({own(SOURCE_READ_DURATION_SECONDS)})", "{{source}}"),
        "s",
    )


def _cpu() -> core.Panel:
    return lines(
        "CPU",
        "Cores in use by each replica.",
        Query(own_per_second(PROCESS_CPU_SECONDS_TOTAL), "{{instance}}"),
        "none",
    )


def _memory() -> core.Panel:
    return lines(
        "Memory",
        "Resident memory of each replica, and what of it is posted data.",
        [
            Query(own(PROCESS_RESIDENT_MEMORY_BYTES), "{{instance}}"),
            Query(own(INGEST_KEPT_BYTES), "{{instance}} posted"),
        ],
        "bytes",
    )


def _events() -> core.Panel:
    return lines(
        "Events by kind",
        "What happened, per second. The agent's page and /api/v1/events have each.",
        Query(f"{total(own_per_second(EVENTS_TOTAL), 'kind')} > 0", "{{kind}}"),
        "ops",
    )


def _journal() -> core.Panel:
    return lines(
        "Size of the journals, and events lost",
        "Bytes in state.dir by cluster. Events are lost, per second, where state.dir cannot be written for long.",
        [
            Query(own(JOURNAL_SIZE_BYTES), "{{instance}} {{kafka_cluster}} bytes"),
            Query(f"{own_per_second(JOURNAL_LOST_EVENTS_TOTAL)} > 0", "{{instance}} {{kafka_cluster}} events lost"),
        ],
    )


def _clusters() -> core.Panel:
    return table(
        "Clusters",
        "What is watched. Transactions V2 is transaction.version 2.",
        [now(CLUSTER_INFO)],
        [
            Column("kafka_cluster", "Cluster"),
            Column("cluster_id", "Id"),
            Column("bootstrap_servers", "Bootstrap servers"),
            Column("transaction_version", "Transaction version", width=150),
        ],
        sort=["Cluster"],
    )


def _builds() -> core.Panel:
    return table(
        "Builds",
        "Version and revision of each replica.",
        [own(EXPORTER_BUILD_INFO)],
        [
            Column("instance", "Instance"),
            Column("version", "Version", width=90),
            Column("revision", "Revision", width=120),
            Column("python", "Python", width=90),
            Column("external_url", "Page", page=("The agent's page", "${__value.raw}")),
        ],
        sort=["Instance"],
        cluster=False,
    )


def _dropped() -> core.Panel:
    return table(
        "Kept out by a cap",
        "By metric: raise the cap, or look at _other.",
        [f"{dropped()} > 0"],
        [Column("metric", "Metric"), Column("Value #A", "Series", "short", width=90)],
        sort=["Series"],
        none="none known",
        cluster=False,
    )
