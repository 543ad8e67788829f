"""The result of one audit: written and posted by the job, read by the agent.

One JSON object. ``verdict``, ``records``, ``aborted_records`` and ``findings`` are what ``audit --output json`` prints;
the other keys name the audit, when it ended and what it covered::

    {"audit": "orders", "kafka_cluster": "prod", "finished_at": 1795255200.5,
     "verdict": "findings", "records": 1000, "aborted_records": 12, "checked": ["duplicate", "gap"],
     "topics": {"orders": {"verdict": "findings", "records": 1000, "aborted_records": 12}},
     "findings": [{"kind": "duplicate", "topic": "orders", "count": 1,
                   "examples": [{"partition": 0, "offset": 17, "first_offset": 3}]}]}

Unknown keys are ignored, so that an older agent reads what a newer job writes. ``parse_result`` refuses a malformed
document in one sentence, which never contains a record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from exporter.bounds.json_text import JsonError, parse_json
from exporter.bounds.text import cut, printable_json
from exporter.catalogue import AUDIT_KINDS, AUDIT_VERDICTS
from exporter.model import Fact
from exporter.words import AuditVerdict

LONGEST_NAME = 249  # as long as the name of a topic may be
MOST_TOPICS = 1000
MOST_FINDINGS = 5000
"""Findings of one audit: of each kind and topic there is one."""
MOST_EXAMPLES = 20
MOST_FIELDS = 30
MOST_SENTENCES = 100
"""Largest number of examples of a finding, of fields of one, and of reasons in ``unknown``; the others are dropped."""
LONGEST_SENTENCE = 1000
LATEST = 4_102_444_800.0
"""The year 2100 in Unix seconds: a later end is one in milliseconds, beside which no later run would count."""

Example: TypeAlias = Mapping[str, Any]
"""The evidence of one finding: JSON values by name, ``partition`` and ``offset`` among them."""


class AuditResultError(ValueError):
    """The document is not the result of an audit; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Findings of one kind in one topic: their number, and the worst few with their evidence."""

    kind: str
    topic: str
    count: int
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The records that were read of one topic; None for a number that is not known."""

    verdict: AuditVerdict
    records: int | None = None
    aborted_records: int | None = None


