"""Each new failure of a task is counted once, from REST and the worker's metrics."""

from __future__ import annotations

from dataclasses import replace

from exporter.connect.failures import DELETED_AFTER, FailureCounter, TaskSnapshot
from exporter.words import FailureCause

KEY = ("orders", "0")
WELL = TaskSnapshot(failed=False)
FENCED = TaskSnapshot(failed=True, cause=FailureCause.FENCED, mark="worker 1, trace 1")


def counted(*snapshots: TaskSnapshot | None, key: tuple[str, str] = KEY) -> dict[str, int]:
    """The counts after these snapshots, by cause and without zeros; None is a read without the task."""
    counter = FailureCounter()
    for snapshot in snapshots:
        counter.count({} if snapshot is None else {key: snapshot}, complete=True)
    return {cause.value: count for cause, count in counter.counts.get(key, {}).items() if count}


def test_every_cause_is_there_with_zero_from_the_first_read() -> None:
    counter = FailureCounter()
    counter.count({KEY: WELL}, complete=True)
    assert counter.counts == {KEY: dict.fromkeys(FailureCause, 0)}


def test_a_failure_is_counted_once_however_often_it_is_seen() -> None:
    assert counted(WELL, FENCED, FENCED, FENCED) == {"fenced": 1}


def test_what_had_failed_before_the_first_read_is_not_counted() -> None:
    assert counted(FENCED, FENCED) == {}


def test_a_task_that_came_and_failed_between_two_reads_is_counted() -> None:
    assert counted(None, FENCED) == {"fenced": 1}


def test_a_failure_after_a_restart_is_counted_under_its_own_cause() -> None:
    other = TaskSnapshot(failed=True, cause=FailureCause.OTHER, mark="worker 1, trace 2")
    assert counted(WELL, FENCED, WELL, other) == {"fenced": 1, "other": 1}


def test_another_trace_or_worker_is_another_failure_though_the_restart_was_not_seen() -> None:
    assert counted(WELL, FENCED, replace(FENCED, mark="worker 2, trace 1")) == {"fenced": 2}


def test_a_crash_loop_with_one_trace_shows_in_metrics_that_began_anew() -> None:
    first = replace(FENCED, records=10.0, running_ratio=0.5)
    later = replace(first, running_ratio=0.4)
    anew = replace(first, running_ratio=0.6)
    assert counted(WELL, first, later, later) == {"fenced": 1}
    assert counted(WELL, first, later, anew) == {"fenced": 2}
    assert counted(WELL, first, replace(later, records=5.0)) == {"fenced": 2}


def test_metrics_that_could_not_be_read_once_do_not_hide_a_restart() -> None:
    first = replace(FENCED, records=10.0, running_ratio=0.5)
    assert counted(WELL, first, FENCED, replace(first, running_ratio=0.7)) == {"fenced": 2}
    assert counted(WELL, first, FENCED, replace(first, running_ratio=0.3)) == {"fenced": 1}


def test_a_deleted_task_is_forgotten_and_one_that_was_not_asked_about_is_kept() -> None:
    counter = FailureCounter()
    counter.count({KEY: WELL}, complete=True)
    for _ in range(5):
        counter.count({}, complete=False)
    assert KEY in counter.counts
    for _ in range(DELETED_AFTER):
        assert KEY in counter.counts
        counter.count({}, complete=True)
    assert not counter.counts


def test_a_task_that_is_away_for_a_moment_keeps_its_counts_and_is_not_counted_for_coming_back() -> None:
    assert counted(WELL, FENCED, None, FENCED, None, None, FENCED) == {"fenced": 1}
