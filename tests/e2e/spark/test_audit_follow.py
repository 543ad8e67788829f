"""An audit that goes on: over batches, restarts and batches that are run again it finds what one audit would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.audit_results.result import AuditResult
from exporter.jobs.audit.definition import Audit, NullId
from exporter.jobs.audit.follow import FollowedAudit
from exporter.jobs.audit.outcome import AuditReport, AuditSettings
from exporter.jobs.audit.tables import SinkTable
from exporter.jobs.session import SessionError
from exporter.jobs.streams import trigger
from tests.e2e.spark.auditing import Auditor, PlannedRecord, by_kind, places, write

ID = "get_json_object(value, '$.id')"
DAY = 86_400.0


def followed(audits: Auditor, state: Path, audit: Audit, window: float = DAY) -> FollowedAudit:
    return FollowedAudit(
        audits.session, audits.access, audit, AuditSettings(audit.topic, most_shown=50), str(state), window
    )


def result_of(one: FollowedAudit) -> AuditResult:
    """Follow to the end of the topic: the result after the last batch."""
    reports: list[AuditReport] = []
    query = one.start(trigger(once=True, interval=0), reports.append)
    query.awaitTermination()
    return reports[-1].result


def record(partition: int, id_: str | None, key: str = "k", number: int = 0) -> PlannedRecord:
    text = f'{{"id": "{id_}", "n": {number}}}' if id_ is not None else f'{{"n": {number}}}'
    return PlannedRecord(partition, key, text)


@pytest.fixture
def topic(audits: Auditor, fresh: Callable[[str], str]) -> str:
    name = fresh("followed")
    audits.kafka.create_topic(name, 2)
    return name


def test_a_duplicate_of_an_earlier_batch_is_found_once_and_aborted_records_are_none(
    audits: Auditor, topic: str, tmp_path: Path
) -> None:
    one = followed(audits, tmp_path / "state", Audit(topic, id=ID))
    write(audits.kafka, topic, [([record(0, "a"), record(0, "b"), record(1, "c")], True)])
    clean = result_of(one)
    assert (clean.verdict, clean.records, clean.aborted_records) == ("clean", 3, None)
    write(audits.kafka, topic, [([record(1, "a")], True), ([record(0, "b")], False)])
    found = by_kind(result_of(one))
    assert places(found["duplicate"]) == {(1, 2)}
    assert found["duplicate"].examples[0]["first_offset"] == 0
    write(audits.kafka, topic, [([record(0, "d"), record(0, "a"), record(0, "d")], True)])
    last = result_of(one)
    assert last.records == 7
    assert places(by_kind(last)["duplicate"]) == places(by_kind(audits.audit(topic, id=ID))["duplicate"]), (
        "one audit of the whole topic"
    )


def test_a_batch_that_is_run_again_changes_nothing(audits: Auditor, topic: str, tmp_path: Path) -> None:
    one = followed(audits, tmp_path / "state", Audit(topic, id=ID))
    write(audits.kafka, topic, [([record(0, "a"), record(0, "a"), record(1, "b")], True)])
    first = result_of(one)
    # As after a kill between the tables and the commit of the batch.
    (tmp_path / "state" / "_checkpoint" / "commits" / "0").unlink()
    (tmp_path / "state" / "_checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    again = result_of(one)
    assert (again.records, by_kind(again)["duplicate"].count) == (first.records, 1) == (3, 1)


def test_numbers_of_a_key_go_on_over_batches(audits: Auditor, topic: str, tmp_path: Path) -> None:
    audit = Audit(topic, key="key", sequence="get_json_object(value, '$.n')")
    one = followed(audits, tmp_path / "state", audit)
    write(audits.kafka, topic, [([record(0, "", "k", number) for number in (1, 2)], True)])
    assert result_of(one).verdict == "clean"
    write(audits.kafka, topic, [([record(0, "", "k", number) for number in (3, 6, 2)], True)])
    found = by_kind(result_of(one))
    assert {kind: finding.count for kind, finding in found.items()} == {"gap": 1, "duplicate": 1}
    assert found["gap"].examples[0]["missing"] == 2


def test_records_further_apart_than_the_window_are_not_compared(audits: Auditor, topic: str, tmp_path: Path) -> None:
    one = followed(audits, tmp_path / "state", Audit(topic, id=ID), window=0.0)
    write(audits.kafka, topic, [([record(0, "a")], True)])
    result_of(one)
    write(audits.kafka, topic, [([record(0, "a")], True)])
    assert result_of(one).verdict == "clean"


@pytest.mark.parametrize(("null_id", "verdict"), [(NullId.FAIL, "unknown"), (NullId.SKIP, "clean")])
def test_a_record_without_an_id_makes_the_result_unknown(
    audits: Auditor, topic: str, tmp_path: Path, null_id: NullId, verdict: str
) -> None:
    write(audits.kafka, topic, [([record(0, "a"), record(0, None)], True)])
    result = result_of(followed(audits, tmp_path / "state", Audit(topic, id=ID, null_id=null_id)))
    assert (result.verdict, result.records) == (verdict, 2)


def test_what_cannot_be_followed_is_refused(audits: Auditor, topic: str, tmp_path: Path) -> None:
    for audit in (Audit(topic), Audit(topic, id=ID, sink=SinkTable("x")), Audit(topic, id=ID, source_topic="other")):
        with pytest.raises(SessionError, match="--follow is for id"):
            followed(audits, tmp_path / "state", audit).start(trigger(once=True, interval=0), print)
