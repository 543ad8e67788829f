"""Panels that stand on more than one dashboard."""

from __future__ import annotations

from grafanalib import core

from exporter.alerts.rule import Record
from exporter.catalogue import (
    APPLICATION_THRESHOLD_SECONDS,
    GROUP_BLOCKED_OFFSETS,
    LAST_UNCLEAN_END_TIMESTAMP_SECONDS,
    LSO_BLOCKER_INFO,
    LSO_LAG_OFFSETS,
    LSO_STALLED_LEADER_ID,
    LSO_STALLED_SINCE_TIMESTAMP_SECONDS,
    OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    OPEN_TRANSACTION_TIMEOUT_SECONDS,
    PRODUCER_FENCES_TOTAL,
    RECENT_PRODUCER_FENCES,
    STALLED_PARTITIONS,
    TOPIC_THRESHOLD_SECONDS,
    TRANSACTIONS_TOTAL,
)
from exporter.dashboards.panels import (
    GREEN,
    GREY,
    KIND_COLOURS,
    ORANGE,
    OUTCOME_COLOURS,
    RED,
    YELLOW,
    Column,
    Query,
    lines,
    stat,
    table,
    timeline,
)
from exporter.dashboards.queries import age, gained, now, of_threshold, per_second, recorded, total

WINDOW = "15m"
OVERVIEW, TRANSACTIONS, LSO = "kafka-eos-overview", "kafka-eos-transactions", "kafka-eos-lso"
BROKERS, CONNECT, STREAMS, PRODUCERS, SPARK, AUDIT, SLO = (
    "kafka-eos-brokers",
    "kafka-eos-connect",
    "kafka-eos-streams",
    "kafka-eos-producers",
    "kafka-eos-spark",
    "kafka-eos-audit",
    "kafka-eos-slo",
)
OF_THRESHOLD = ((None, GREEN), (0.5, YELLOW), (1, RED))

TO_APPLICATION = (TRANSACTIONS, "application", "Transactions of this application")
TO_TOPIC = (LSO, "topic", "Last stable offset of this topic")
_ON_PARTITION = "on (kafka_cluster, topic, partition) group_left ()"
_ON_TOPIC = "on (kafka_cluster, topic) group_left ()"
_WARNING = 'threshold="stall_warning"'


def stalled_partitions(link: str = "") -> core.Panel:
    return stat(
        "Stalled partitions",
        "Partitions whose last stable offset has stayed below the high watermark for longer than the threshold: "
        "read_committed consumers wait there.",
        total(now(STALLED_PARTITIONS)),
        link=link,
    )


def longest_stall(*matchers: str, link: str = "") -> core.Panel:
    stalled = f"time() - {now(LSO_STALLED_SINCE_TIMESTAMP_SECONDS, *matchers)}"
    return stat(
        "Longest stall, of its threshold",
        "How much of the time after which a stall of its topic is a ticket has passed, of the worst partition.",
        f"max({of_threshold(stalled, TOPIC_THRESHOLD_SECONDS, 'stall_warning', *matchers)})",
        "percentunit",
        ((None, YELLOW), (1, RED)),
        none="none known",
        link=link,
    )


def longest_open(*matchers: str, link: str = "") -> core.Panel:
    opened = f"time() - {now(OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, *matchers)}"
    return stat(
        "Oldest open, of its threshold",
        "How much of the time for which a transaction of its application may be open has passed, of the worst one.",
        f"max({of_threshold(opened, APPLICATION_THRESHOLD_SECONDS, 'open_warning', *matchers)})",
        "percentunit",
        OF_THRESHOLD,
        none="none known",
        link=link,
    )


def fences(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        f"Fences, {WINDOW}",
        "Times an InitProducerId ended an open transaction: two processes with one transactional.id, or a crashed one "
        "cleaned up by its successor.",
        f"round({total(gained(PRODUCER_FENCES_TOTAL, WINDOW, *matchers))})",
        steps=((None, "green"), (1, ORANGE), (10, RED)),
        link=link,
    )


def timeouts(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        f"Timeouts, {WINDOW}",
        "Transactions that the coordinator ended because they ran into transaction.timeout.ms.",
        "round(" + total(gained(TRANSACTIONS_TOTAL, WINDOW, 'outcome="timed_out"', *matchers)) + ")",
        steps=((None, "green"), (1, ORANGE), (10, RED)),
        link=link,
    )


