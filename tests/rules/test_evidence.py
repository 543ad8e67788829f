"""Tests of what a page says, as Prometheus renders it: who, where, since when, and the right next step for the kind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest

from exporter.alerts import table
from exporter.alerts.rule import Alert
from exporter.alerts.settings import Settings
from exporter.catalogue import (
    AUDIT_RECORDS,
    BROKER_REQUEST_ERRORS_TOTAL,
    CONNECT_CONNECTOR_INFO,
    CONNECT_TASK_STATE,
    GROUP_BLOCKED_OFFSETS,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    LAST_UNCLEAN_END_TIMESTAMP_SECONDS,
    LSO_HOLDER_PARTITIONS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    POSTURE_CHECK,
    PRODUCER_INITS_TOTAL,
    SERIES_DROPPED,
    TRANSACTIONS_TOTAL,
)
from tests.rules.cases_audits import found, ran
from tests.rules.cases_lso import STALLED, blocker, due, holds, since, timeout
from tests.rules.cases_spark import blocked, ended, lag, progress, state, uncommitted
from tests.rules.promtool import Series, case, run, scraped
from tests.rules.written import written_rules

RULES = written_rules()
ALERTS = table.alerts(Settings())


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


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: f"{rule.name}-{rule.severity}")
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


def test_a_query_that_a_stall_starves_is_reported_who_holds_it() -> None:
    series = [since("0x60"), blocker("open"), blocked("7x60", topic="orders")]
    (text,) = rendered("KafkaEosSparkQueryStalled", series, at="12m")
    assert "query orders of Spark application etl cannot read on in orders" in text
    assert "7 offsets are withheld from it." in text
    assert "- partition 0: held by transactional.id pay-1 of application pay (producer id 7), open" in text


def test_a_query_that_does_not_move_says_how_far_it_is_behind() -> None:
    series = [progress("0x60"), state("1x60"), uncommitted("1x60"), lag("7x60"), lag("0x60", "other")]
    (text,) = rendered("KafkaEosSparkQueryStalled", series, at="12m")
    assert "has completed no batch for 12m 0s, nor said that it is idle" in text
    assert "Its checkpoint has 1 batch(es) that it began and did not commit." in text
    assert re.findall("^- .*", text, re.MULTILINE) == ["- in: 7 offsets behind"]


def test_counts_are_whole_numbers() -> None:
    series = [
        scraped(BROKER_REQUEST_ERRORS_TOTAL, "prod", "3", "Produce", "INVALID_PRODUCER_EPOCH", values="0x3 1371x60")
    ]
    (text,) = rendered("KafkaEosZombieProducers", series, at="8m")
    assert re.findall(r"brokers refused (\S+) requests", text)[0].isdecimal()


def test_a_query_that_an_error_ended_says_by_what() -> None:
    series = [ended("0x3 2x60", "fenced"), ended("0x3 1x60", "stopped")]
    (text,) = rendered("KafkaEosSparkQueryTerminated", series)
    assert re.findall("In the last hour by [^.]*", text) == ["In the last hour by fenced: 2"]


def test_an_audit_says_what_it_found_and_when() -> None:
    series = [
        *(found("3x60", agent=agent) for agent in "ab"),
        found("0x60", "gap"),
        ran("60x60"),
        scraped(AUDIT_RECORDS, "prod", "file", "nightly", "orders", values="1000x60"),
    ]
    (text,) = rendered("KafkaEosAuditFinding", series)
    headline, first = text.splitlines()
    assert headline == "prod: audit nightly of topic orders found records that break exactly-once (duplicate: 3)."
    assert first.endswith(" Its last run ended at 1970-01-01 00:01:00 +0000 UTC. It looked at 1000 records.")


def test_a_fence_names_the_ids_of_that_application_in_that_time() -> None:
    def end(who: str, values: str, outcome: str = "fenced", application: str = "pay") -> Series:
        return scraped(LAST_UNCLEAN_END_TIMESTAMP_SECONDS, "prod", application, who, "9", "2", outcome, values=values)

    (text,) = rendered(
        "KafkaEosProducerFenced",
        [
            scraped(LAST_TRANSACTION_TIMESTAMP_SECONDS, "prod", "pay", "fenced", values="300x60"),
            end("pay-1", "300x60"),
            end("pay-2", "-900x60"),
            end("pay-3", "300x60", outcome="timed_out"),
            end("ship-1", "300x60", application="ship"),
        ],
    )
    assert "a producer was fenced 1m 0s ago." in text
    assert re.findall(r"^- transactional.id (\S+), producer id 9, epoch 2, at 1970", text, re.MULTILINE) == ["pay-1"]


def test_a_failed_task_whose_interval_is_at_or_above_its_timeout_says_so_once_and_others_do_not() -> None:
    def text(subject: str, passed: int) -> str:
        task = ("prod", "connect", "main", "orders")
        series = [
            series
            for agent in "ab"
            for series in (
                scraped(CONNECT_TASK_STATE, *task, "0", "failed", values="1x60", agent=agent),
                scraped(CONNECT_CONNECTOR_INFO, *task, "source", "required", "interval", values="1x60", agent=agent),
                scraped(
                    POSTURE_CHECK, "prod", "connect_boundary_interval", subject, values=f"{passed}x60", agent=agent
                ),
            )
        ]
        return rendered("KafkaEosConnectTaskFailed", series, at="1m")[0]

    assert text("main/orders", 0).count("transaction.boundary.interval.ms is at or above its transaction timeout") == 1
    for subject, passed in (("main/orders", 1), ("main/orders-eu", 0), ("other/orders", 0)):
        assert "boundary" not in text(subject, passed)


def test_a_check_of_the_posture_lists_its_subjects_once() -> None:
    failed = [
        scraped(POSTURE_CHECK, "prod", "topic_min_isr", topic, values=f"{passed}x60", agent=agent)
        for topic, passed in (("orders", 0), ("payments", 0), ("refunds", 1))
        for agent in "ab"
    ]
    (text,) = rendered("KafkaEosPostureFailed", failed, at="16m")
    assert "prod: check topic_min_isr fails for 2 subject(s) (" in text
    assert sorted(re.findall("^- (.*)", text, re.MULTILINE)) == ["orders", "payments"]


def test_zombies_are_reported_by_broker_request_and_error_and_by_who_was_initialised() -> None:
    series = [
        scraped(BROKER_REQUEST_ERRORS_TOTAL, "prod", "3", "Produce", "INVALID_PRODUCER_EPOCH", values="0x9 8x60"),
        scraped(BROKER_REQUEST_ERRORS_TOTAL, "prod", "3", "Produce", "CONCURRENT_TRANSACTIONS", values="0x9 90x60"),
        scraped(PRODUCER_INITS_TOTAL, "prod", "pay", values="0x9 8x60"),
        scraped(PRODUCER_INITS_TOTAL, "prod", "ship", values="4x60"),
    ]
    (text,) = rendered("KafkaEosZombieProducers", series, at="12m")
    assert re.findall("^- (broker [^:]*)", text, re.MULTILINE) == ["broker 3, Produce, INVALID_PRODUCER_EPOCH"]
    assert re.findall("^- producers of (.*) were", text, re.MULTILINE) == ["pay"]


def test_dropped_series_are_counted_by_agent() -> None:
    (text,) = rendered(
        "KafkaEosSeriesDropped", [scraped(SERIES_DROPPED, TRANSACTIONS_TOTAL.name, values="7x60")], "40m"
    )
    assert re.findall("^- (.*)", text, re.MULTILINE) == ["7 series by agent a:10618"]
