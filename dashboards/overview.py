"""Is it healthy; if not, where, and who."""

from __future__ import annotations

from grafanalib import core

from exporter.alerts.slo import FRESHNESS_REMAINING, REMAINING
from exporter.catalogue import (
    APPLICATION_THRESHOLD_SECONDS,
    GROUP_BLOCKED_OFFSETS,
    HANGING_TRANSACTIONS,
    OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OVERDUE_TRANSACTIONS,
    TRANSACTIONAL_IDS_UNAVAILABLE,
    TRANSACTIONS_OPEN,
    TRANSACTIONS_TOTAL,
)
from exporter.dashboards.agent import AGENT
from exporter.dashboards.board import Board, Line, PanelRow
from exporter.dashboards.engines import (
    failed_checks,
    failed_queries,
    failed_tasks,
    records_to_restore,
    starved_queries,
    topics_with_findings,
)
from exporter.dashboards.panels import BLUE, GREEN, NEUTRAL, ORANGE, RED, Column, Query, lines, stat, table
from exporter.dashboards.queries import agents, answered, gained, now, of_threshold, per_second, total
from exporter.dashboards.shared import (
    AUDIT,
    BROKERS,
    CONNECT,
    LSO,
    OF_THRESHOLD,
    OVERVIEW,
    SLO,
    SPARK,
    STREAMS,
    TRANSACTIONS,
    WINDOW,
    fenced_ids,
    fences,
    firing,
    groups_held_up,
    holders,
    longest_open,
    longest_stall,
    not_committed,
    outcomes,
    stalled_partitions,
    stalls_over_time,
    timeouts,
    unclean_ends,
    used_up,
)


def board() -> Board:
    """The dashboard to open first."""
    return Board(
        uid=OVERVIEW,
        title="Kafka EOS / Overview",
        description="Is exactly-once healthy on these clusters; if not, where, and who.",
        rows=(
            PanelRow("Is it healthy?", (Line(4, _health()), Line(3, _figures()))),
            PanelRow(
                "Where, and who",
                (
                    Line(7, (firing(),)),
                    Line(7, (holders(),)),
                    Line(8, (stalls_over_time(), _blocked_groups()), (14, 10)),
                ),
            ),
            PanelRow("What rests on it", (Line(3, (*_objectives(), *_engines())),)),
            PanelRow("Who watches", (Line(6, (_agents(),)),)),
            PanelRow(
                "Outcomes of transactions",
                (
                    Line(8, (outcomes(), _by_application()), (10, 14)),
                    Line(8, (unclean_ends(), fenced_ids()), (14, 10)),
                ),
            ),
        ),
    )


def _health() -> tuple[core.Panel, ...]:
    return (
        stalled_partitions(link=LSO),
        stat(
            "Hanging transactions",
            "Open in a partition's log and unknown to every coordinator: no coordinator will end them.",
            total(now(HANGING_TRANSACTIONS)),
            link=LSO,
        ),
        stat(
            "Groups held up",
            "Consumer groups that wait for a stalled partition: there is more than a read_committed reader can get.",
            groups_held_up(),
            steps=((None, GREEN), (1, ORANGE)),
            link=LSO,
        ),
        fences(link=TRANSACTIONS),
        timeouts(link=TRANSACTIONS),
        stat(
            "Sources not answering",
            "What a replica of the agent got no full answer from. While this is not 0, a part of this page is"
            " unknown, or rests on one replica.",
            total(f"1 - {answered()}"),
            link=AGENT,
        ),
    )