def not_committed(*matchers: str, link: str = "") -> core.Panel:
    finished = total(gained(TRANSACTIONS_TOTAL, WINDOW, *matchers))
    committed = total(gained(TRANSACTIONS_TOTAL, WINDOW, 'outcome="committed"', *matchers))
    return stat(
        f"Not committed, {WINDOW}",
        "Share of the finished transactions that were aborted, timed out or fenced.",
        f"1 - {committed} / ({finished} > 0)",
        "percentunit",
        steps=((None, "green"), (0.05, YELLOW), (0.25, ORANGE)),
        none="none known",
        link=link,
    )


def used_up(title: str, remaining: Record, by: str, *matchers: str, link: str = "") -> core.Panel:
    """How many have lost more in 30 days than they may; not known without the recording rules."""
    return stat(
        title,
        "Lost more in the last 30 days than the objective allows, by the recording rules; not known without them.",
        f"sum({recorded('min', by, remaining, *matchers)} < bool 0)",
        steps=((None, GREEN), (1, ORANGE)),
        none="not known",
        link=link,
    )


def groups_held_up(*matchers: str) -> str:
    """How many groups have unreadable offsets in a topic with a stalled partition; those of a healthy open transaction,
    which come and go, do not count. Absent when either is not known.
    """
    waits, stalled = f"{now(GROUP_BLOCKED_OFFSETS, *matchers)} > bool 0", f"{now(STALLED_PARTITIONS)} > bool 0"
    return f"sum(max by (kafka_cluster, group) (({waits}) * on (kafka_cluster, topic) group_left () ({stalled})))"


NEXT_STEPS = {
    "open": "find its producer, or wait for the timeout",
    "completing": "wait; look for a partition without leader",
    "hanging": "agent's page: the line that ends it, with its proof",
    "unmarked": "committed: end nothing; agent's page: what releases it",
    "unknown": "agent's page: the grant or broker that is missing",
}
_RUNBOOKS = "https://github.com/kafka-eos-exporter/kafka-eos-exporter/blob/main/alerts/runbooks"


