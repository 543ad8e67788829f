"""What a page says, as Prometheus renders it: who, where, since when, and the right next step for the kind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest
import yaml

from exporter.alerts.files import generated
from exporter.catalogue import (
    AUDIT_RECORDS,
    CLUSTER_INFO,
    GROUP_BLOCKED_OFFSETS,
    LAST_TRANSACTION_TIMESTAMP_SECONDS,
    LAST_UNCLEAN_END_TIMESTAMP_SECONDS,
    LSO_LAG_OFFSETS,
    OPEN_TRANSACTION_START_TIMESTAMP_SECONDS,
    SOURCE_UP,
)
from tests.rules.cases_audits import found, ran
from tests.rules.cases_lso import HANGING, PLACE, STALLED, blocker, since, timeout
from tests.rules.cases_spark import blocked, ended, lag, progress, state, uncommitted
from tests.rules.promtool import Series, case, run, scraped

RULES = yaml.safe_load(generated()["alerts/generated/rules.yaml"])


def rendered(alert: str, series: Iterable[Series], at: str = "6m") -> list[str]:
    """The descriptions of the alerts that fire: promtool prints them when they are not what it was told to expect."""
    said = run(RULES, [case(alert, "shows", series, {at: [{"severity": "none of these"}]})])
    return [json.loads(text) for text in re.findall(r'description=("(?:[^"\\]|\\.)*")', said.partition("got:")[2])]


def stage(*more: Series) -> list[Series]:
    """A stalled partition, without its holder."""
    return [
        since("0x60"),
        scraped(LSO_LAG_OFFSETS, *PLACE, values="12x60"),
        scraped(CLUSTER_INFO, "prod", "id", "k1:9092,k2:9092", "2", values="1x60"),
        *more,
    ]


def started(transactional_id: str = "pay-1") -> Series:
    labels = ("prod", "pay", transactional_id, "7", "4", "ongoing")
    return scraped(OPEN_TRANSACTION_START_TIMESTAMP_SECONDS, *labels, values="-60x60")


def test_an_open_one_names_its_owner_its_end_and_where_the_next_step_is() -> None:
    (text,) = rendered(STALLED, stage(blocker("open"), started(), timeout(3600)))
    story, flink, where, command = text.splitlines()
    assert story == (
        "The last stable offset of orders-0 on prod has stood still for 6m 0s (since 1970-01-01 00:00:00 +0000 UTC):"
        " 12 offsets are withheld from read_committed consumers. Held by transactional.id pay-1 of application pay"
        " (producer id 7, epoch 3, start offset 42, open since 1969-12-31 23:59:00 +0000 UTC). OPEN: its producer has"
        " not ended it. Let that instance finish, or stop it. Its coordinator ends it by itself at"
        " 1970-01-01 00:59:00 +0000 UTC, or up to 10 s later; if that is past, look at the coordinator."
    )
    assert flink.startswith("If it is a Flink job's, do not end it by hand")
    assert where.endswith("this line, which only looks:")
    assert command == "kafka-eos-exporter transactions stalled --bootstrap-server k1:9092,k2:9092"


def test_a_completing_one_is_left_alone() -> None:
    (text,) = rendered(STALLED, stage(blocker("completing")))
    assert "COMPLETING: its end is decided, and a marker is missing." in text
    assert "Leave the transaction alone" in text
    assert "transactions stalled" not in text


def test_an_unknown_one_names_what_could_not_be_asked() -> None:
    down = scraped(SOURCE_UP, "prod", "transactions", "prod", values="0x60")
    (text,) = rendered(STALLED, stage(blocker("unknown"), down))
    assert "UNKNOWN: it cannot be told whether a coordinator knows this transaction. Do nothing to" in text
    assert "source transactions" in text


@pytest.mark.parametrize("alert", [STALLED, HANGING])
def test_a_hanging_one_has_the_line_that_proves_it_anew(alert: str) -> None:
    texts = rendered(alert, stage(blocker("hanging")))
    line = "kafka-eos-exporter transactions hanging --bootstrap-server k1:9092,k2:9092 --topic orders --partition 0"
    assert texts
    assert all(line in text.splitlines() for text in texts)


@pytest.mark.parametrize("kind", ["open", "completing"])
def test_no_replica_is_believed_that_it_hangs_while_another_says_that_a_coordinator_knows_it(kind: str) -> None:
    texts = rendered(STALLED, stage(blocker("hanging"), blocker(kind, agent="b")))
    assert texts
    assert not any("HANGING" in text for text in texts)


@pytest.mark.parametrize("kind", ["open", "completing", "hanging", "unknown"])
@pytest.mark.parametrize("alert", [STALLED, HANGING])
def test_no_page_has_a_line_that_ends_a_transaction(alert: str, kind: str) -> None:
    for text in rendered(alert, stage(blocker(kind), started())):
        assert "kafka-transactions" not in text
        assert "forceTerminate" not in text
        assert "--start-offset" not in text


def test_who_waits_behind_a_stall_is_named_once() -> None:
    waiting = [
        each
        for agent in "ab"
        for each in (
            scraped(GROUP_BLOCKED_OFFSETS, "prod", "billing", "orders", values="12x60", agent=agent),
            scraped(GROUP_BLOCKED_OFFSETS, "prod", "audit", "orders", values="0x60", agent=agent),
            scraped(GROUP_BLOCKED_OFFSETS, "prod", "elsewhere", "refunds", values="9x60", agent=agent),
            blocked("7x60", topic="orders", agent=agent),
        )
    ]
    (text,) = rendered(STALLED, stage(blocker("completing"), *waiting))
    assert re.findall(r"[^.:]* waits for [^.]*", text) == [
        " Group billing waits for 12 offsets of this topic",
        " Query orders of Spark application etl waits for 7 offsets of this topic",
    ]


def test_a_query_that_a_stall_starves_is_told_who_holds_it() -> None:
    series = [*stage(blocker("open")), blocked("7x60", topic="orders")]
    (text,) = rendered("KafkaEosSparkQueryStalled", series, at="12m")
    assert "Query orders of Spark application etl cannot read on in orders" in text
    assert "7 offsets are withheld from it." in text
    assert "- partition 0: held by transactional.id pay-1 of application pay (producer id 7), open" in text


def test_a_query_that_stands_still_says_how_far_it_is_behind() -> None:
    series = [progress("0x60"), state("1x60"), uncommitted("1x60"), lag("7x60"), lag("0x60", "other")]
    (text,) = rendered("KafkaEosSparkQueryStalled", series, at="12m")
    assert "completed no batch for 12m 0s, nor said that it is idle" in text
    assert "Its checkpoint has 1 batch(es) that it began and did not commit." in text
    assert re.findall("^- .*", text, re.MULTILINE) == ["- in: 7 offsets behind"]


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
    assert text.splitlines()[0] == (
        "Audit nightly of topic orders has findings. duplicate: 3. Its last run ended at 1970-01-01 00:01:00 +0000 UTC."
        " It looked at 1000 records."
    )


def test_two_replicas_tell_of_one_holder_once() -> None:
    (text,) = rendered(STALLED, stage(*(blocker("completing", agent=agent) for agent in "ab")))
    assert text.count("Held by") == 1


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
    assert "The last time was 1m 0s ago." in text
    assert re.findall(r"^- transactional.id (\S+), producer id 9, epoch 2, at 1970", text, re.MULTILINE) == ["pay-1"]
