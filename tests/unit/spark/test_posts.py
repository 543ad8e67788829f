"""Documents that a Spark driver's listener posts: accepted, refused when malformed, and limited."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.ingest.latest import RefusedError
from exporter.model import TopicPartition
from exporter.spark.posts import SparkReceiver
from exporter.spark.queries import KEEP_SILENT
from exporter.words import QueryState, TerminationReason
from tests.helpers.cluster import ManualClock

PROGRESS = {
    "batchId": 4,
    "timestamp": "2026-11-21T14:49:08.000Z",
    "durationMs": {"triggerExecution": 735, "addBatch": 598},
    "sources": [
        {"description": "KafkaV2[Subscribe[orders]]", "endOffset": {"orders": {"0": 47, "1": 103}}, "numInputRows": 50}
    ],
}
DOCUMENT: dict[str, Any] = {
    "id": "id-1",
    "name": "orders",
    "application": "billing",
    "state": "running",
    "started_at": 1_790_000_000.0,
    "last_progress_at": 1_790_000_060.5,
    "rows": 150,
    "progress": PROGRESS,
    "ends": [],
}


@pytest.fixture
def time() -> ManualClock:
    return ManualClock()


@pytest.fixture
def inbox(time: ManualClock) -> SparkReceiver:
    return SparkReceiver(["prod", "dr"], 3, time.clock)


def body(**fields: Any) -> bytes:
    return json.dumps({**DOCUMENT, **fields}).encode()


def refusal(inbox: SparkReceiver, content: bytes) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        inbox.take(content)
    return caught.value


def test_what_is_reported_is_kept(inbox: SparkReceiver, time: ManualClock) -> None:
    inbox.take(body())
    (query,) = inbox.queries("")
    assert (query.id, query.application, query.name, query.state) == ("id-1", "billing", "orders", QueryState.RUNNING)
    assert (query.batches, query.rows, query.heard) == (5, 150, time.wall)
    assert query.last_progress == 1_790_000_060.5
    assert query.offsets == {TopicPartition("orders", 0): 47, TopicPartition("orders", 1): 103}
    assert query.phases == {"trigger_execution": 0.735, "add_batch": 0.598}
    assert inbox.queries("prod") == ()


def test_a_query_that_has_only_just_started_has_nothing_but_its_state(inbox: SparkReceiver) -> None:
    inbox.take(b'{"id": "id-1", "application": "billing", "state": "running", "rows": 0}')
    (query,) = inbox.queries("")
    assert (query.name, query.batches, query.rows, query.last_progress, query.offsets) == ("", None, 0, None, {})


def test_an_end_is_reported_with_its_reason_and_stays_when_the_driver_is_started_anew(inbox: SparkReceiver) -> None:
    end = {"run_id": "r1", "at": 1_790_000_070.0, "failed": True, "error_class": "KAFKA_DATA_LOSS", "exceptions": []}
    inbox.take(body(state="terminated", ends=[end]))
    (query,) = inbox.queries("")
    assert (query.state, [end.reason for end in query.ends]) == (QueryState.FAILED, [TerminationReason.DATA_LOSS])
    inbox.take(body(state="running", ends=[]))
    (query,) = inbox.queries("")
    assert (query.state, [end.run_id for end in query.ends]) == (QueryState.RUNNING, ["r1"])


def test_an_exception_without_a_name_is_no_stop(inbox: SparkReceiver) -> None:
    inbox.take(body(state="terminated", ends=[{"run_id": "r1", "at": 1.0, "failed": True}]))
    assert inbox.queries("")[0].ends[0].reason is TerminationReason.OTHER
    inbox.take(body(state="terminated", ends=[{"run_id": "r2", "at": 2.0, "failed": False}]))
    assert inbox.queries("")[0].state is QueryState.TERMINATED


def test_each_cluster_gets_its_own(inbox: SparkReceiver) -> None:
    inbox.take(body(kafka_cluster="dr"))
    assert [len(inbox.queries(cluster)) for cluster in ("", "prod", "dr")] == [0, 0, 1]
    assert refusal(inbox, body(kafka_cluster="moon")).status == 400


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{" * 5000,
        b"null",
        body(id=""),
        body(id=None),
        body(id="a\nb"),
        body(name="n" * 201),
        body(application=7),
        body(state="dancing"),
        body(state=None),
        body(rows=-1),
        body(rows=1.5),
        body(rows=True),
        body(rows=2**63),
        body(started_at="now"),
        body(started_at=-1),
        body(last_progress_at=1e300),
        b'{"id": "a", "state": "idle", "started_at": NaN}',
        body(ends={}),
        body(ends=[{}]),
        body(ends=[3]),
        body(ends=[{"run_id": "r", "exceptions": [1]}]),
        body(ends=[{"run_id": "r"}] * 50),
        body(progress={**PROGRESS, "batchId": "x"}),
        body(progress={**PROGRESS, "batchId": -3}),
        body(progress={**PROGRESS, "timestamp": "yesterday"}),
        body(progress={**PROGRESS, "durationMs": []}),
        body(progress={**PROGRESS, "sources": {}}),
        body(progress={**PROGRESS, "sources": ["x"]}),
        body(progress={}),
    ],
)
def test_what_is_misshapen_is_refused_and_changes_nothing(inbox: SparkReceiver, content: bytes) -> None:
    assert refusal(inbox, content).status == 400
    assert inbox.queries("") == ()


@pytest.mark.parametrize(
    "offsets", [None, "no json", {"orders": 7}, {"orders": {"x": 1}}, {"orders": {"0": "1"}}, {"orders": {"0": True}}]
)
def test_offsets_that_are_none_of_kafka_s_are_left_out(inbox: SparkReceiver, offsets: object) -> None:
    inbox.take(body(progress={**PROGRESS, "sources": [{"description": "KafkaV2[x]", "endOffset": offsets}]}))
    assert inbox.queries("")[0].offsets == {}


def test_more_queries_than_allowed_are_refused_and_said(inbox: SparkReceiver) -> None:
    for number in range(3):
        inbox.take(body(id=f"id-{number}", name=f"q{number}"))
    assert refusal(inbox, body(id="id-9", name="q9")).status == 429
    assert inbox.left_out() == 1
    inbox.take(body(id="id-0", name="q0"))


def test_a_driver_that_is_started_again_and_again_takes_one_place(inbox: SparkReceiver) -> None:
    for number in range(20):
        inbox.take(body(id=f"id-{number}"))
    assert [query.id for query in inbox.queries("")] == ["id-19"]


def test_a_query_that_fell_silent_is_kept_for_a_day(inbox: SparkReceiver, time: ManualClock) -> None:
    inbox.take(body())
    time.pass_(KEEP_SILENT - 1)
    assert inbox.queries("")
    time.pass_(2)
    assert not inbox.queries("")
