"""Spark's queries and audits on the status page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from exporter.audit_results.result import AuditResult, AuditResults, Finding, TopicResult
from exporter.core.runner import GroupState
from exporter.core.source_state import SourceState
from exporter.lso.facts import Stalls
from exporter.model import Fact, Facts
from exporter.spark.queries import Lag, Origin, QueryEnd, QueryKey, SparkView, StreamingQuery
from exporter.status.json_lines import json_lines
from exporter.status.verdict import verdict
from exporter.transactions.facts import OpenTransactions, UncleanEnds
from exporter.views.status import ClusterSettings, document
from exporter.words import AuditVerdict, QueryState, TerminationReason
from tests.helpers.pages import page
from tests.helpers.schemas import conform

EVIL = "<script>alert(1)</script>"
NOW = 1_795_272_600.0
GOOD = QueryKey("billing", "orders")
SILENT = QueryKey("", EVIL)
VIEW = SparkView(
    {
        GOOD: StreamingQuery(
            "id-1",
            Origin.LISTENER,
            NOW,
            "billing",
            "orders",
            state=QueryState.IDLE,
            last_progress=NOW - 9,
            uncommitted=0,
        ),
        SILENT: StreamingQuery("id-2", Origin.CHECKPOINT, NOW, name=EVIL),
    },
    {GOOD: Lag(42, 40)},
)
FAILED = StreamingQuery(
    "id-3", Origin.LISTENER, NOW, state=QueryState.FAILED, ends=(QueryEnd("r", TerminationReason.DATA_LOSS, NOW),)
)
CLEAN = AuditResult("payments", NOW - 60, AuditVerdict.CLEAN, {"payments": TopicResult(AuditVerdict.CLEAN)})
FOUND = AuditResult(
    EVIL,
    NOW - 7200,
    AuditVerdict.FINDINGS,
    {"orders": TopicResult(AuditVerdict.FINDINGS)},
    (Finding("aborted_visible", "orders", 3, ({"partition": 2, "offset": 17},)), Finding("gap", "orders", 1)),
    unknown=("retention took the beginning",),
)


def status(*facts: Fact) -> dict[str, Any]:
    fine: tuple[Fact, ...] = (Stalls(()), OpenTransactions("txnlog", (), complete=True), UncleanEnds(()), *facts)
    group = GroupState(
        "prod", Facts({type(fact): fact for fact in fine}, fine), (SourceState("spark", "spark", "prod", up=True),)
    )
    made = document([group], {"prod": ClusterSettings("prod", "b1:9092")}, now=NOW, ready=True, version="1")
    return conform("status", json.loads(json_lines(made, 4)))


def test_queries_are_listed_with_what_is_known_of_them() -> None:
    good, silent = status(VIEW)["clusters"][0]["spark"]
    assert good == {
        "application": "billing",
        "query": "orders",
        "state": "idle",
        "ended_by": None,
        "last_progress": "2026-11-21T14:49:51.000Z",
        "last_progress_timestamp": NOW - 9,
        "seconds": 9.0,
        "uncommitted_batches": 0,
        "lag_offsets": 42,
        "blocked_offsets": 40,
    }
    assert {key for key, value in silent.items() if value is None} == set(silent) - {"application", "query"}


def test_audits_are_listed_with_where_to_look_first() -> None:
    (audit,) = status(AuditResults((FOUND,)))["clusters"][0]["audits"]
    assert audit["seconds_ago"] == 7200
    assert audit["findings"] == [
        {"kind": "aborted_visible", "topic": "orders", "count": 3, "partition": 2, "offset": 17},
        {"kind": "gap", "topic": "orders", "count": 1, "partition": None, "offset": None},
    ]


def test_the_page_shows_both_and_lets_no_name_become_markup() -> None:
    html = page(status(VIEW, AuditResults((CLEAN, FOUND))), "")
    assert EVIL not in html
    assert "3 aborted visible in <code>orders</code>, partition 2 offset 17; 1 gap in" in html
    assert "retention took the beginning" in html


def test_the_page_shows_a_few_of_many_audits_and_findings_and_says_how_many_more_there_are() -> None:
    findings = tuple(Finding("gap", "orders", at) for at in range(1396))
    clean = [replace(FOUND, audit=f"a{at}", verdict=AuditVerdict.CLEAN, findings=()) for at in range(500)]
    made = status(AuditResults((*clean, replace(FOUND, audit="with-findings", findings=findings))))
    text = page(made)
    assert "and 1,391 more: <a" in text
    assert "and 451 more: <a" in text
    assert "with-findings" in text  # what has findings is not among those that are left out
    assert len(text) < 100_000
    assert len(made["clusters"][0]["audits"][0]["findings"]) == 1396


def test_a_failed_query_and_an_audit_with_findings_are_what_the_page_begins_with() -> None:
    assert verdict(status(VIEW, AuditResults((CLEAN,)))).level == "good"
    failed = verdict(status(SparkView({GOOD: FAILED}, {}), AuditResults((FOUND,))))
    assert (failed.level, failed.text) == ("bad", "Failed queries of Spark: 1")
    assert "Audits with findings: 1" in failed.details
    assert status(SparkView({GOOD: FAILED}, {}))["clusters"][0]["spark"][0]["ended_by"] == "data_loss"
