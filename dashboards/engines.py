"""Numbers that stand on the dashboard of their subject and, with a link to it, on the overview."""

from __future__ import annotations

from grafanalib import core

from exporter.catalogue import (
    AUDIT_VERDICT,
    CONNECT_TASK_STATE,
    POSTURE_CHECK,
    SPARK_QUERY_STATE,
    SPARK_SOURCE_BLOCKED_OFFSETS,
    STALLED_PARTITIONS,
    STREAMS_RESTORE_REMAINING_RECORDS,
)
from exporter.dashboards.panels import GREEN, ORANGE, YELLOW, stat
from exporter.dashboards.queries import in_state, now, total


def failed_tasks(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Failed Connect tasks",
        "Ended by an error: Connect does not restart them by itself.",
        in_state(CONNECT_TASK_STATE, "failed", *matchers),
        none="no Connect",
        link=link,
    )


def records_to_restore(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Streams records to restore",
        "Until then the tasks concerned process nothing.",
        total(now(STREAMS_RESTORE_REMAINING_RECORDS, *matchers)),
        steps=((None, GREEN), (1, YELLOW)),
        none="none known",
        link=link,
    )


def failed_queries(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Failed Spark queries",
        "Ended by an error, and not started again. One that ended more than an hour ago is not shown.",
        in_state(SPARK_QUERY_STATE, "failed", *matchers),
        none="no Spark",
        link=link,
    )


def starved_queries(*matchers: str, link: str = "") -> core.Panel:
    waits = f"max by (kafka_cluster, spark_application, query, topic) ({now(SPARK_SOURCE_BLOCKED_OFFSETS, *matchers)})"
    stalled = f"on (kafka_cluster, topic) group_left () ({now(STALLED_PARTITIONS)} > bool 0)"
    return stat(
        "Spark queries starved",
        "They look idle and healthy, and cannot read on: the last stable offset of one of their topics does not move.",
        f"sum(max by (kafka_cluster, spark_application, query) (({waits} > bool 0) * {stalled}))",
        steps=((None, GREEN), (1, ORANGE)),
        none="no Spark",
        link=link,
    )


def topics_with_findings(*matchers: str, link: str = "") -> core.Panel:
    return stat(
        "Topics with findings",
        "Topics whose last audit found records that break exactly-once.",
        topics_of("findings", *matchers),
        none="no audit",
        link=link,
    )


def failed_checks(link: str = "") -> core.Panel:
    return stat(
        "Posture checks failed",
        "Settings that exactly-once needs and that are not so; the dashboard of the brokers names them.",
        total(f"1 - {now(POSTURE_CHECK)}"),
        steps=((None, GREEN), (1, YELLOW)),
        link=link,
    )


def topics_of(verdict: str, *matchers: str) -> str:
    """How many topics have this verdict; 0 when all have another one, absent without audits."""
    which = now(AUDIT_VERDICT, *matchers, f'verdict="{verdict}"')
    return f"count(max by (kafka_cluster, audit, topic) ({which})) or count({now(AUDIT_VERDICT, *matchers)}) * 0"
