"""Torn transactions in the result of ``audit markers``: written by the command, read for the page and the journal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from exporter.audit_results.result import MOST_TOPICS, AuditResult, AuditResults, Finding, TopicResult
from exporter.catalogue import MARKERS_AUDIT, TORN_KINDS
from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.transactions.decided.torn import MarkerComparison, Torn
from exporter.words import AuditVerdict, FoundMarker

MOST_EXAMPLES = 20


class TornMarker(NamedTuple):
    """A transaction and a partition whose marker is not that of its decision, as the audit at ``audited`` (Unix
    seconds) has it. ``began`` and ``completed`` are Unix seconds by the log, ``marker_offset`` None without a marker.
    """

    transactional_id: str
    producer_id: int
    topic: str
    partition: int
    decided: str
    found: FoundMarker
    completed: float
    marker_offset: int | None
    audited: float


def markers_result(compared: MarkerComparison, questions: tuple[str, ...], cluster: str, now: float) -> AuditResult:
    """Return the result to post: a finding for each topic and decision, and ``__transaction_state`` with the number of
    transactions that were compared. ``now`` is Unix seconds.
    """
    found: defaultdict[tuple[str, str], list[Torn]] = defaultdict(list)
    for torn in compared.torn:
        found[torn.partition.topic, TORN_KINDS[not torn.decision.commit]].append(torn)
    findings = [
        Finding(kind, topic, len(rows), tuple(map(_example, rows[:MOST_EXAMPLES])))
        for (topic, kind), rows in sorted(found.items())
    ]
    named = sorted({finding.topic for finding in findings})[: MOST_TOPICS - 1]
    verdict = AuditVerdict.FINDINGS if findings else AuditVerdict.UNKNOWN if questions else AuditVerdict.CLEAN
    of_log = AuditVerdict.UNKNOWN if questions else AuditVerdict.CLEAN
    return AuditResult(
        MARKERS_AUDIT,
        now,
        verdict,
        {TRANSACTION_STATE: TopicResult(of_log, compared.judged)}
        | {topic: TopicResult(AuditVerdict.FINDINGS) for topic in named},
        tuple(finding for finding in findings if finding.topic in named),
        compared.judged,
        checked=TORN_KINDS,
        unknown=questions,
        kafka_cluster=cluster,
    )


def _example(torn: Torn) -> dict[str, str | int | float | None]:
    decision, marker = torn.decision, torn.marker
    return {
        "partition": torn.partition.partition,
        "offset": None if marker is None else marker.offset,
        "transactional_id": decision.transactional_id,
        "producer_id": decision.producer_id,
        "found": found_marker(torn).value,
        "completed": (decision.completed_ms or decision.prepared_ms) / 1000,
    }


def found_marker(torn: Torn) -> FoundMarker:
    """Return what is in the partition in the place of the marker of the decision."""
    if torn.marker is None:
        return FoundMarker.NOTHING
    return FoundMarker.COMMIT if torn.marker.commit else FoundMarker.ABORT


def torn_markers(audits: AuditResults | None) -> tuple[TornMarker, ...] | None:
    """Return the examples of the last ``audit markers``, the oldest first; None where none was posted. What is no
    example of it is left out.
    """
    last = next((result for result in audits.results if result.audit == MARKERS_AUDIT), None) if audits else None
    return None if last is None else tuple(sorted(_read(last), key=lambda torn: torn.completed))


def _read(result: AuditResult) -> Iterator[TornMarker]:
    for finding in result.findings:
        decided = "commit" if finding.kind == TORN_KINDS[0] else "abort"
        for example in finding.examples:
            try:
                yield TornMarker(
                    str(example["transactional_id"]),
                    int(example["producer_id"]),
                    finding.topic,
                    int(example["partition"]),
                    decided,
                    FoundMarker(example["found"]),
                    float(example["completed"]),
                    None if example["offset"] is None else int(example["offset"]),
                    result.finished_at,
                )
            except (KeyError, OverflowError, TypeError, ValueError):
                continue