def holders(*matchers: str) -> core.Panel:
    """Stalled partitions with their holders, one row each."""
    blockers = f'label_replace({now(LSO_BLOCKER_INFO, *matchers)}, "next_step", "$1", "kind", "(.*)")'
    since = age(f"({blockers} * {_ON_PARTITION} {now(LSO_STALLED_SINCE_TIMESTAMP_SECONDS, *matchers)})")
    lag = f"{blockers} * {_ON_PARTITION} {now(LSO_LAG_OFFSETS, *matchers)}"
    leader = f"{blockers} * {_ON_PARTITION} {now(LSO_STALLED_LEADER_ID, *matchers)}"
    warning = f"{_ON_TOPIC} {now(TOPIC_THRESHOLD_SECONDS, *matchers, _WARNING)}"
    began = f"min by (kafka_cluster, producer_id) ({now(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS)})"
    timeout = f"max by (kafka_cluster, producer_id) ({now(OPEN_TRANSACTION_TIMEOUT_SECONDS)})"
    ends = f"{blockers} * on (kafka_cluster, producer_id) group_left () ({began} + {timeout}) - time()"
    return table(
        "Stalled partitions, and who holds them",
        "The one transaction whose start offset is the last stable offset. Of its threshold: how much of the time"
        " after "
        "which its topic is a ticket has passed. Ends in: until its coordinator ends it; below 0 it is late; empty "
        "without a timeout. Next step links to the agent's page, which has the line to type and its proof.",
        [since, lag, leader, f"({since}) / {warning}", ends],
        [
            Column("Value #A", "Stalled for", "s", width=110),
            Column("Value #D", "Of its threshold", "percentunit", steps=((None, YELLOW), (1, RED)), width=130),
            Column("topic", "Topic", link=TO_TOPIC),
            Column("partition", "Partition", width=80),
            Column(
                "kind", "Kind", colours=KIND_COLOURS, width=100, page=("Runbook", f"{_RUNBOOKS}/KafkaEosLsoStalled.md")
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


ALERT_SUBJECTS = (
    "transactional_id",
    "producer_id",
    "topic",
    "group",
    "connect",
    "connector",
    "task",
    "server",
    "spark_application",
    "query",
    "audit",
    "check",
    "broker",
    "coordinator",
    "client_id",
    "thread",
    "source",
    "target",
    "error",
    "metric",
    "job",
    "instance",
)
"""Labels of alerts that tell two of one name, cluster and application apart."""
_NUMBERED = {"producer_id": "producer", "task": "task", "broker": "broker", "coordinator": "broker"}


def firing() -> core.Panel:
    """Which alerts of ours fire now, by the ruler that evaluates them."""
    who = ", ".join(("severity", "alertname", "reason", "kafka_cluster", "application", *ALERT_SUBJECTS))
    ours = 'alertname=~"KafkaEos.+", severity!="none", kafka_cluster=~"$kafka_cluster"'
    fires = f'max by ({who}) (ALERTS{{{ours}, alertstate="firing"}})'
    begun = f"min by ({who}) (ALERTS_FOR_STATE{{{ours}}})"
    return table(
        "Firing alerts",
        "Of this set, as Prometheus has them now: pages on top, then those whose condition has lasted longest. Alert"
        " links to the runbook, Cluster to the agent's page, whose address is set above. Silences and inhibition of"
        " Alertmanager are not in it.",
        [_of_subject(fires), _of_subject(f"({begun} and {fires}) * 1000")],
        [
            Column("severity", "Severity", colours={"critical": RED, "warning": ORANGE}, width=90),
            Column("Value #B", "Since", "dateTimeAsLocal", width=160),
            Column("alertname", "Alert", width=270, page=("Runbook", f"{_RUNBOOKS}/${{__value.text}}.md")),
            Column("reason", "Reason", width=110),
            Column("application", "Application", link=TO_APPLICATION),
            Column("subject", "Subject"),
            Column(
                "kafka_cluster",
                "Cluster",
                width=110,
                page=("The agent's page", "${agent_page}/?cluster=${__value.text:percentencode}"),
            ),
        ],
        sort=["Severity", "Since"],
        smallest_first=True,
        none="none fires, or the rules are not loaded",
    )


def _of_subject(alerts: str) -> str:
    """Return alerts with one label ``subject``, of all labels that tell two alerts of one name apart."""
    for label, word in _NUMBERED.items():
        alerts = f'label_replace({alerts}, "{label}", "{word} $1", "{label}", "(.+)")'
    names = ", ".join(f'"{label}"' for label in ALERT_SUBJECTS)
    joined = f'label_join({alerts}, "subject", " ", {names})'
    return f'label_replace({joined}, "subject", "$1", "subject", " *(.*?) *")'


def stalls_over_time(*matchers: str) -> core.Panel:
    """A band for each topic with a stalled partition."""
    return timeline(
        "Stalled topics over time",
        "Number of stalled partitions of every topic that has or had one.",
        Query(
            total(now(STALLED_PARTITIONS, *matchers), "kafka_cluster, topic") + " > 0",
            "{{kafka_cluster}} {{topic}}",
        ),
        states=(),
        steps=((None, YELLOW), (1, RED)),
    )


def outcomes(*matchers: str) -> core.Panel:
    return lines(
        "Transactions by outcome",
        "Finished transactions per second, each counted once.",
        Query(total(per_second(TRANSACTIONS_TOTAL, *matchers), "outcome"), "{{outcome}}"),
        "ops",
        colours=OUTCOME_COLOURS,
        stacked=True,
    )


def unclean_ends(*matchers: str) -> core.Panel:
    return table(
        "Latest fences and timeouts",
        "Who it happened to in the last hour, by the time of the transaction log; the newest have the smallest age.",
        [age(now(LAST_UNCLEAN_END_TIMESTAMP_SECONDS, *matchers))],
        [
            Column("Value #A", "Ago", "s", width=110),
            Column("outcome", "Outcome", colours=OUTCOME_COLOURS, width=150),
            Column("transactional_id", "Transactional id"),
            Column("application", "Application", link=TO_APPLICATION),
            Column("producer_id", "Producer id", width=110),
            Column("producer_epoch", "Epoch", width=80),
        ],
        sort=["Ago"],
        smallest_first=True,
        none="none known in the last hour",
    )


def fenced_ids(*matchers: str) -> core.Panel:
    return table(
        "Fenced again and again",
        "Fences of one transactional.id in the last 10 minutes: from 2 on, two live processes share it or one crashes "
        "in a loop.",
        [now(RECENT_PRODUCER_FENCES, *matchers)],
        [
            Column("Value #A", "Fences, 10 min", steps=((None, YELLOW), (2, RED)), width=130),
            Column("transactional_id", "Transactional id"),
            Column("application", "Application", link=TO_APPLICATION),
        ],
        sort=["Fences, 10 min"],
        none="none known in 10 minutes",
    )