def _figures() -> tuple[core.Panel, ...]:
    return (
        longest_stall(link=LSO),
        longest_open(link=TRANSACTIONS),
        stat(
            "Overdue transactions",
            "Open for longer than their own timeout and 15 seconds: the coordinator should have ended them.",
            total(now(OVERDUE_TRANSACTIONS)),
            link=TRANSACTIONS,
        ),
        not_committed(link=TRANSACTIONS),
        stat(
            "Ids without coordinator",
            "Transactional ids whose partition of __transaction_state is offline or under its minimum ISR.",
            total(now(TRANSACTIONAL_IDS_UNAVAILABLE)),
            link=BROKERS,
        ),
        stat(
            "Commits per second",
            "Transactions that committed.",
            total(per_second(TRANSACTIONS_TOTAL, 'outcome="committed"')),
            "ops",
            steps=NEUTRAL,
            link=TRANSACTIONS,
        ),
    )


_ANSWERS = {"0": "not all answer", "1": "answer"}


def _agents() -> core.Panel:
    return table(
        "Agents",
        "Each agent with each cluster that it reads, first those of which a source does not answer. Page is its"
        " web.external_url, where that is set. An agent that Prometheus cannot scrape is not here: its alert says so.",
        [agents()],
        [
            Column("Value #A", "Sources", "none", steps=((None, RED), (1, GREEN)), width=150, texts=_ANSWERS),
            Column("kafka_cluster", "Cluster"),
            Column("instance", "Instance"),
            Column("version", "Version", width=110),
            Column("external_url", "Page", page=("The agent's page", "${__value.raw}")),
        ],
        sort=["Sources"],
        smallest_first=True,
        none="no agent is known",
    )


def _objectives() -> tuple[core.Panel, ...]:
    return (
        used_up("Applications without budget", REMAINING, "kafka_cluster, application", link=SLO),
        used_up("Topics without budget", FRESHNESS_REMAINING, "kafka_cluster, topic", link=SLO),
    )


def _engines() -> tuple[core.Panel, ...]:
    return (
        failed_tasks(link=CONNECT),
        records_to_restore(link=STREAMS),
        failed_queries(link=SPARK),
        starved_queries(link=SPARK),
        topics_with_findings(link=AUDIT),
        failed_checks(link=BROKERS),
    )


def _blocked_groups() -> core.Panel:
    return lines(
        "Offsets that groups cannot read yet",
        "High watermark minus last stable offset on each group's partitions: what a read_committed reader waits for.",
        Query(
            f"topk(10, {total(now(GROUP_BLOCKED_OFFSETS), 'kafka_cluster, group, topic')} > 0)",
            "{{kafka_cluster}} {{group}} / {{topic}}",
        ),
    )


def _by_application() -> core.Panel:
    gains = {
        name: total(gained(TRANSACTIONS_TOTAL, WINDOW, f'outcome="{name}"'), "kafka_cluster, application")
        for name in ("committed", "aborted", "timed_out", "fenced")
    }
    opened = f"time() - {now(OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS)}"
    oldest = (
        f"max by (kafka_cluster, application) ({of_threshold(opened, APPLICATION_THRESHOLD_SECONDS, 'open_warning')})"
    )
    return table(
        f"Applications, {WINDOW}",
        "The outcomes of each application's transactions, and the age of its oldest open one by its threshold.",
        [
            f"round({gains['fenced']})",
            f"round({gains['timed_out']})",
            f"round({gains['aborted']})",
            f"round({gains['committed']})",
            total(now(TRANSACTIONS_OPEN), "kafka_cluster, application"),
            oldest,
        ],
        [
            Column(
                "application", "Application", link=(TRANSACTIONS, "application", "Transactions of this application")
            ),
            Column("Value #A", "Fenced", "none", steps=((None, GREEN), (1, RED)), width=90),
            Column("Value #B", "Timed out", "none", steps=((None, GREEN), (1, ORANGE)), width=100),
            Column("Value #C", "Aborted", "none", steps=((None, GREEN), (1, BLUE)), width=100),
            Column("Value #D", "Committed", "none", width=110),
            Column("Value #E", "Open now", "none", width=100),
            Column("Value #F", "Oldest open, of its threshold", "percentunit", steps=OF_THRESHOLD, width=210),
        ],
        sort=["Fenced", "Timed out", "Aborted", "Committed"],
    )
