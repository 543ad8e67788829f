"""Tests of what a page says, as Prometheus renders it: who, where, since when, and the right next step for the kind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest

from exporter.alerts import table
from exporter.alerts.rule import Alert
from exporter.catalogue import (
    BROKER_REQUEST_ERRORS_TOTAL,
    GROUP_BLOCKED_OFFSETS,
    LAST_UNCLEAN_END_TIMESTAMP_SECONDS,
    LSO_HOLDER_PARTITIONS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    RECENT_PRODUCER_FENCES,
)
from tests.rules.cases_failures import SPARK, ended
from tests.rules.cases_flink import deadline
from tests.rules.cases_lso import STALLED, blocker, due, holds, since, timeout
from tests.rules.cases_spark import blocked
from tests.rules.promtool import Series, case, run, scraped
from tests.rules.written import written_rules

RULES = written_rules()
ALERTS = table.alerts()


def rendered(alert: str, series: Iterable[Series], at: str = "6m") -> list[str]:
    """Summary and description of the alerts that fire: promtool prints them when it was told to expect others."""
    said = run(RULES, [case(alert, "shows", series, {at: [{"severity": "none of these"}]})])
    texts = re.findall(r'(description|summary)=("(?:[^"\\]|\\.)*")', said.partition("got:")[2])
    descriptions, summaries = (
        [json.loads(text) for name, text in texts if name == kind] for kind in ("description", "summary")
    )
    return [f"{summary}\n{description}" for summary, description in zip(summaries, descriptions, strict=True)]


def stage() -> list[Series]:
    """A holder of seven partitions that is due."""
    return [due("warning", "0x60"), holds("open", "7x60")]


def started(transactional_id: str = "pay-1") -> Series:
    labels = ("prod", "pay", transactional_id, "7", "4", "ongoing")
    return scraped(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, *labels, values="-60x60")


def test_a_stall_names_its_holder_its_worst_partitions_and_its_end() -> None:
    places = [("prod", "orders", str(number)) for number in range(7)]
    held = [
        series
        for number, place in enumerate(places)
        for series in (since(f"{number}x60", place), blocker("open", place=place))
    ]
    (text,) = rendered(STALLED, [*stage(), *held, started(), timeout(3600)])
    headline, first, story, *lines = text.splitlines()
    assert headline == (
        "prod: readers of orders get no new records since 00:00 UTC. Held by pay-1 (application pay), producer id 7,"
        " which Kafka ends by itself at 00:59 UTC."
    )
    assert first.startswith("First: open the agent's status page (page_url), card orders-0, and do the one step there.")
    assert story == "7 partition(s) held, open. Open since 1969-12-31 23:59:00 +0000 UTC."
    assert sorted(lines[:5]) == [f"- orders-{number} since 1970-01-01 00:00:0{number} +0000 UTC" for number in range(5)]


def test_a_holder_whose_id_is_not_known_is_said_to_be_so() -> None:
    unknown = scraped(LSO_HOLDER_PARTITIONS, "prod", "", "", "7", "hanging", values="2x60")
    texts = rendered(STALLED, [due("warning", "0x60"), unknown])
    assert [
        "Held by a transaction without a known transactional.id, producer id 7" in text
        and "2 partition(s) held, hanging." in text
        for text in texts
    ] == [True]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: f"{rule.name}-{rule.reason}")
def test_no_alert_has_a_command_that_destroys_data(alert: Alert) -> None:
    assert not re.search("kafka-transactions|forceTerminate|--start-offset", alert.description)


def test_who_waits_behind_a_stall_is_named_once() -> None:
    waiting = [
        series
        for agent in "ab"
        for series in (
            scraped(GROUP_BLOCKED_OFFSETS, "prod", "billing", "orders", values="12x60", agent=agent),
            scraped(GROUP_BLOCKED_OFFSETS, "prod", "audit", "orders", values="0x60", agent=agent),
            scraped(GROUP_BLOCKED_OFFSETS, "prod", "elsewhere", "refunds", values="9x60", agent=agent),
            blocked("7x60", topic="orders", agent=agent),
        )
    ]
    (text,) = rendered(STALLED, [*stage(), since("0x60"), blocker("open"), *waiting])
    assert re.findall(r"^- .* waits for .*$", text, re.MULTILINE) == [
        "- group billing waits for 12 offsets of orders",
        "- query orders of Spark application etl waits for 7 offsets of orders",
    ]


def two_holders() -> list[Series]:
    """Two replicas, two clusters and two holders of one topic, each with more partitions and groups than are named."""
    held: list[Series] = []
    for agent in "ab":
        later = 1 if agent == "b" else 0  # it started later, and knows of a younger stall
        for cluster, pid, first in (("prod", "7", 0), ("prod", "8", 10), ("stage", "7", 20)):
            for number in range(first, first + 7):
                place = (cluster, "orders", str(number))
                held += [
                    since(f"{number + later}x60", place, agent),
                    blocker("open", place=place, pid=pid, agent=agent),
                ]
        held.append(since("0x60", ("prod", "orders", "50"), agent))  # its holder is not known
        held += [
            scraped(GROUP_BLOCKED_OFFSETS, cluster, f"{cluster}-{number}", topic, values=f"{value}x60", agent=agent)
            for cluster, topic in (("prod", "orders"), ("prod", "refunds"), ("stage", "orders"))
            for number, value in enumerate((0, 1, 2, 30 + later, 4, 5, 6))
        ]
    return [*stage(), *held]


TOLD = [
    "- orders-0 since 1970-01-01 00:00:00 +0000 UTC",
    "- orders-1 since 1970-01-01 00:00:01 +0000 UTC",
    "- orders-2 since 1970-01-01 00:00:02 +0000 UTC",
    "- orders-3 since 1970-01-01 00:00:03 +0000 UTC",
    "- orders-4 since 1970-01-01 00:00:04 +0000 UTC",
    "- group prod-3 waits for 31 offsets of orders",
    "- group prod-6 waits for 6 offsets of orders",
    "- group prod-5 waits for 5 offsets of orders",
    "- group prod-4 waits for 4 offsets of orders",
    "- group prod-2 waits for 2 offsets of orders",
]
"""Of the holder that is due: the oldest first, then who waits for most, each once."""


def test_the_worst_of_a_holder_are_its_own_whatever_others_hold() -> None:
    (text,) = rendered(STALLED, two_holders())
    assert re.findall("^- .*", text, re.MULTILINE) == TOLD


def test_two_replicas_report_one_holder_once() -> None:
    again = [due("warning", "0x60", agent="b"), holds("open", "7x60", agent="b")]
    (text,) = rendered(STALLED, [*stage(), *again])
    assert text.count("Held by") == 1


def test_counts_are_whole_numbers() -> None:
    metric = BROKER_REQUEST_ERRORS_TOTAL
    series = [scraped(metric, "prod", "3", "Produce", "UNKNOWN_PRODUCER_ID", values="0x3 1371x60")]
    (text,) = rendered("KafkaEosRequestsRefused", series, at="8m")
    assert re.findall(r"refused (\S+) request", text)[0].isdecimal()


def test_a_query_that_an_error_ended_says_by_what() -> None:
    series = [SPARK.state("1x60"), ended("0x3 2x60", "fenced"), ended("0x3 1x60", "stopped")]
    text = next(text for text in rendered("KafkaEosSparkQueryTerminated", series) if "in the last hour" in text)
    assert re.findall("- in the last hour by .*", text) == ["- in the last hour by fenced: 2"]


def test_the_first_transaction_of_a_flink_job_that_is_lost_is_told() -> None:
    ends = [deadline(f"{at}x60", who=f"orders-{at}-7", agent=agent) for at in (900, 1200) for agent in "ab"]
    (text,) = rendered("KafkaEosFlinkTransactionAtRisk", ends, at="5m")
    assert "has precommitted transactions and does not commit them. The first is lost in 10m 0s." in text
    (text,) = rendered("KafkaEosFlinkTransactionAtRisk", [deadline("900x60", "likely")], at="5m")
    assert "Flink job orders likely has precommitted transactions" in text


def test_a_storm_names_the_ids_of_that_application_in_that_time() -> None:
    def end(who: str, values: str, outcome: str = "fenced", application: str = "pay") -> Series:
        return scraped(LAST_UNCLEAN_END_TIMESTAMP_SECONDS, "prod", application, who, "9", "2", outcome, values=values)

    (text,) = rendered(
        "KafkaEosProducerFenceStorm",
        [
            scraped(RECENT_PRODUCER_FENCES, "prod", "pay", "pay-1", values="1 3x60"),
            scraped(RECENT_PRODUCER_FENCES, "prod", "ship", "ship-1", values="1x60"),
            end("pay-1", "300x60"),
            end("pay-2", "-900x60"),
            end("pay-3", "300x60", outcome="timed_out"),
            end("ship-1", "300x60", application="ship"),
        ],
    )
    assert "- transactional.id pay-1: 3 times in 10 minutes" in text
    assert re.findall(r"^- transactional.id (\S+), producer id 9, epoch 2, at 1970", text, re.MULTILINE) == ["pay-1"]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: f"{rule.name}-{rule.reason}")
def test_only_a_page_has_evidence_by_query(alert: Alert) -> None:
    """A ticket links to the page and the dashboard, which have it. One that becomes a page has the same text."""
    if "critical" not in alert.severities:
        assert "range query" not in alert.summary + alert.description
        assert "with query" not in alert.summary + alert.description
