"""Debezium's MBeans as a worker with Debezium 3.1.3 and PostgreSQL gave them, and what is left out of others."""

from __future__ import annotations

from typing import Any

import pytest

from exporter import catalogue
from exporter.connect.debezium import QUERIES, CapturedServer, SnapshotRestarts, debezium_samples
from exporter.jvm.answers import MBeanValue
from exporter.jvm.jmx_exporter import read_page
from exporter.jvm.jolokia import read_answer
from exporter.jvm.mbeans import parse_object_name
from exporter.model import Metric

HEAD = ("prod", "main", "main")
SHOP = (*HEAD, "postgres", "shop")
# Seen after a snapshot of 2,000 rows, before the first change.
SNAPSHOT = {
    "SnapshotRunning": False,
    "SnapshotPaused": False,
    "SnapshotCompleted": True,
    "SnapshotAborted": False,
    "RemainingTableCount": 0,
    "MilliSecondsSinceLastEvent": 13179,
}
STREAMING = {
    "Connected": True,
    "MilliSecondsBehindSource": -1,
    "MilliSecondsSinceLastEvent": -1,
    "QueueTotalCapacity": 8192,
    "QueueRemainingCapacity": 6337,
}


def values(context: str, attributes: dict[str, float]) -> list[MBeanValue]:
    mbean = parse_object_name(f"debezium.postgres:type=connector-metrics,context={context},server=shop")
    return [MBeanValue(mbean, name, float(value)) for name, value in attributes.items()]


def samples(snapshot: dict[str, Any], streaming: dict[str, Any]) -> dict[tuple[Metric, tuple[str, ...]], float]:
    readings = [*values("snapshot", snapshot), *values("streaming", streaming)]
    return {
        (sample.metric, sample.labels): float(str(sample.value))
        for sample in debezium_samples(HEAD, readings, SnapshotRestarts())
    }


def test_a_connector_that_has_not_seen_a_change_has_no_lag_and_no_age_of_one() -> None:
    assert samples(SNAPSHOT, STREAMING) == {
        (catalogue.DEBEZIUM_CONNECTED, SHOP): 1,
        (catalogue.DEBEZIUM_SNAPSHOT_STATE, (*SHOP, "completed")): 1,
        (catalogue.DEBEZIUM_SNAPSHOT_REMAINING_TABLES, SHOP): 0,
        (catalogue.DEBEZIUM_LAST_EVENT_AGE_SECONDS, (*SHOP, "snapshot")): 13.179,
        (catalogue.DEBEZIUM_QUEUE_CAPACITY_RECORDS, SHOP): 8192,
        (catalogue.DEBEZIUM_QUEUE_RECORDS, SHOP): 1855,
    }


def test_a_change_gives_its_lag_and_its_age() -> None:
    seen = samples(SNAPSHOT, {**STREAMING, "MilliSecondsBehindSource": 181, "MilliSecondsSinceLastEvent": 7587})
    assert seen[catalogue.DEBEZIUM_LAG_SECONDS, SHOP] == 0.181
    assert seen[catalogue.DEBEZIUM_LAST_EVENT_AGE_SECONDS, (*SHOP, "streaming")] == 7.587


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({"SnapshotRunning": True, "SnapshotCompleted": False}, "running"),
        ({"SnapshotPaused": True, "SnapshotCompleted": False}, "paused"),
        ({"SnapshotAborted": True, "SnapshotCompleted": False}, "aborted"),
        ({"SnapshotCompleted": False}, "none"),
    ],
)
def test_the_state_of_a_snapshot_is_one_word(changed: dict[str, bool], state: str) -> None:
    seen = samples({**SNAPSHOT, **changed}, STREAMING)
    states = [labels[-1] for metric, labels in seen if metric is catalogue.DEBEZIUM_SNAPSHOT_STATE]
    assert states == [state]


def test_a_state_of_which_a_part_is_not_known_is_absent() -> None:
    part = {name: value for name, value in SNAPSHOT.items() if name != "SnapshotAborted"}
    assert not [metric for metric, _ in samples(part, STREAMING) if metric is catalogue.DEBEZIUM_SNAPSHOT_STATE]


PAGES = {
    "Debezium's example": 'debezium_metrics_Connected{context="streaming",name="shop",plugin="postgres"} 1.0\n',
    "no rules": 'debezium_postgres_connector_metrics_Connected{context="streaming",server="shop"} 1.0\n',
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())
def test_a_jmx_exporter_s_page_gives_the_same(page: str) -> None:
    answer = read_page(QUERIES, page.encode(), "page")
    seen = {(sample.metric, sample.labels) for sample in debezium_samples(HEAD, answer.values, SnapshotRestarts())}
    assert seen == {(catalogue.DEBEZIUM_CONNECTED, SHOP)}
    assert not answer.missing, "a worker without Debezium lacks nothing"


def test_a_worker_without_debezium_gives_nothing_and_no_fault() -> None:
    none = b"[" + b",".join([b'{"status": 404}'] * len(QUERIES)) + b"]"
    answer = read_answer(QUERIES, none, "http://w")
    assert not answer.faults
    assert list(debezium_samples(HEAD, answer.values, SnapshotRestarts())) == []


def test_a_snapshot_that_begins_again_before_it_was_complete_is_counted_once() -> None:
    restarts, shop = SnapshotRestarts(), CapturedServer("postgres", "shop")

    def count(state: str, seconds: float | None) -> int:
        restarts.look(shop, state, seconds)
        return restarts.counts.get(shop, 0)

    steps: list[tuple[str, float | None, int]] = [
        ("", None, 0),
        ("running", 5, 0),
        ("running", 20, 0),
        ("aborted", 21, 0),
        ("", None, 0),  # no task
        ("running", 1, 1),
        ("running", 30, 1),
        ("completed", 10, 2),  # it failed and was complete between two reads
        ("running", 2, 2),  # another one, after a complete one
        ("none", 0, 2),
        ("running", 1, 2),
    ]
    assert [count(state, seconds) for state, seconds, _ in steps] == [expected for *_, expected in steps]


def test_the_count_of_a_server_stays_while_its_task_is_away() -> None:
    restarts = SnapshotRestarts()
    for seconds in (20, 1):
        running: dict[str, float] = {**SNAPSHOT, "SnapshotRunning": True, "SnapshotDurationInSeconds": seconds}
        list(debezium_samples(HEAD, values("snapshot", running), restarts))
    (sample,) = debezium_samples(HEAD, [], restarts)
    assert (sample.metric, sample.labels) == (catalogue.DEBEZIUM_SNAPSHOT_RESTARTS_TOTAL, SHOP)
    assert float(str(sample.value)) == 1
