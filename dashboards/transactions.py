"""Outcomes of transactions by application: rates, durations, open transactions, ids with the most fences."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    APPLICATION_INFO,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    OLDEST_COMPLETION_START_TIMESTAMP_SECONDS,
    OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_TIMEOUT_SECONDS,
    OVERDUE_TRANSACTIONS,
    PRODUCER_FENCES_TOTAL,
    PRODUCER_INITS_TOTAL,
    RECENT_APPLICATIONS,
    TRANSACTION_COMPLETION_SECONDS,
    TRANSACTION_OPEN_SECONDS,
    TRANSACTIONAL_IDS,
    TRANSACTIONS_OPEN,
    TRANSACTIONS_TOTAL,
)
from exporter.dashboards.board import APPLICATION, Board, Line, PanelRow
from exporter.dashboards.panels import (
    BLUE,
    GREEN,
    NEUTRAL,
    RED,
    STATE_COLOURS,
    YELLOW,
    Column,
    Query,
    heat,
    lines,
    stat,
    table,
)
from exporter.dashboards.queries import OF_APPLICATION, age, buckets, now, per_second, quantile, series, total
from exporter.dashboards.shared import (
    TRANSACTIONS,
    fenced_ids,
    fences,
    longest_open,
    not_committed,
    outcomes,
    timeouts,
    unclean_ends,
)


def board() -> Board:
    """Transactions by application."""
    return Board(
        uid=TRANSACTIONS,
        title="Kafka EOS / Transactions",
        description="Rates, outcomes and durations of transactions by application; what is open; who fences whom.",
        variables=(APPLICATION,),
        rows=(
            PanelRow("Now", (Line(4, _now()),)),
            PanelRow(
                "Outcomes",
                (
                    Line(8, (outcomes(OF_APPLICATION), _commits())),
                    Line(8, (_failures(), unclean_ends(OF_APPLICATION)), (10, 14)),
                ),
            ),
            PanelRow("Open transactions", (Line(8, (_open_table(),)), Line(8, (_open(), _oldest())))),
            PanelRow(
                "Durations", (Line(8, (_open_heat(), _open_seconds())), Line(8, (_completion(), _oldest_completion())))
            ),
            PanelRow("Producers", (Line(8, (_fences(), fenced_ids(OF_APPLICATION), _applications()), (8, 8, 8)),)),
        ),
    )


def _now() -> tuple[core.Panel, ...]:
    committed = per_second(TRANSACTIONS_TOTAL, 'outcome="committed"', OF_APPLICATION)
    return (
        stat("Commits per second", "Transactions that committed.", total(committed), "ops", NEUTRAL),
        not_committed(OF_APPLICATION),
        timeouts(OF_APPLICATION),
        fences(OF_APPLICATION),
        stat(
            "Open now",
            "Transactions that their coordinator has not completed.",
            total(now(TRANSACTIONS_OPEN, OF_APPLICATION)),
            "none",
            NEUTRAL,
        ),
        longest_open(OF_APPLICATION),
        stat(
            "Overdue",
            "Open for longer than their own timeout and 15 seconds: the coordinator should have ended them.",
            total(now(OVERDUE_TRANSACTIONS, OF_APPLICATION)),
        ),
        stat(
            "Transactional ids",
            "Seen in the transaction log in the last hour.",
            total(now(TRANSACTIONAL_IDS, OF_APPLICATION)),
            "none",
            NEUTRAL,
        ),
        stat(
            "New applications, 1h",
            "Applications that appeared in the last hour. Many: ids with a host or a counter in them that need a"
            " pattern.",
            total(now(RECENT_APPLICATIONS)),
            "none",
            ((None, NEUTRAL[0][1]), (20, YELLOW)),
        ),
    )


def _commits() -> core.Panel:
    committed = per_second(TRANSACTIONS_TOTAL, 'outcome="committed"', OF_APPLICATION)
    return lines(
        "Commits by application",
        "Transactions committed per second, the ten applications with most.",
        Query(f"topk(10, {total(committed, 'kafka_cluster, application')})", "{{kafka_cluster}} {{application}}"),
        "ops",
    )


def _failures() -> core.Panel:
    failed = per_second(TRANSACTIONS_TOTAL, 'outcome!="committed"', OF_APPLICATION)
    return lines(
        "Not committed, by application",
        "Transactions per second that were aborted, timed out or fenced, the ten worst.",
        Query(
            f"topk(10, {total(failed, 'kafka_cluster, application, outcome')} > 0)",
            "{{kafka_cluster}} {{application}} {{outcome}}",
        ),
        "ops",
    )


def _open_table() -> core.Panel:
    start = now(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, OF_APPLICATION)
    timeout = now(OPEN_TRANSACTION_TIMEOUT_SECONDS, OF_APPLICATION)
    return table(
        "Open transactions, nearest to or furthest past their timeout",
        "The coordinator ends a transaction itself once its age reaches its timeout; two-phase-commit transactions "
        "have none. Every holder of a stalled partition is listed.",
        [age(start), timeout, f"({age(start)}) / {timeout}"],
        [
            Column("Value #A", "Open for", "s", width=120),
            Column("Value #B", "Timeout", "s", width=110),
            Column(
                "Value #C",
                "Of its timeout",
                "percentunit",
                steps=((None, GREEN), (0.5, YELLOW), (1, RED)),
                width=130,
            ),
            Column("transactional_id", "Transactional id"),
            Column("application", "Application"),
            Column("state", "State", colours=STATE_COLOURS, width=140),
            Column("producer_id", "Producer id", width=110),
            Column("producer_epoch", "Epoch", width=80),
            Column("kafka_cluster", "Cluster", width=120),
        ],
        sort=["Of its timeout", "Open for"],
        none="none is known to be open",
    )


def _open() -> core.Panel:
    return lines(
        "Open transactions by state",
        "prepare_commit and prepare_abort: decided, their markers on the way.",
        Query(total(now(TRANSACTIONS_OPEN, OF_APPLICATION), "state"), "{{state}}"),
        "none",
        colours=STATE_COLOURS,
        stacked=True,
    )


def _oldest() -> core.Panel:
    oldest = now(OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, OF_APPLICATION)
    return lines(
        "Oldest open transaction by application",
        "A line that keeps rising is one transaction that does not end, and a last stable offset that does not move.",
        Query(
            f"topk(10, max by (kafka_cluster, application) (time() - {oldest}))",
            "{{kafka_cluster}} {{application}}",
        ),
        "s",
    )


def _open_heat() -> core.Panel:
    return heat(
        "How long transactions were open",
        "Finished transactions per second by the time from begin to the decision: how long each held the last stable "
        "offset.",
        buckets(TRANSACTION_OPEN_SECONDS, OF_APPLICATION),
    )


def _open_seconds() -> core.Panel:
    return lines(
        "Open time by outcome",
        "Median and 99th percentile of the time from begin to the decision; bounded by the buckets' edges.",
        [
            Query(quantile(0.5, TRANSACTION_OPEN_SECONDS, "outcome", OF_APPLICATION), "{{outcome}} p50"),
            Query(quantile(0.99, TRANSACTION_OPEN_SECONDS, "outcome", OF_APPLICATION), "{{outcome}} p99"),
        ],
        "s",
        log=True,
    )


def _completion() -> core.Panel:
    by = "kafka_cluster, application"
    return lines(
        "Time until the markers were written, p99",
        "From the decision to the completion, by application: slow when a leader of one of the partitions is.",
        Query(
            f"topk(10, {quantile(0.99, TRANSACTION_COMPLETION_SECONDS, by, OF_APPLICATION)})",
            "{{kafka_cluster}} {{application}}",
        ),
        "s",
    )


def _oldest_completion() -> core.Panel:
    oldest = now(OLDEST_COMPLETION_START_TIMESTAMP_SECONDS, OF_APPLICATION)
    return lines(
        "Oldest decision without all its markers",
        "Age of the oldest transaction that is decided and not complete; nothing while there is none.",
        Query(f"max by (kafka_cluster, application) (time() - {oldest})", "{{kafka_cluster}} {{application}}"),
        "s",
    )


def _fences() -> core.Panel:
    inits = total(per_second(PRODUCER_INITS_TOTAL, OF_APPLICATION))
    return lines(
        "Initialisations and fences",
        "InitProducerId requests per second, clean restarts included, and those that ended an open transaction, by "
        "application.",
        [
            Query(inits, "all initialisations"),
            Query(
                f"{total(per_second(PRODUCER_FENCES_TOTAL, OF_APPLICATION), 'kafka_cluster, application')} > 0",
                "{{kafka_cluster}} fences {{application}}",
            ),
        ],
        "ops",
        colours={"all initialisations": BLUE},
    )


def _applications() -> core.Panel:
    last = series(LAST_TRANSACTION_TIMESTAMP_SECONDS, 'outcome="committed"', OF_APPLICATION)
    last = f"max by (kafka_cluster, application) ({last})"
    kind = "max by (kafka_cluster, application, kind) (" + now(APPLICATION_INFO, OF_APPLICATION) + ")"
    return table(
        "Last commit",
        "When each application last committed. A steady pipeline that has stopped shows here before anything fails.",
        [f"{kind} * on (kafka_cluster, application) group_left () ({age(last)})"],
        [
            Column("Value #A", "Last commit ago", "s", width=140),
            Column("application", "Application"),
            Column("kind", "Kind", width=130),
        ],
        sort=["Last commit ago"],
    )
