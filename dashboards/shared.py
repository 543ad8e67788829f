"""Panels, and parts of queries, that stand on more than one dashboard."""

from __future__ import annotations

from grafanalib import core

from exporter import catalogue
from exporter.alerts.rule import Record
from exporter.dashboards.board import STALLS, TRANSACTIONS
from exporter.dashboards.panels import (
    ANY_IS_ODD,
    GREEN,
    GREY,
    KIND_COLOURS,
    OF_THRESHOLD,
    ORANGE,
    OUTCOME_COLOURS,
    RED,
    YELLOW,
    Column,
    Query,
    lines,
    stat,
    table,
)
from exporter.dashboards.queries import age, gained, in_state, now, of_threshold, per_second, recorded, total

WINDOW = "15m"
TO_APPLICATION = (TRANSACTIONS, "application", "Transactions of this application")
TO_TOPIC = (STALLS, "topic", "Stalls of this topic")
RUNBOOKS = "https://github.com/kafka-eos-exporter/kafka-eos-exporter/blob/main/alerts/runbooks"
_ON_PARTITION = "on (kafka_cluster, topic, partition) group_left ()"
_ON_TOPIC = "on (kafka_cluster, topic) group_left ()"
_SOME_BAD = ((None, GREEN), (1, ORANGE), (10, RED))


def stalled_partitions(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Stalled partitions",
        "Partitions whose last stable offset has not moved for longer than the threshold: read_committed consumers"
        " wait there.",
        total(now(catalogue.STALLED_PARTITIONS, *matchers)),
        link=link,
    )


def hanging(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Hanging transactions",
        "Open in a partition's log and unknown to every coordinator: no coordinator will end them.",
        total(now(catalogue.HANGING_TRANSACTIONS, *matchers)),
        link=link,
    )


def groups_held_up(topic: str = "", group: str = "", *, link: str = "") -> core.Panel:
    """Those of a healthy open transaction, which come and go, do not count. Absent when either is not known."""
    waits = f"{now(catalogue.GROUP_BLOCKED_OFFSETS, *filter(None, (topic, group)))} > bool 0"
    stalled = f"{now(catalogue.STALLED_PARTITIONS, *filter(None, (topic,)))} > bool 0"
    return stat(
        "Groups held up",
        "Consumer groups that wait for a stalled partition: there is more than a read_committed reader can get.",
        f"sum(max by (kafka_cluster, group) (({waits}) * {_ON_TOPIC} ({stalled})))",
        steps=ANY_IS_ODD,
        link=link,
    )


def longest_stall(*matchers: str, link: str = "") -> core.Panel:
    stalled = age(now(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, *matchers))
    return stat(
        "Longest stall, of its threshold",
        "How much of the time after which a stall of its topic is a ticket has passed, of the worst partition.",
        f"max({of_threshold(stalled, catalogue.TOPIC_THRESHOLD_SECONDS, 'stall_warning', *matchers)})",
        "percentunit",
        ((None, YELLOW), (1, RED)),
        none="none known",
        link=link,
    )


def longest_open(*matchers: str, link: str = "") -> core.Panel:
    opened = age(now(catalogue.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, *matchers))
    return stat(
        "Oldest open, of its threshold",
        "How much of the time for which a transaction of its application may be open has passed, of the worst one.",
        f"max({of_threshold(opened, catalogue.APPLICATION_THRESHOLD_SECONDS, 'open_warning', *matchers)})",
        "percentunit",
        OF_THRESHOLD,
        none="none known",
        link=link,
    )


def fences(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        f"Fences, {WINDOW}",
        "Times that a producer's start ended an open transaction: two processes with one transactional.id, or a crash.",
        f"round({total(gained(catalogue.PRODUCER_FENCES_TOTAL, WINDOW, *matchers))})",
        steps=_SOME_BAD,
        link=link,
    )


def timeouts(*matchers: str, link: str = "") -> core.Panel:
    timed_out = total(gained(catalogue.TRANSACTIONS_TOTAL, WINDOW, 'outcome="timed_out"', *matchers))
    return stat(
        f"Timeouts, {WINDOW}",
        "Transactions that the coordinator ended because they ran into transaction.timeout.ms.",
        f"round({timed_out})",
        steps=_SOME_BAD,
        link=link,
    )


def not_committed(*matchers: str, link: str = "") -> core.Panel:
    finished = total(gained(catalogue.TRANSACTIONS_TOTAL, WINDOW, *matchers))
    committed = total(gained(catalogue.TRANSACTIONS_TOTAL, WINDOW, 'outcome="committed"', *matchers))
    return stat(
        f"Not committed, {WINDOW}",
        "Share of the finished transactions that were aborted, timed out or fenced.",
        f"1 - {committed} / ({finished} > 0)",
        "percentunit",
        ((None, GREEN), (0.05, YELLOW), (0.25, ORANGE)),
        none="none known",
        link=link,
    )


def used_up(title: str, remaining: Record, by: str, *matchers: str, link: str = "") -> core.Panel:
    return stat(
        title,
        "How many lost more in the last 30 days than their objective allows, by the recording rules.",
        f"sum({recorded('min', by, remaining, *matchers)} < bool 0)",
        steps=ANY_IS_ODD,
        none="not known",
        link=link,
    )


def unavailable_ids(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Ids without coordinator",
        "Transactional ids whose partition of __transaction_state is offline or under its minimum ISR.",
        total(now(catalogue.TRANSACTIONAL_IDS_UNAVAILABLE, *matchers)),
        link=link,
    )