@dataclass(frozen=True, slots=True)
class AuditResult:
    """One run of one audit.

    ``finished_at`` is Unix seconds. ``kafka_cluster`` is the agent's name of the cluster, "" for the only one that it
    watches. ``checked`` are the kinds that were searched for: no finding of one of these means none. ``unknown`` has
    the reasons, in sentences, why the verdict is unknown.
    """

    audit: str
    finished_at: float
    verdict: AuditVerdict
    topics: Mapping[str, TopicResult]
    findings: tuple[Finding, ...] = ()
    records: int | None = None
    aborted_records: int | None = None
    checked: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    kafka_cluster: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Additional keys for readers of the file: settings, seconds. Written, and not parsed."""


@dataclass(frozen=True, slots=True)
class AuditResults(Fact):
    """The last run of each audit of a cluster."""

    results: tuple[AuditResult, ...]


def dump_result(result: AuditResult, most_examples: int | None = None) -> str:
    """The result as JSON; with ``most_examples``, no more of each finding, as for posting it to the agent."""
    document: dict[str, Any] = {
        "audit": result.audit,
        "kafka_cluster": result.kafka_cluster,
        "finished_at": result.finished_at,
        "verdict": result.verdict,
        "records": result.records,
        "aborted_records": result.aborted_records,
        "checked": list(result.checked),
        "unknown": list(result.unknown),
        "topics": {
            name: {"verdict": topic.verdict, "records": topic.records, "aborted_records": topic.aborted_records}
            for name, topic in result.topics.items()
        },
        "findings": [
            {
                "kind": finding.kind,
                "topic": finding.topic,
                "count": finding.count,
                "examples": [dict(example) for example in finding.examples[:most_examples]],
            }
            for finding in result.findings
        ],
    }
    return printable_json(json.dumps({**result.more, **document}, ensure_ascii=False, allow_nan=False))


def parse_result(content: bytes | str) -> AuditResult:
    """The result in this JSON. Raises AuditResultError."""
    try:
        document = parse_json(content.encode("utf-8", "replace") if isinstance(content, str) else content)
    except JsonError as error:
        raise AuditResultError(str(error)) from None
    top = _object(document, "the result")
    topics = _object(top.get("topics", {}), "topics")
    if not topics or len(topics) > MOST_TOPICS:
        raise AuditResultError(f"topics must name 1 to {MOST_TOPICS} topics")
    verdict = _verdict(top.get("verdict"), "verdict")
    listed = _list(top.get("findings", []), "findings")
    if len(listed) > MOST_FINDINGS:
        raise AuditResultError(f"findings must be {MOST_FINDINGS} at most")
    findings = tuple(_finding(finding, topics) for finding in listed)
    if (verdict is AuditVerdict.CLEAN) and any(finding.count for finding in findings):
        raise AuditResultError("verdict is clean and there are findings")
    return AuditResult(
        audit=_name(top.get("audit"), "audit"),
        finished_at=_seconds(top.get("finished_at")),
        verdict=verdict,
        topics={_name(name, "topics"): _topic(topic) for name, topic in topics.items()},
        findings=findings,
        records=_count(top.get("records"), "records"),
        aborted_records=_count(top.get("aborted_records"), "aborted_records"),
        checked=tuple(dict.fromkeys(_kind(kind, "checked") for kind in _list(top.get("checked", []), "checked"))),
        unknown=tuple(
            cut(_text(sentence, "unknown"), LONGEST_SENTENCE)
            for sentence in _list(top.get("unknown", []), "unknown")[:MOST_SENTENCES]
        ),
        kafka_cluster=_name(top.get("kafka_cluster"), "kafka_cluster") if top.get("kafka_cluster") else "",
    )


def weight(result: AuditResult) -> int:
    """Most bytes of memory that a result takes."""
    topics = sum(500 + 4 * len(name) for name in result.topics)
    fields = sum(
        300 + 4 * len(key) + (4 * len(value) if isinstance(value, str) else 0)
        for finding in result.findings
        for example in finding.examples
        for key, value in example.items()
    )
    examples = sum(400 + 400 * len(finding.examples) + 4 * len(finding.topic) for finding in result.findings)
    return 3000 + topics + examples + fields + sum(100 + 4 * len(text) for text in result.unknown)


def _finding(value: object, topics: Mapping[str, Any]) -> Finding:
    finding = _object(value, "each of findings")
    topic = _name(finding.get("topic"), "topic of a finding")
    if topic not in topics:
        raise AuditResultError("topic of a finding is none of topics")
    count = _count(finding.get("count"), "count of a finding")
    if count is None:
        raise AuditResultError("count of a finding is missing")
    listed = _list(finding.get("examples", []), "examples")[:MOST_EXAMPLES]
    examples = tuple(_example(_object(example, "each of examples")) for example in listed)
    return Finding(_kind(finding.get("kind"), "kind of a finding"), topic, count, examples)


def _example(found: Mapping[str, Any]) -> Example:
    """The values of an example that can be shown: numbers and texts by name, texts cut to a length."""
    return {
        cut(key, LONGEST_NAME): cut(value, LONGEST_SENTENCE) if isinstance(value, str) else value
        for key, value in list(found.items())[:MOST_FIELDS]
        if value is None or isinstance(value, bool | str | int) or (isinstance(value, float) and math.isfinite(value))
    }


def _topic(value: object) -> TopicResult:
    topic = _object(value, "each of topics")
    return TopicResult(
        _verdict(topic.get("verdict"), "verdict of a topic"),
        _count(topic.get("records"), "records of a topic"),
        _count(topic.get("aborted_records"), "aborted_records of a topic"),
    )


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise AuditResultError(f"{what} must be a JSON object")
    return value


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise AuditResultError(f"{what} must be a list")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise AuditResultError(f"{what} must be a text")
    return value


def _name(value: object, what: str) -> str:
    name = _text(value, what)
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise AuditResultError(f"{what} must be a text of 1 to {LONGEST_NAME} printable characters")
    return name


def _kind(value: object, what: str) -> str:
    if value not in AUDIT_KINDS:
        raise AuditResultError(f"{what} must be one of {', '.join(AUDIT_KINDS)}")
    return str(value)


def _verdict(value: object, what: str) -> AuditVerdict:
    if value not in AUDIT_VERDICTS:
        raise AuditResultError(f"{what} must be one of {', '.join(AUDIT_VERDICTS)}")
    return AuditVerdict(str(value))


def _count(value: object, what: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise AuditResultError(f"{what} must be a whole number, not negative")
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < LATEST:
        raise AuditResultError("finished_at must be Unix seconds")
    return float(value)
