"""Audits on the metrics: the last run of each, from files and handed in, each cluster its own."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from exporter import catalogue as c
from exporter.audit_results import source as result_files
from exporter.audit_results.posts import KEEP_SECONDS, AuditReceiver
from exporter.audit_results.result import AuditResults, parse_result
from exporter.audit_results.source import AuditFiles, AuditsSource
from exporter.ingest.budget import Budget
from exporter.ingest.latest import RefusedError
from exporter.model import Deadline, Reason
from exporter.words import AuditVerdict
from tests.helpers.cluster import FakeKafka, ManualClock, SourceRead, read
from tests.unit.audit_results.test_result import DOCUMENT

WHO = ("audits", "orders", "orders")


def write(path: Path, at: float = 1_795_255_200.0, **fields: Any) -> Path:
    path.write_text(json.dumps({**DOCUMENT, **fields}))
    os.utime(path, (at, at))
    return path


def look(*patterns: Path, posted: Sequence[bytes] = (), names: Sequence[str] = ("prod",)) -> SourceRead:
    world = FakeKafka()
    results = [parse_result(body) for body in posted]
    source = AuditsSource(world.cluster(), lambda: frozenset(names), AuditFiles(patterns), lambda: results)
    return read(world, source)


def test_a_file_that_cannot_be_looked_up_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path / "a.json")
    (tmp_path / "loop.json").symlink_to("loop.json")
    found = look(tmp_path / "*.json")
    assert not found.faults
    assert WHO in found.values(c.AUDIT_RECORDS)


def test_a_result_becomes_every_family_for_each_topic(tmp_path: Path) -> None:
    topics = {
        "orders": {"verdict": "findings", "records": 900},
        "payments": {"verdict": "clean", "records": 100},
        "refunds": {"verdict": "unknown"},
    }
    write(tmp_path / "a.json", topics=topics, checked=["duplicate", "gap"])
    found = look(tmp_path / "*.json")
    assert not found.faults
    assert found.values(c.AUDIT_FINDINGS) == {
        (*WHO, "duplicate"): 1,
        (*WHO, "gap"): 0,
        **{("audits", "orders", topic, kind): 0 for topic in ("payments", "refunds") for kind in ("duplicate", "gap")},
    }
    assert found.values(c.AUDIT_RECORDS) == {WHO: 900, ("audits", "orders", "payments"): 100}, "unknown is absent"
    assert {key[2:] for key in found.values(c.AUDIT_VERDICT)} == {
        ("orders", "findings"),
        ("payments", "clean"),
        ("refunds", "unknown"),
    }
    assert set(found.values(c.AUDIT_LAST_RUN_TIMESTAMP_SECONDS).values()) == {1_795_255_200.5}


def test_a_kind_that_was_not_searched_for_is_absent(tmp_path: Path) -> None:
    write(tmp_path / "a.json")
    assert look(tmp_path / "a.json").values(c.AUDIT_FINDINGS) == {(*WHO, "duplicate"): 1}


def test_the_last_run_is_reported_whichever_file_has_it(tmp_path: Path) -> None:
    write(tmp_path / "2.json", finished_at=20.0, verdict="clean", findings=[], checked=["duplicate"])
    write(tmp_path / "1.json", finished_at=10.0)
    found = look(tmp_path / "*.json", tmp_path / "2.json")
    assert found.values(c.AUDIT_FINDINGS) == {(*WHO, "duplicate"): 0}
    results = found.facts[AuditResults]
    assert isinstance(results, AuditResults)
    assert [result.verdict for result in results.results] == [AuditVerdict.CLEAN]


def test_what_is_handed_in_and_what_lies_in_files_is_one_audit(tmp_path: Path) -> None:
    write(tmp_path / "1.json", finished_at=10.0)
    newer = json.dumps({**DOCUMENT, "finished_at": 30.0}).encode()
    assert look(tmp_path / "1.json", posted=[newer]).values(c.AUDIT_LAST_RUN_TIMESTAMP_SECONDS) == {WHO: 30.0}
    older = json.dumps({**DOCUMENT, "finished_at": 3.0}).encode()
    assert look(tmp_path / "1.json", posted=[older]).values(c.AUDIT_LAST_RUN_TIMESTAMP_SECONDS) == {WHO: 10.0}


def test_a_file_that_is_no_result_is_a_fault_and_the_others_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "good.json")
    (tmp_path / "bad.json").write_text('{"audit": "orders"')
    found = look(tmp_path / "*.json")
    assert found.reasons == {Reason.MALFORMED}
    assert "bad.json is no result of an audit: is no JSON" in found.faults[0].detail
    assert found.values(c.AUDIT_VERDICT)


def test_files_are_read_again_when_they_change_and_gone_when_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.json")
    world = FakeKafka()
    source = AuditsSource(world.cluster(), frozenset, AuditFiles([tmp_path / "*.json"]))
    assert read(world, source).value(c.AUDIT_FINDINGS, *WHO, "duplicate") == 1
    write(path, at=1_795_255_300.0, verdict="unknown", findings=[], topics={"orders": {"verdict": "unknown"}})
    assert read(world, source).value(c.AUDIT_VERDICT, *WHO, "unknown") == 1
    with monkeypatch.context() as closed:
        closed.setattr(Path, "open", lambda *_: pytest.fail("a file that did not change is opened"))
        assert read(world, source).value(c.AUDIT_VERDICT, *WHO, "unknown") == 1
    path.unlink()
    assert not read(world, source).samples


def test_of_a_folder_that_keeps_every_run_the_newest_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_files, "MOST_FILES", 2)
    files = AuditFiles([tmp_path / "*.json"])
    for number in range(5):
        write(tmp_path / f"{number}.json", at=1_795_255_200.0 + number)
        list(files.read(Deadline.after(10)))
    assert sorted(path.name for path in files._read) == ["3.json", "4.json"]


def test_a_folder_without_results_yet_is_no_fault_and_one_that_is_not_there_is(tmp_path: Path) -> None:
    assert not look(tmp_path / "*.json").faults
    found = look(tmp_path / "none" / "*.json")
    assert found.reasons == {Reason.UNREACHABLE}
    assert str(tmp_path / "none") in found.faults[0].detail


def test_a_cluster_exposes_its_own_audits_only(tmp_path: Path) -> None:
    write(tmp_path / "ours.json", audit="ours", kafka_cluster="prod")
    write(tmp_path / "theirs.json", audit="theirs", kafka_cluster="dr")
    found = look(tmp_path / "*.json", names=("prod", "dr"))
    assert not found.faults
    assert {key[1] for key in found.values(c.AUDIT_VERDICT)} == {"ours"}


@pytest.mark.parametrize("cluster", ["", "moon"])
def test_an_audit_of_no_cluster_that_is_watched_is_a_fault_that_names_it(tmp_path: Path, cluster: str) -> None:
    write(tmp_path / "a.json", kafka_cluster=cluster)
    found = look(tmp_path / "*.json", names=("prod", "dr"))
    assert found.reasons == {Reason.MALFORMED}
    assert "'orders'" in found.faults[0].detail
    assert not found.samples


def test_a_run_that_ends_after_now_is_refused_as_all_later_ones_would_be_older() -> None:
    time = ManualClock(wall=1_795_300_000.0)
    inbox = AuditReceiver(["prod"], 2, time.clock)
    with pytest.raises(RefusedError, match="finished_at is more than 10 minutes ahead"):
        inbox.take(json.dumps({**DOCUMENT, "finished_at": time.clock.wall() + 601}).encode())
    inbox.take(json.dumps({**DOCUMENT, "finished_at": time.clock.wall() + 599}).encode())
    assert len(inbox.results()) == 1


def test_an_audit_that_is_refused_replaces_none() -> None:
    inbox = AuditReceiver(["prod"], 1, ManualClock(wall=1_795_300_000.0).clock, Budget(20_000))
    inbox.take(json.dumps(DOCUMENT).encode())
    topics = {f"topic-{number}": {"verdict": "clean"} for number in range(900)}
    with pytest.raises(RefusedError, match="larger than all") as caught:
        inbox.take(json.dumps({**DOCUMENT, "audit": "large", "topics": topics, "findings": []}).encode())
    assert caught.value.status == 413
    assert [result.audit for result in inbox.results()] == [DOCUMENT["audit"]]
    none = AuditReceiver(["prod"], 0, ManualClock(wall=1_795_300_000.0).clock)
    with pytest.raises(RefusedError, match="more audits report"):
        none.take(json.dumps(DOCUMENT).encode())


def test_the_inbox_keeps_the_last_run_of_each_audit_for_a_month() -> None:
    time = ManualClock(wall=1_795_300_000.0)
    budget = Budget()
    inbox = AuditReceiver(["prod"], 2, time.clock, budget)
    inbox.take(json.dumps({**DOCUMENT, "finished_at": 20.0}).encode())
    inbox.take(json.dumps({**DOCUMENT, "finished_at": 10.0}).encode())
    assert [result.finished_at for result in inbox.results()] == [20.0]
    inbox.take(json.dumps({**DOCUMENT, "audit": "other", "kafka_cluster": "prod"}).encode())
    time.pass_(1)
    inbox.take(json.dumps({**DOCUMENT, "finished_at": 30.0}).encode())
    inbox.take(json.dumps({**DOCUMENT, "audit": "third"}).encode())
    assert [result.audit for result in inbox.results()] == [DOCUMENT["audit"], "third"], "other was silent longest"
    assert budget.dropped == {"audits": 1}
    time.pass_(KEEP_SECONDS + 1)
    assert inbox.results() == ()


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"{}", "topics must name"), (json.dumps({**DOCUMENT, "kafka_cluster": "moon"}).encode(), "names no cluster")],
)
def test_the_inbox_refuses_what_is_no_result_of_ours(content: bytes, why: str) -> None:
    inbox = AuditReceiver(["prod"], 2, ManualClock(wall=1_795_300_000.0).clock)
    with pytest.raises(RefusedError, match=why) as caught:
        inbox.take(content)
    assert caught.value.status == 400
    assert inbox.results() == ()


def test_a_result_without_a_cluster_is_refused_where_several_are_watched() -> None:
    clusters = {"prod", "dr"}
    inbox = AuditReceiver(clusters, 2, ManualClock(wall=1_795_300_000.0).clock)
    with pytest.raises(RefusedError, match="has no kafka_cluster") as caught:
        inbox.take(json.dumps(DOCUMENT).encode())
    assert caught.value.status == 400
    clusters.remove("dr")
    inbox.take(json.dumps(DOCUMENT).encode())
    assert [result.audit for result in inbox.results()] == [DOCUMENT["audit"]]


def test_posted_results_of_a_cluster_that_a_reload_removed_are_no_fault_of_the_others() -> None:
    clusters = {"prod", "dr"}
    inbox = AuditReceiver(clusters, 2, ManualClock(wall=1_795_300_000.0).clock)
    inbox.take(json.dumps({**DOCUMENT, "audit": "ours", "kafka_cluster": "prod"}).encode())
    inbox.take(json.dumps({**DOCUMENT, "audit": "theirs", "kafka_cluster": "dr"}).encode())
    clusters.remove("dr")
    world = FakeKafka()
    found = read(world, AuditsSource(world.cluster(), lambda: frozenset(clusters), AuditFiles([]), inbox.results))
    assert not found.faults
    assert {key[1] for key in found.values(c.AUDIT_VERDICT)} == {"ours"}
