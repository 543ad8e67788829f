"""Panels, and parts of queries, that stand on more than one dashboard."""

from __future__ import annotations

from grafanalib import core

from exporter import catalogue
from exporter.dashboards.board import STALLS, TRANSACTIONS
from exporter.dashboards.panels import GREY, KIND_COLOURS, OUTCOME_COLOURS, RED, YELLOW, Column, Query, lines, table
from exporter.dashboards.queries import age, now, per_second, total

TO_APPLICATION = (TRANSACTIONS, "application", "Transactions of this application")
TO_TOPIC = (STALLS, "topic", "Stalls of this topic")
RUNBOOKS = "https://github.com/kafka-eos-exporter/kafka-eos-exporter/blob/main/alerts/runbooks"
_ON_PARTITION = "on (kafka_cluster, topic, partition) group_left ()"
_ON_TOPIC = "on (kafka_cluster, topic) group_left ()"


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
