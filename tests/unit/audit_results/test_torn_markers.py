"""The result of ``audit markers``: what the command writes, the page and the journal read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.audit_results.result import AuditResults, dump_result, parse_result
from exporter.audit_results.torn_markers import MOST_EXAMPLES, markers_result, torn_markers
from exporter.kafka.log.batches import Marker
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.model import TopicPartition
from exporter.transactions.decided.torn import MarkerComparison, Torn
from exporter.words import AuditVerdict, FoundMarker
from tests.helpers.transactions import decision_of

NOW = 1_790_000_000.0
ONE = frozenset({0})


def torn(number: int, *, commit: bool = True, marker: bool | None = None, topic: str = "orders") -> Torn:
    decision = decision_of(
        f"pay-{number}", number, ONE, ONE, commit=commit, v2=True, begun=1.0, at=2.0, completed=3.0 + number / 1000
    )
    written = None if marker is None else Marker(99, 2_500, number, 0, marker, 0)
    return Torn(decision, TopicPartition(topic, number % 3), written)


def test_what_is_posted_is_read_back() -> None:
    compared = MarkerComparison((torn(1), torn(2, marker=False), torn(3, commit=False, marker=True)), 12, ())
    result = parse_result(dump_result(markers_result(compared, (), "prod", NOW)))
    assert (result.audit, result.verdict, result.records) == ("markers", AuditVerdict.FINDINGS, 12)
    assert {(finding.kind, finding.topic): finding.count for finding in result.findings} == {
        ("torn_commit", "orders"): 2,
        ("torn_abort", "orders"): 1,
    }
    read = torn_markers(AuditResults((result,)))
    assert read is not None
    assert [(row.transactional_id, row.decided, row.found, row.marker_offset, row.audited) for row in read] == [
        ("pay-1", "commit", FoundMarker.NOTHING, None, NOW),
        ("pay-2", "commit", FoundMarker.ABORT, 99, NOW),
        ("pay-3", "abort", FoundMarker.COMMIT, 99, NOW),
    ]


@pytest.mark.parametrize(
    ("judged", "questions", "verdict"),
    [(12, (), AuditVerdict.CLEAN), (0, (), AuditVerdict.CLEAN), (12, ("orders-1: not read",), AuditVerdict.UNKNOWN)],
)
def test_what_was_not_compared_is_unknown(judged: int, questions: tuple[str, ...], verdict: AuditVerdict) -> None:
    result = parse_result(dump_result(markers_result(MarkerComparison((), judged, ()), questions, "prod", NOW)))
    assert (result.verdict, result.unknown) == (verdict, questions)
    assert result.topics[TRANSACTION_STATE].verdict is verdict
    assert torn_markers(AuditResults((result,))) == ()


def test_all_are_counted_and_some_are_shown_of_thousands_of_topics() -> None:
    many = tuple(torn(number, topic=f"topic-{number % 2_000}") for number in range(60_000))
    result = parse_result(dump_result(markers_result(MarkerComparison(many, 60_000, ()), (), "prod", NOW), 1))
    assert result.verdict is AuditVerdict.FINDINGS
    assert {finding.count for finding in result.findings} == {30}
    (finding,) = markers_result(MarkerComparison(tuple(map(torn, range(60))), 60, ()), (), "", NOW).findings
    assert (finding.count, len(finding.examples)) == (60, MOST_EXAMPLES)


def test_without_a_post_nothing_is_known_and_an_example_that_lacks_a_field_is_left_out() -> None:
    assert torn_markers(None) is None
    assert torn_markers(AuditResults(())) is None
    result = markers_result(MarkerComparison((torn(1), torn(2)), 2, ()), (), "prod", NOW)
    (finding,) = result.findings
    whole, *_ = finding.examples
    cut = replace(finding, examples=(whole, {**whole, "found": "something"}, {"partition": 1}))
    read = torn_markers(AuditResults((replace(result, findings=(cut,)),)))
    assert read is not None
    assert [row.transactional_id for row in read] == ["pay-1"]