def failed_checks(link: str = "") -> core.Panel:
    return stat(
        "Posture checks failed",
        "Settings that exactly-once needs and that are not so; the dashboard of the brokers names them.",
        total(f"1 - {now(catalogue.POSTURE_CHECK)}"),
        steps=((None, GREEN), (1, YELLOW)),
        link=link,
    )


def failed_tasks(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Failed Connect tasks",
        "Ended by an error: Connect does not restart them by itself.",
        in_state(catalogue.CONNECT_TASK_STATE, "failed", *matchers),
        none="no Connect",
        link=link,
    )


def records_to_restore(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Streams records to restore",
        "Until then the tasks concerned process nothing.",
        total(now(catalogue.STREAMS_RESTORE_REMAINING_RECORDS, *matchers)),
        steps=((None, GREEN), (1, YELLOW)),
        none="none known",
        link=link,
    )


def failed_queries(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Failed Spark queries",
        "Ended by an error less than an hour ago, and not started again.",
        in_state(catalogue.SPARK_QUERY_STATE, "failed", *matchers),
        none="no Spark",
        link=link,
    )


def starved_queries(*matchers: str, link: str = "") -> core.Panel:
    blocked = now(catalogue.SPARK_SOURCE_BLOCKED_OFFSETS, *matchers)
    waits = f"max by (kafka_cluster, spark_application, query, topic) ({blocked})"
    stalled = f"{_ON_TOPIC} ({now(catalogue.STALLED_PARTITIONS)} > bool 0)"
    return stat(
        "Spark queries starved",
        "They look idle and healthy, and cannot read on: one of their topics is stalled.",
        f"sum(max by (kafka_cluster, spark_application, query) (({waits} > bool 0) * {stalled}))",
        steps=ANY_IS_ODD,
        none="no Spark",
        link=link,
    )


def topics_with_findings(*matchers: str, link: str = "") -> core.Panel:
    which = now(catalogue.AUDIT_VERDICT, *matchers, 'verdict="findings"')
    return stat(
        "Topics with findings",
        "Topics whose last audit found records that break exactly-once.",
        f"count(max by (kafka_cluster, audit, topic) ({which}))"
        f" or count({now(catalogue.AUDIT_VERDICT, *matchers)}) * 0",
        none="no audit",
        link=link,
    )


def outcomes(*matchers: str) -> core.Panel:
    return lines(
        "How do transactions end?",
        "Finished transactions per second, each counted once.",
        Query(total(per_second(catalogue.TRANSACTIONS_TOTAL, *matchers), "outcome"), "{{outcome}}"),
        "ops",
        colours=OUTCOME_COLOURS,
        stacked=True,
    )


NEXT_STEPS = {
    "open": "find its producer, or wait for the timeout",
    "completing": "wait; look for a partition without leader",
    "hanging": "agent's page: the line that ends it, with its proof",
    "unmarked": "committed: end nothing; agent's page: what releases it",
    "unknown": "agent's page: the grant or broker that is missing",
}


def holders(*matchers: str) -> core.Panel:
    """Stalled partitions with their holders, one row each. ``matchers`` are of the topic."""
    blockers = f'label_replace({now(catalogue.LSO_BLOCKER_INFO, *matchers)}, "next_step", "$1", "kind", "(.*)")'
    since = age(f"({blockers} * {_ON_PARTITION} {now(catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS, *matchers)})")
    lag = f"{blockers} * {_ON_PARTITION} {now(catalogue.LSO_LAG_OFFSETS, *matchers)}"
    leader = f"{blockers} * {_ON_PARTITION} {now(catalogue.LSO_STALLED_LEADER_ID, *matchers)}"
    warning = now(catalogue.TOPIC_THRESHOLD_SECONDS, *matchers, 'threshold="stall_warning"')
    began = f"min by (kafka_cluster, producer_id) ({now(catalogue.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS)})"
    timeout = f"max by (kafka_cluster, producer_id) ({now(catalogue.OPEN_TRANSACTION_TIMEOUT_SECONDS)})"
    ends = f"{blockers} * on (kafka_cluster, producer_id) group_left () ({began} + {timeout}) - time()"
    return table(
        "Which partitions are stalled, and who holds them?",
        "Each with the transaction at its last stable offset, when its coordinator ends it (below 0 it is late) and"
        " the next step, which links to the agent's page with its proof.",
        [since, lag, leader, f"({since}) / {_ON_TOPIC} {warning}", ends],
        [
            Column("Value #A", "Stalled for", "s", width=110),
            Column("Value #D", "Of its threshold", "percentunit", steps=((None, YELLOW), (1, RED)), width=130),
            Column("topic", "Topic", link=TO_TOPIC),
            Column("partition", "Partition", width=80),
            Column(
                "kind", "Kind", colours=KIND_COLOURS, width=100, page=("Runbook", f"{RUNBOOKS}/KafkaEosLsoStalled.md")
            ),
            Column("next_step", "Next step", texts=NEXT_STEPS, width=300, page=("The agent's page", "${agent_page}")),
            Column("application", "Application", link=TO_APPLICATION),
            Column("transactional_id", "Transactional id", empty="not known"),
            Column("Value #E", "Ends in", "s", steps=((None, RED), (0, GREY)), width=100),
            Column("Value #C", "Leader", "none", width=70),
            Column("producer_id", "Producer id", width=100),
            Column("producer_epoch", "Epoch", width=70),
            Column("start_offset", "Start offset", width=100),
            Column("Value #B", "Offsets behind it", "short", width=130),
            Column("kafka_cluster", "Cluster", width=110),
        ],
        sort=["Stalled for"],
        none="nothing is known to be stalled",
    )
