"""Numbers that stand on more than one dashboard: a table of their titles, descriptions, queries and colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from grafanalib import core

from exporter import catalogue
from exporter.alerts.slo import FRESHNESS_REMAINING, REMAINING
from exporter.dashboards.panels import ANY_IS_BAD, ANY_IS_ODD, GREEN, OF_THRESHOLD, ORANGE, RED, YELLOW, Steps, stat
from exporter.dashboards.queries import age, gained, in_state, now, of_threshold, recorded, total

WINDOW = "15m"
_TIMED_OUT = 'outcome="timed_out"'
_ON_TOPIC = "on (kafka_cluster, topic) group_left ()"
_SOME_BAD = ((None, GREEN), (1, ORANGE), (10, RED))
_ANY_IS_A_PITY = ((None, GREEN), (1, YELLOW))


class Figure(NamedTuple):
    """A number: ``expr`` makes its query of matchers, ``none`` is shown where it is not known."""

    title: str
    description: str
    expr: Callable[..., str]
    unit: str = "short"
    steps: Steps = ANY_IS_BAD
    none: str = "unknown"

    def on(self, *matchers: str, link: str = "") -> core.Panel:
        """Its panel, of the series with these matchers; ``link`` is the uid of the dashboard that says more."""
        expr = self.expr(*matchers)
        return stat(self.title, self.description, expr, self.unit, self.steps, none=self.none, link=link)


def _held_up(topic: str = "", group: str = "") -> str:
    """Those of a healthy open transaction, which come and go, do not count. Absent when either is not known."""
    waits = f"{now(catalogue.GROUP_BLOCKED_OFFSETS, *filter(None, (topic, group)))} > bool 0"
    stalled = f"{now(catalogue.STALLED_PARTITIONS, *filter(None, (topic,)))} > bool 0"
    return f"sum(max by (kafka_cluster, group) (({waits}) * {_ON_TOPIC} ({stalled})))"


def _starved(*matchers: str) -> str:
    by = "kafka_cluster, spark_application, query"
    waits = f"max by ({by}, topic) ({now(catalogue.SPARK_SOURCE_BLOCKED_OFFSETS, *matchers)})"
    stalled = f"{_ON_TOPIC} ({now(catalogue.STALLED_PARTITIONS)} > bool 0)"
    return f"sum(max by ({by}) (({waits} > bool 0) * {stalled}))"


def _longest_stall(*matchers: str) -> str:
    stalled = age(now(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, *matchers))
    return f"max({of_threshold(stalled, catalogue.TOPIC_THRESHOLD_SECONDS, 'stall_warning', *matchers)})"


def _longest_open(*matchers: str) -> str:
    opened = age(now(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, *matchers))
    return f"max({of_threshold(opened, catalogue.APPLICATION_THRESHOLD_SECONDS, 'open_warning', *matchers)})"


def _not_committed(*matchers: str) -> str:
    finished = total(gained(catalogue.TRANSACTIONS_TOTAL, WINDOW, *matchers))
    committed = total(gained(catalogue.TRANSACTIONS_TOTAL, WINDOW, 'outcome="committed"', *matchers))
    return f"1 - {committed} / ({finished} > 0)"


def _with_findings(*matchers: str) -> str:
    found = now(catalogue.AUDIT_VERDICT, *matchers, 'verdict="findings"')
    every = now(catalogue.AUDIT_VERDICT, *matchers)
    return f"count(max by (kafka_cluster, audit, topic) ({found})) or count({every}) * 0"


_LOST_BUDGET = "How many lost more in the last 30 days than their objective allows, by the recording rules."
STALLED = Figure(
    "Stalled partitions",
    "Partitions whose last stable offset has not moved for longer than the threshold: read_committed consumers wait"
    " there.",
    lambda *of: total(now(catalogue.STALLED_PARTITIONS, *of)),
)
HANGING = Figure(
    "Hanging transactions",
    "Open in a partition's log and unknown to every coordinator: no coordinator will end them.",
    lambda *of: total(now(catalogue.HANGING_TRANSACTIONS, *of)),
)
HELD_UP = Figure(
    "Groups held up",
    "Consumer groups that wait for a stalled partition: there is more than a read_committed reader can get.",
    _held_up,
    steps=ANY_IS_ODD,
)
LONGEST_STALL = Figure(
    "Longest stall, of its threshold",
    "How much of the time after which a stall of its topic is a ticket has passed, of the worst partition.",
    _longest_stall,
    "percentunit",
    ((None, YELLOW), (1, RED)),
    "none known",
)
LONGEST_OPEN = Figure(
    "Oldest open, of its threshold",
    "How much of the time for which a transaction of its application may be open has passed, of the worst one.",
    _longest_open,
    "percentunit",
    OF_THRESHOLD,
    "none known",
)
FENCES = Figure(
    f"Fences, {WINDOW}",
    "Times that a producer's start ended an open transaction: two processes with one transactional.id, or a crash.",
    lambda *of: f"round({total(gained(catalogue.PRODUCER_FENCES_TOTAL, WINDOW, *of))})",
    steps=_SOME_BAD,
)
TIMEOUTS = Figure(
    f"Timeouts, {WINDOW}",
    "Transactions that the coordinator ended because they ran into transaction.timeout.ms.",
    lambda *of: f"round({total(gained(catalogue.TRANSACTIONS_TOTAL, WINDOW, _TIMED_OUT, *of))})",
    steps=_SOME_BAD,
)
NOT_COMMITTED = Figure(
    f"Not committed, {WINDOW}",
    "Share of the finished transactions that were aborted, timed out or fenced.",
    _not_committed,
    "percentunit",
    ((None, GREEN), (0.05, YELLOW), (0.25, ORANGE)),
    "none known",
)
APPLICATIONS_WITHOUT_BUDGET = Figure(
    "Applications without budget",
    _LOST_BUDGET,
    lambda *of: f"sum({recorded('min', 'kafka_cluster, application', REMAINING, *of)} < bool 0)",
    steps=ANY_IS_ODD,
    none="not known",
)
TOPICS_WITHOUT_BUDGET = Figure(
    "Topics without budget",
    _LOST_BUDGET,
    lambda *of: f"sum({recorded('min', 'kafka_cluster, topic', FRESHNESS_REMAINING, *of)} < bool 0)",
    steps=ANY_IS_ODD,
    none="not known",
)
IDS_UNAVAILABLE = Figure(
    "Ids without coordinator",
    "Transactional ids whose partition of __transaction_state is offline or under its minimum ISR.",
    lambda *of: total(now(catalogue.TRANSACTIONAL_IDS_UNAVAILABLE, *of)),
)
CHECKS_FAILED = Figure(
    "Posture checks failed",
    "Settings that exactly-once needs and that are not so; the dashboard of the brokers names them.",
    lambda *of: total(f"1 - {now(catalogue.POSTURE_CHECK, *of)}"),
    steps=_ANY_IS_A_PITY,
)
TASKS_FAILED = Figure(
    "Failed Connect tasks",
    "Ended by an error: Connect does not restart them by itself.",
    lambda *of: in_state(catalogue.CONNECT_TASK_STATE, "failed", *of),
    none="no Connect",
)
TO_RESTORE = Figure(
    "Streams records to restore",
    "Until then the tasks concerned process nothing.",
    lambda *of: total(now(catalogue.STREAMS_RESTORE_REMAINING_RECORDS, *of)),
    steps=_ANY_IS_A_PITY,
    none="none known",
)
QUERIES_FAILED = Figure(
    "Failed Spark queries",
    "Ended by an error less than an hour ago, and not started again.",
    lambda *of: in_state(catalogue.SPARK_QUERY_STATE, "failed", *of),
    none="no Spark",
)
QUERIES_STARVED = Figure(
    "Spark queries starved",
    "They look idle and healthy, and cannot read on: one of their topics is stalled.",
    _starved,
    steps=ANY_IS_ODD,
    none="no Spark",
)
WITH_FINDINGS = Figure(
    "Topics with findings",
    "Topics whose last audit found records that break exactly-once.",
    _with_findings,
    none="no audit",
)
