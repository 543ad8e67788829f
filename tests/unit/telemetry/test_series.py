"""Deltas are added up once each; other numbers replace the one before."""

from __future__ import annotations

import math

import pytest

from exporter.telemetry.points import Point, PushedAttribute, Temporality, place_of
from exporter.telemetry.series import Tracked, following, has_meaning, problem_of

TOTAL = PushedAttribute("producer-metrics", "record-send-total")
REMAINING = PushedAttribute("stream-task-metrics", "restore-remaining-records-total")


WALL = 1_000_000.0


def point(
    value: float, start: int, time: int, temporality: Temporality = Temporality.DELTA, place: PushedAttribute = TOTAL
) -> Point:
    return Point(place, {}, value, temporality, start, time)


def after(*points: Point) -> float | None:
    tracked: Tracked | None = None
    for number in points:
        tracked = following(tracked, number, 0.0) or tracked
    return tracked.value if tracked else None


def test_deltas_that_follow_each_other_are_added_up() -> None:
    assert after(point(5, 0, 10), point(2, 10, 20), point(1, 20, 30)) == 8


def test_a_delta_that_is_sent_twice_counts_once() -> None:
    assert after(point(5, 0, 10), point(2, 10, 20), point(2, 10, 20), point(5, 0, 10)) == 7


def test_a_delta_after_a_lost_one_is_added() -> None:
    assert after(point(5, 0, 10), point(1, 20, 30)) == 6


def test_a_delta_that_overlaps_what_is_counted_is_left_out() -> None:
    assert after(point(5, 1, 10), point(9, 1, 20)) == 5


def test_deltas_go_on_when_the_clock_of_the_client_is_set_back() -> None:
    assert after(point(5, 0, 1000), point(2, 1000, 920), point(1, 920, 930)) == 8


def test_deltas_without_a_start_are_added_while_their_time_grows() -> None:
    assert after(point(5, 0, 10), point(2, 0, 20), point(2, 0, 20)) == 7


def test_a_cumulative_number_replaces_the_one_before_also_when_it_began_again() -> None:
    cumulative = Temporality.CUMULATIVE
    assert after(point(5, 1, 10, cumulative), point(9, 1, 20, cumulative)) == 9
    assert after(point(9, 1, 10, cumulative), point(1, 15, 20, cumulative)) == 1


def test_an_older_cumulative_number_is_left_out() -> None:
    cumulative = Temporality.CUMULATIVE
    assert after(point(9, 1, 20, cumulative), point(5, 1, 10, cumulative)) == 9


def test_a_change_of_temporality_begins_a_new_count() -> None:
    assert after(point(9, 1, 20, Temporality.CUMULATIVE), point(2, 20, 30)) == 2


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (point(math.inf, 0, 1), "a counter is not finite"),
        (point(math.nan, 0, 1), "a counter is not finite"),
        (point(-1, 0, 1), "a counter is negative"),
        (point(1, 0, 0), "a delta has no time"),
    ],
)
def test_a_point_that_cannot_be_counted_is_refused(bad: Point, why: str) -> None:
    assert problem_of(bad, WALL) == why


def test_the_change_of_a_gauge_has_no_meaning() -> None:
    """The records that a task has still to restore: TaskMetrics sums them up, so KIP-714 pushes their change."""
    assert not has_meaning(point(-7, 0, 1, place=REMAINING))
    assert problem_of(point(-7, 0, 1, place=REMAINING), WALL) == ""
    assert has_meaning(point(7, 0, 1, Temporality.CUMULATIVE, REMAINING))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("org.apache.kafka.producer.txn.commit.time.ns.total", ("producer-metrics", "txn-commit-time-ns-total")),
        (
            "org.apache.kafka.producer.txn.send.offsets.time.ns.total",
            ("producer-metrics", "txn-send-offsets-time-ns-total"),
        ),
        ("kafka.producer.txn_commit_time_ns_total", ("producer-metrics", "txn-commit-time-ns-total")),
        ("org.apache.kafka.stream.client.state", ("stream-metrics", "client-state")),
        ("org.apache.kafka.stream.thread.thread.state", ("stream-thread-metrics", "thread-state")),
        ("org.apache.kafka.stream.thread.commit.total", ("stream-thread-metrics", "commit-total")),
        (
            "org.apache.kafka.stream.state.updater.active.restoring.tasks",
            ("stream-state-updater-metrics", "active-restoring-tasks"),
        ),
        (
            "org.apache.kafka.stream.task.restore.remaining.records.total",
            ("stream-task-metrics", "restore-remaining-records-total"),
        ),
        ("org.apache.kafka.producer.topic.record.send.total", None),
        ("org.apache.kafka.consumer.fetch.manager.records.lag", None),
        ("", None),
        ("k" * 10_000, None),
    ],
)
def test_names_of_pushed_metrics_are_those_of_the_mbeans(name: str, place: tuple[str, str] | None) -> None:
    assert place_of(name) == place


def test_a_point_that_is_far_ahead_of_the_clock_is_refused() -> None:
    assert "ahead of the clock" in problem_of(point(1, 0, round((WALL + 3600) * 1e9)), WALL)
    assert problem_of(point(1, 0, round((WALL + 60) * 1e9)), WALL) == ""
