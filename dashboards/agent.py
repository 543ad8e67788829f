"""The agent itself: can what the other dashboards say be trusted now. Here each replica is a fact of its own."""

from __future__ import annotations

from grafanalib import core

from exporter import catalogue
from exporter.dashboards.board import AGENT, Dashboard, PanelRow
from exporter.dashboards.panels import GREEN, RED, YELLOW, Column, Query, lines, stat, table, timeline
from exporter.dashboards.queries import age, dropped, own, own_per_second, total
from exporter.model import Kind, Metric

# Not ours: what prometheus_client and Prometheus say of every process and target.
UP = Metric("up", Kind.GAUGE, "Prometheus could scrape the target.")
PROCESS_CPU_SECONDS_TOTAL = Metric("process_cpu_seconds_total", Kind.COUNTER, "CPU time.")
PROCESS_RESIDENT_MEMORY_BYTES = Metric("process_resident_memory_bytes", Kind.GAUGE, "Resident memory.")
_REPLICA = "{{instance}} {{kafka_cluster}}"


def _figures() -> tuple[core.Panel, ...]:
    some_are_lost = ((None, GREEN), (1, YELLOW))
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
            total(f"1 - {own(catalogue.SOURCE_UP)}"),
        ),
        stat(
            "Tail lag",
            "Records of the transaction log that the slowest replica has still to read: counts are late by them.",
            f"max({own(catalogue.TRANSACTION_LOG_TAIL_LAG_RECORDS)})",
            steps=((None, GREEN), (1000, YELLOW), (100000, RED)),
        ),
        stat(
            "Records not understood",
            "Of the transaction log: garbage, or a layout newer than this agent.",
            f"max({own(catalogue.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL)})",
        ),
        stat(
            "Records lost",
            "Of the transaction log: compaction took them before they were read after an outage, so counts miss them.",
            f"max({own(catalogue.TRANSACTION_LOG_LOST_RECORDS_TOTAL)})",
            steps=some_are_lost,
        ),
        stat(
            "Series kept out by a cap",
            "Or folded into application _other: sums stay true.",
            f"{total(dropped())} or {total(own(catalogue.SOURCE_UP))} * 0",
            steps=some_are_lost,
        ),
    )


_SOURCES = timeline(
    "Which sources answered?",
    "A band for each kind of thing read, red while one target did not answer one replica in full.",
    Query(f"min by (source) ({own(catalogue.SOURCE_UP)})", "{{source}}"),
    ((1, "answers", GREEN), (0, "does not answer", RED)),
)
_FAULTS = lines(
    "Why did they not answer?",
    "Faults per second, by source and reason.",
    Query(f"{total(own_per_second(catalogue.SOURCE_FAULTS_TOTAL), 'source, reason')} > 0", "{{source}} {{reason}}"),
    "ops",
)
_LAST_SUCCESS = table(
    "When did each source last answer in full?",
    "The oldest on top, coloured from 6 minutes on, as posture is read every 5; one that never did is only red above.",
    [age(own(catalogue.SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS)), own(catalogue.SOURCE_READ_DURATION_SECONDS)],
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
_CLOCK = lines(
    "How far is it from the coordinators'?",
    "By how much it is ahead of the transaction coordinators', negative behind.",
    [
        Query(own(catalogue.CLOCK_DISTANCE_SECONDS), _REPLICA),
        Query(own(catalogue.COORDINATOR_CLOCK_SKEW_SECONDS), _REPLICA + " broker {{broker}}"),
    ],
    "s",
    signed=True,
)
_CPU = lines(
    "How much CPU?",
    "Cores in use by each replica.",
    Query(own_per_second(PROCESS_CPU_SECONDS_TOTAL), "{{instance}}"),
    "none",
)
_MEMORY = lines(
    "How much memory?",
    "Resident memory of each replica, and what of it is posted data.",
    [
        Query(own(PROCESS_RESIDENT_MEMORY_BYTES), "{{instance}}"),
        Query(own(catalogue.INGEST_KEPT_BYTES), "{{instance}} posted"),
    ],
    "bytes",
)
_EVENTS = lines(
    "What happened?",
    "Events per second by kind: the agent's page and /api/v1/events have each.",
    Query(f"{total(own_per_second(catalogue.EVENTS_TOTAL), 'kind')} > 0", "{{kind}}"),
    "ops",
)
_JOURNAL = lines(
    "Is the journal whole?",
    "Bytes in state.dir by cluster, and events lost per second where it cannot be written for long.",
    [
        Query(own(catalogue.JOURNAL_SIZE_BYTES), _REPLICA + " bytes"),
        Query(f"{own_per_second(catalogue.JOURNAL_LOST_EVENTS_TOTAL)} > 0", _REPLICA + " events lost"),
    ],
)


def board() -> Dashboard:
    """Each replica for itself."""
    return Dashboard(
        uid=AGENT,
        title="The agent",
        description="What the agent reads, what did not answer, and what it costs.",
        rows=(
            PanelRow("Can the other dashboards be trusted now?", (_figures(),)),
            PanelRow("What does not answer?", ((_SOURCES, _FAULTS), (_LAST_SUCCESS,))),
            PanelRow("Is the agent's clock right?", ((_CLOCK,),)),
            PanelRow("What does the agent cost?", ((_CPU, _MEMORY),)),
            PanelRow("What is recorded?", ((_EVENTS, _JOURNAL),)),
        ),
    )
