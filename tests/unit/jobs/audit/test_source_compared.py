"""The offsets of a source topic that an audit compares."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.jobs.audit import source_compared
from exporter.jobs.audit.definition import Audit, Remarks
from exporter.jobs.audit.offset_range import Covered, OffsetSpan
from exporter.jobs.audit.read import Reader, TopicAccess
from exporter.jobs.audit.source_compared import AuditedSource
from exporter.kafka.ask import Answers
from exporter.model import TopicPartition
from tests.helpers.kafka import cluster_of

NONE = {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("committed", "at_most", "unknown"),
    [
        ({"billing": {TopicPartition("in", 1): 7, TopicPartition("other", 0): 9}}, {0: 0, 1: 7}, ()),
        ({"billing": {TopicPartition("other", 0): 9}}, NONE, ("group billing has committed no offset of in",)),
        ({}, NONE, ("group billing has committed no offset of in",)),
    ],
)
def test_a_group_without_an_offset_of_the_source_leaves_the_comparison_unknown(
    monkeypatch: pytest.MonkeyPatch, committed: Any, at_most: dict[int, int], unknown: tuple[str, ...]
) -> None:
    asked: list[object] = []

    def cover(*arguments: object) -> Covered:
        asked.append(arguments[-1])
        return Covered({0: OffsetSpan(0, 0, 0)}, {}, (), ())

    monkeypatch.setattr(source_compared, "described", lambda *_: cluster_of({"in": [1, 1]}))
    monkeypatch.setattr(source_compared, "committed_offsets", lambda *_: Answers(committed, {}, ()))
    monkeypatch.setattr(source_compared, "cover", cover)
    access: Any = TopicAccess(None, {})  # type: ignore[arg-type]
    reader: Any = Reader(None, access, "in")  # type: ignore[arg-type]
    remarks = Remarks()
    audit = Audit("out", id="key", source_topic="in", source_group="billing")
    keep: Any = None
    AuditedSource(reader, reader, audit, remarks, keep, keep, keep).covered()
    assert asked == [at_most]
    assert len(remarks.unknown) == len(unknown)
    assert all(said.startswith(begin) for said, begin in zip(remarks.unknown, unknown, strict=True))
