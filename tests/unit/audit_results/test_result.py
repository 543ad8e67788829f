"""The form of an audit's result: what is written is read back, and what is misshapen is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import catalogue
from exporter.audit_results.result import AuditResult, AuditResultError, Finding, TopicResult, dump_result, parse_result
from exporter.words import AuditVerdict

COUNTS = st.none() | st.integers(0, 2**63 - 1)
NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)
KINDS = st.sampled_from(catalogue.AUDIT_KINDS)
EXAMPLES = st.dictionaries(NAMES, st.none() | st.integers() | NAMES, max_size=3)

DOCUMENT: dict[str, Any] = {
    "audit": "orders",
    "finished_at": 1_795_255_200.5,
    "verdict": "findings",
    "records": 1000,
    "aborted_records": 12,
    "topics": {"orders": {"verdict": "findings", "records": 1000}},
    "findings": [
        {"kind": "duplicate", "topic": "orders", "count": 1, "examples": [{"partition": 0, "offset": 17}]},
    ],
}


@st.composite
def results(draw: st.DrawFn) -> AuditResult:
    topics = draw(
        st.dictionaries(
            NAMES, st.builds(TopicResult, st.sampled_from(AuditVerdict), COUNTS, COUNTS), min_size=1, max_size=4
        )
    )
    finding = st.builds(
        Finding,
        KINDS,
        st.sampled_from(sorted(topics)),
        st.integers(1, 2**63 - 1),
        st.lists(EXAMPLES, max_size=3).map(tuple),
    )
    found = draw(st.lists(finding, max_size=4).map(tuple))
    return AuditResult(
        audit=draw(NAMES),
        finished_at=draw(st.floats(1, 4e9)),
        verdict=draw(st.sampled_from(AuditVerdict if not found else [AuditVerdict.FINDINGS, AuditVerdict.UNKNOWN])),
        topics=topics,
        findings=found,
        records=draw(COUNTS),
        aborted_records=draw(COUNTS),
        checked=draw(st.lists(KINDS, unique=True).map(tuple)),
        unknown=draw(st.lists(NAMES, max_size=2).map(tuple)),
        kafka_cluster=draw(NAMES | st.just("")),
    )


@given(results())
def test_what_is_written_is_read_back(result: AuditResult) -> None:
    assert parse_result(dump_result(result)) == result


def test_the_result_has_the_keys_that_the_command_prints() -> None:
    result = parse_result(json.dumps(DOCUMENT))
    document = json.loads(dump_result(result))
    assert {"verdict", "records", "aborted_records", "findings"} <= document.keys()
    assert document["findings"] == DOCUMENT["findings"]


def test_for_posting_examples_are_cut_and_counts_stay() -> None:
    finding = Finding("gap", "orders", 5, ({"partition": 0, "offset": 1}, {"partition": 0, "offset": 9}))
    result = AuditResult(
        "a", 1.0, AuditVerdict.FINDINGS, {"orders": TopicResult(AuditVerdict.FINDINGS)}, (finding,), more={"seconds": 3}
    )
    document = json.loads(dump_result(result, most_examples=1))
    assert document["findings"][0] | {"examples": 0} == {"kind": "gap", "topic": "orders", "count": 5, "examples": 0}
    assert document["findings"][0]["examples"] == [{"partition": 0, "offset": 1}]
    assert document["seconds"] == 3


def test_keys_that_a_newer_job_writes_are_passed_over() -> None:
    assert parse_result(json.dumps({**DOCUMENT, "mood": "fine"})).audit == "orders"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"audit": None}, "audit must be a text"),
        ({"audit": ""}, "audit must be a text of 1 to"),
        ({"audit": "a\nb"}, "printable"),
        ({"audit": "a" * 300}, "audit must be a text of 1 to"),
        ({"finished_at": "now"}, "finished_at"),
        ({"finished_at": 0}, "finished_at"),
        ({"finished_at": True}, "finished_at"),
        ({"finished_at": 1_795_255_200_500}, "finished_at"),
        ({"finished_at": 10**400}, "finished_at"),
        ({"verdict": "good"}, "verdict must be one of clean, findings, unknown"),
        ({"verdict": ["clean"]}, "verdict must be one of"),
        ({"verdict": "clean"}, "verdict is clean and there are findings"),
        ({"records": -1}, "records must be a whole number"),
        ({"records": 1.5}, "records must be a whole number"),
        ({"records": True}, "records must be a whole number"),
        ({"records": 2**63}, "records must be a whole number"),
        ({"topics": {}}, "topics must name"),
        ({"topics": []}, "topics must be a JSON object"),
        ({"topics": {"orders": {}}}, "verdict of a topic"),
        ({"topics": {"orders": 3}}, "each of topics must be a JSON object"),
        ({"findings": {}}, "findings must be a list"),
        ({"findings": [3]}, "each of findings must be a JSON object"),
        ({"findings": [{"kind": "duplicate", "topic": "payments", "count": 1}]}, "is none of topics"),
        ({"findings": [{"kind": "odd", "topic": "orders", "count": 1}]}, "kind of a finding must be one of"),
        ({"findings": [{"kind": "gap", "topic": "orders"}]}, "count of a finding is missing"),
        ({"findings": [{"kind": "gap", "topic": "orders", "count": 1, "examples": [1]}]}, "each of examples"),
        ({"checked": ["odd"]}, "checked must be one of"),
        ({"unknown": [1]}, "unknown must be a text"),
        ({"kafka_cluster": 7}, "kafka_cluster must be a text"),
        ({"kafka_cluster": "a\x00"}, "printable"),
    ],
)
def test_what_is_misshapen_is_refused_in_a_sentence(change: dict[str, Any], why: str) -> None:
    with pytest.raises(AuditResultError) as caught:
        parse_result(json.dumps({**DOCUMENT, **change}))
    assert why in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe\x00", b"[" * 100_000, b'{"audit": NaN}'])
def test_what_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(AuditResultError):
        parse_result(content)
