"""Torn transactions beside the history: what is kept of each comparison, and what a report shows of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.commands import audit_markers, history_markers
from exporter.commands.audit_markers import MarkerReport
from exporter.commands.history_markers import MarkerSearch
from exporter.jobs.history.index import HistoryError
from exporter.jobs.history.torn import FILE, MOST_QUESTIONS, MarkerRecord, TornPlace, read_torn, write_torn
from exporter.kafka.client import AskError
from exporter.kafka.log.control import Marker
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.transactions.decided.torn import Decision, MarkerComparison, Torn

PLACE = TornPlace("pay-1", 7, "COMMIT", 1_000, "orders", 0, "ABORT at offset 12")
NOW = 1_795_255_200.0


def torn(transactional_id: str = "pay-1") -> Torn:
    where = TopicPartition("orders", 0)
    epochs = frozenset({3})
    decision = Decision(transactional_id, 7, True, epochs, epochs, 500, 900, 1_000, frozenset({where}), False)
    return Torn(decision, where, Marker(12, 700, 7, 3, commit=False, coordinator_epoch=0))


class Looks:
    """The questions and answers of the comparisons."""

    def __init__(self, *answers: MarkerReport | AskError) -> None:
        self.answers = list(answers)
        self.asked: list[float] = []

    def __call__(self, _: object, since: float, deadline: Deadline, is_stopped: Callable[[], bool]) -> MarkerReport:
        assert not deadline.over
        assert not is_stopped()
        self.asked.append(since)
        answer = self.answers.pop(0)
        if isinstance(answer, AskError):
            raise answer
        return answer


def report(*found: Torn, questions: tuple[str, ...] = ()) -> MarkerReport:
    return MarkerReport("prod", MarkerComparison(found, 5, questions))


def compare(monkeypatch: pytest.MonkeyPatch, looks: Looks, folder: Path, at: float) -> None:
    monkeypatch.setattr(history_markers, "look", looks)
    monkeypatch.setattr("time.time", lambda: at)
    MarkerSearch(None, folder, 3600.0, 60.0).compare()  # type: ignore[arg-type]  # the cluster is only handed on


def test_what_is_written_is_read_back_and_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    assert read_torn(tmp_path) is None
    record = MarkerRecord(1, 2, 3, (PLACE,), ("orders-1: not read",))
    write_torn(tmp_path, record)
    assert read_torn(tmp_path) == record
    for damaged in ("{", "{}", '{"torn": [{"x": 1}]}', "[]"):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(HistoryError, match="delete it"):
            read_torn(tmp_path)


def test_a_torn_place_is_new_once_and_questions_are_bounded() -> None:
    record, new = MarkerRecord(0, 0).added(9, 4, (PLACE, PLACE), (f"question {number}" for number in range(50)))
    assert (new, record.compared, record.until_ms, len(record.questions)) == ((PLACE,), 4, 9, MOST_QUESTIONS)
    assert record.questions[-1] == "question 49"
    again, new = record.added(10, 1, (PLACE,), ())
    assert (new, again.torn, again.compared) == ((), (PLACE,), 5)


def test_the_first_comparison_goes_far_back_and_the_next_ones_on_from_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = Looks(report(), report(torn()), report(torn(), questions=("orders-1: not read",)))
    for at in (NOW, NOW + 60, NOW + 120):
        compare(monkeypatch, looks, tmp_path, at)
    assert looks.asked == pytest.approx([3600.0, 65.0, 65.0])
    record = read_torn(tmp_path)
    assert record is not None
    assert (record.compared, record.torn, record.questions) == (15, (PLACE,), ("orders-1: not read",))
    said = capsys.readouterr().err
    assert said.count("TORN: pay-1 (producer id 7) was decided COMMIT, and orders-0 has ABORT at offset 12") == 1


def test_a_time_in_which_the_job_did_not_run_is_compared_or_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks = Looks(report(), report(), report())
    compare(monkeypatch, looks, tmp_path, NOW)
    compare(monkeypatch, looks, tmp_path, NOW + 1800)
    assert looks.asked[-1] == pytest.approx(1805.0)
    compare(monkeypatch, looks, tmp_path, NOW + 1800 + 7200)
    assert looks.asked[-1] == pytest.approx(3600.0)
    record = read_torn(tmp_path)
    assert record is not None
    assert "was not compared: the job did not run" in record.questions[0]


def test_a_comparison_that_failed_is_made_up_for_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = Looks(report(), AskError(Fault(Reason.TIMEOUT, "no broker answers")), report())
    for at in (NOW, NOW + 60, NOW + 120):
        compare(monkeypatch, looks, tmp_path, at)
    assert looks.asked[-1] == pytest.approx(125.0)
    assert "markers were not compared: no broker answers" in capsys.readouterr().err
    assert json.loads((tmp_path / FILE).read_text())["compared"] == 10


def test_markers_are_read_from_the_begin_of_each_transaction_that_is_compared() -> None:
    # A marker by hand may be as old as its transaction.
    where, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    old = torn().decision._replace(completed_ms=90_000, begun_ms=10_000, partitions=frozenset({where, other}))
    late = old._replace(begun_ms=85_000, partitions=frozenset({other}))
    before = old._replace(completed_ms=70_000, begun_ms=1)
    assert audit_markers.partitions_of([late, old, before], 80_000) == {where: 5_000, other: 5_000}
    assert audit_markers.partitions_of([late], 80_000) == {other: 75_000}


def test_a_comparison_in_a_request_that_hangs_is_left_behind_when_the_job_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    over, answered, asked_to_stop = threading.Event(), threading.Event(), threading.Event()

    def hangs(_: object, since: float, deadline: Deadline, is_stopped: Callable[[], bool]) -> MarkerReport:
        assert not is_stopped()
        over.set()  # SIGTERM, in the middle
        answered.wait(30)
        if is_stopped():
            asked_to_stop.set()
        return report(torn())

    monkeypatch.setattr(history_markers, "look", hangs)
    MarkerSearch(None, tmp_path, 3600.0, 60.0).compare_once(over)  # type: ignore[arg-type]  # as above
    assert not answered.is_set()
    answered.set()
    assert asked_to_stop.wait(30)
    assert read_torn(tmp_path) is None  # the next run compares the same again
