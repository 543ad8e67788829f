"""``POST /v1/metrics``: from a push to the families that a JVM's agent feeds, and what is refused."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from exporter import catalogue
from exporter.ingest.budget import Budget
from exporter.model import Deadline, Facts, Metric, Sample
from exporter.telemetry.clients import MOST_SERIES, TelemetryReceiver
from exporter.telemetry.otlp import MOST_BYTES, OtlpApp
from exporter.telemetry.points import MOST_REASONS, PointTally
from exporter.telemetry.source import TelemetrySource
from exporter.web_server.messages import Answer, Request
from tests.helpers.calls import calls_of
from tests.helpers.cluster import ManualClock
from tests.helpers.otlp import COMMIT, CUMULATIVE, DELTA, Push

INSTANCE = "kQ0mDq4eSx2ZsIP-cXJ0Ug"
PROCESS = "0f9a3c1e-8a55-4a0b-9f0e-1d2c3b4a5e6f"
CLIENT = {
    "kafka-client-instance-id": INSTANCE,
    "kafka-client-id": "orders%2F1",
    "kafka-client-software-name": "apache-kafka-java",
    "kafka-client-software-version": "4.3.1",
    "kafka-client-principal": "User:orders",
    "kafka-client-address": "10.0.0.7",
    "kafka-push-interval-ms": "5000",
}
TRANSACTIONAL = {"transactional_id": "orders-1"}
LABELS = ("prod", INSTANCE, "orders/1")


class World:
    """A receiver with its door, and the samples that the source makes of it."""

    def __init__(self, clients: int = 500, budget: Budget | None = None, token: str = "") -> None:
        self.time = ManualClock()
        self.receiver = TelemetryReceiver(["prod", "dr"], clients, self.time.clock, budget)
        self.app = OtlpApp(self.receiver, lambda: token)

    def post(self, body: bytes, headers: Mapping[str, str] = CLIENT, kind: str = "application/x-protobuf") -> Answer:
        head = {"content-type": kind, "content-length": str(len(body)), **headers}
        request = Request("POST", "/v1/metrics", headers=head)
        return self.app.refusal(request) or self.app(request, body)

    def push(self, push: Push, headers: Mapping[str, str] = CLIENT) -> None:
        answer = self.post(push.protobuf, headers)
        assert (answer.status, answer.body) == (200, b"")

    def samples(self) -> list[Sample]:
        found = TelemetrySource(self.receiver, lambda: "prod").read(Deadline.after(1), Facts())
        return [number for number in found if isinstance(number, Sample)]

    def values(self, metric: Metric) -> dict[tuple[str, ...], Any]:
        found = [sample for sample in self.samples() if sample.metric is metric]
        values = {sample.labels: sample.value for sample in found}
        assert len(values) == len(found), "one series per fact"
        return values

    def keys(self) -> list[tuple[Metric, tuple[str, ...]]]:
        return [(sample.metric, sample.labels) for sample in self.samples()]


@pytest.fixture
def world() -> World:
    return World()


def producer(start: float, time: float, commit: float = 2e9, sent: float = 10) -> Push:
    push = Push(TRANSACTIONAL).sum(COMMIT, commit, start, time)
    return push.sum("org.apache.kafka.producer.record.send.total", sent, start, time)


def partial(answer: Answer) -> dict[str, str]:
    found = json.loads(answer.body)["partialSuccess"]
    assert isinstance(found, dict)
    return found


def test_a_producers_push_is_what_its_jvm_would_show(world: World) -> None:
    world.push(producer(1, 2))
    world.push(producer(2, 7, commit=5e8, sent=1))
    assert world.values(catalogue.PRODUCER_TXN_SECONDS_TOTAL) == {(*LABELS, "commit"): 2.5}
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {LABELS: 11}


def test_what_the_broker_knows_of_the_client_is_kept(world: World) -> None:
    world.push(producer(1, 2))
    about = ("apache-kafka-java", "4.3.1", "orders-1", "User:orders", "10.0.0.7")
    assert list(world.values(catalogue.TELEMETRY_CLIENT_INFO)) == [("prod", INSTANCE, "orders/1", INSTANCE, *about)]


def test_a_producer_without_transactions_has_no_transactional_series(world: World) -> None:
    world.push(Push().sum(COMMIT, 0, 1, 2).sum("org.apache.kafka.producer.record.send.total", 3, 1, 2))
    assert world.values(catalogue.PRODUCER_TXN_SECONDS_TOTAL) == {}
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {LABELS: 3}


def test_a_push_that_is_sent_again_counts_once(world: World) -> None:
    for _ in range(2):
        world.push(producer(1, 2))
    assert world.values(catalogue.PRODUCER_TXN_SECONDS_TOTAL) == {(*LABELS, "commit"): 2.0}
    assert world.receiver.points() == {"taken": 2, "ignored": 2, "refused": 0}


def test_a_client_that_stops_pushing_leaves_after_three_intervals_of_its_own(world: World) -> None:
    slow = {**CLIENT, "kafka-client-instance-id": "slow", "kafka-push-interval-ms": "300000"}
    world.push(producer(1, 2))
    world.push(producer(1, 2), slow)
    world.time.pass_(31)
    assert {labels[1] for labels in world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL)} == {"slow"}
    world.time.pass_(870)
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {}
    assert world.values(catalogue.TELEMETRY_CLIENT_INFO) == {}


def test_an_interval_that_is_not_stated_is_that_between_two_pushes(world: World) -> None:
    unstated = {name: value for name, value in CLIENT.items() if name != "kafka-push-interval-ms"}
    world.push(producer(1, 2), unstated)
    world.time.pass_(60)
    world.push(producer(2, 62), unstated)
    world.time.pass_(179)
    assert world.keys()
    world.time.pass_(2)
    assert world.values(catalogue.TELEMETRY_CLIENT_INFO) == {}


def test_no_stated_interval_keeps_a_client_for_more_than_three_hours(world: World) -> None:
    world.push(producer(1, 2), {**CLIENT, "kafka-push-interval-ms": "999999999"})
    world.time.pass_(3 * 3600 + 1)
    assert world.values(catalogue.TELEMETRY_CLIENT_INFO) == {}


def test_a_client_that_says_it_ends_leaves_soon(world: World) -> None:
    world.push(producer(1, 2), {**CLIENT, "kafka-push-interval-ms": "300000", "kafka-client-terminating": "true"})
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {LABELS: 10}
    world.time.pass_(31)
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {}


def test_a_series_that_is_no_longer_pushed_leaves(world: World) -> None:
    world.push(producer(1, 2))
    for second in range(2, 12):
        world.time.pass_(5)
        world.push(Push(TRANSACTIONAL).sum(COMMIT, 1e9, second, second + 1))
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {}
    assert world.values(catalogue.PRODUCER_TXN_SECONDS_TOTAL) == {(*LABELS, "commit"): 12.0}


def test_the_clients_of_a_streams_process_are_one_target(world: World) -> None:
    """The client's state is pushed by its admin client, a thread's metrics by its main consumer (KIP-1091)."""
    thread, updater = f"totals-{PROCESS}-StreamThread-1", f"totals-{PROCESS}-StateUpdater-1"
    client = Push().gauge("org.apache.kafka.stream.client.state", 2, 5, process_id=PROCESS, application_id="totals")
    world.push(client, {**CLIENT, "kafka-client-instance-id": "a", "kafka-client-id": f"totals-{PROCESS}-admin"})
    metrics = (
        Push()
        .gauge("org.apache.kafka.stream.thread.thread.state", 4, 5, thread_id=thread, process_id=PROCESS)
        .sum("org.apache.kafka.stream.thread.commit.total", 7, 1, 5, thread_id=thread)
        .gauge("org.apache.kafka.stream.thread.commit.latency.avg", 12, 5, thread_id=thread)
        .gauge("org.apache.kafka.stream.thread.commit.latency.max", float("nan"), 5, thread_id=thread)
        .gauge("org.apache.kafka.stream.state.updater.active.restoring.tasks", 3, 5, thread_id=updater)
        .sum("org.apache.kafka.stream.task.restore.remaining.records.total", -5, 1, 5, thread_id=thread, task_id="0_1")
    )
    world.push(metrics, {**CLIENT, "kafka-client-instance-id": "b", "kafka-client-id": f"{thread}-consumer"})
    head = ("prod", PROCESS)
    client_state = world.values(catalogue.STREAMS_CLIENT_STATE)
    assert client_state == {(*head, f"totals-{PROCESS}", catalogue.STREAMS_CLIENT_STATES[2]): 1.0}
    assert world.values(catalogue.STREAMS_THREAD_STATE) == {(*head, thread, catalogue.STREAMS_THREAD_STATES[4]): 1.0}
    assert world.values(catalogue.STREAMS_THREAD_COMMITS_TOTAL) == {(*head, thread): 7.0}
    assert world.values(catalogue.STREAMS_THREAD_COMMIT_LATENCY_SECONDS) == {(*head, thread, "avg"): 0.012}
    assert world.values(catalogue.STREAMS_RESTORING_TASKS) == {(*head, updater): 3.0}
    assert world.values(catalogue.STREAMS_RESTORE_REMAINING_RECORDS) == {}
    assert {labels[1] for labels in world.values(catalogue.TELEMETRY_CLIENT_INFO)} == {PROCESS}


def test_an_agents_metrics_of_topics_are_those_of_the_client(world: World) -> None:
    """OpenTelemetry's Java agent reports record_send_total by topic only, and several clients of a JVM at once."""
    push = Push({"service.instance.id": "jvm-1", "service.name": "orders"})
    for client, topic, count in (("a", "x", 3), ("a", "y", 4), ("b", "x", 5)):
        push.sum("kafka.producer.record_send_total", count, 1, 2, CUMULATIVE, **{"client-id": client, "topic": topic})
    push.sum("kafka.producer.txn_commit_time_ns_total", 3e9, 1, 2, CUMULATIVE, **{"client-id": "a"})
    world.push(push, {})
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {
        ("prod", "jvm-1", "a"): 7,
        ("prod", "jvm-1", "b"): 5,
    }
    assert world.values(catalogue.PRODUCER_TXN_SECONDS_TOTAL) == {("prod", "jvm-1", "a", "commit"): 3.0}


def test_the_sum_of_the_topics_of_a_client_stays_finite(world: World) -> None:
    push = Push({"service.instance.id": "jvm-1"})
    for topic in ("x", "y"):
        names = {"client-id": "a", "topic": topic}
        push.sum("kafka.producer.record_send_total", 1.7e308, 1, 2, CUMULATIVE, **names)
    world.push(push, {})
    assert list(world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL).values()) == [sys.float_info.max]


def test_a_sender_that_does_not_say_who_it_is_is_refused(world: World) -> None:
    answer = world.post(producer(1, 2).json, {}, "application/json")
    assert answer.status == 200
    assert partial(answer) == {
        "rejectedDataPoints": "2",
        "errorMessage": "the sender has no client_instance_id and no service.instance.id",
    }
    assert world.values(catalogue.TELEMETRY_POINTS_TOTAL)["refused",] == 2


def test_an_answer_has_every_reason_with_its_number_of_points(world: World) -> None:
    push = Push().sum(COMMIT, -1, 1, 2).sum(COMMIT, -2, 2, 3).sum(COMMIT, 1, 1, 0)
    assert partial(world.post(push.json, CLIENT, "application/json")) == {
        "rejectedDataPoints": "3",
        "errorMessage": "a counter is negative (2); a delta has no time (1)",
    }


def test_reasons_beyond_the_limit_are_counted_together() -> None:
    tally = PointTally()
    for number in range(MOST_REASONS + 2):
        tally.refuse(f"reason {number}")
    *told, others = tally.why.split("; ")
    assert told == [f"reason {number} (1)" for number in range(MOST_REASONS)]
    assert others == "other reasons (2)"


def test_a_delta_whose_sum_is_not_finite_is_refused_and_the_sum_stays(world: World) -> None:
    world.push(producer(1, 2, sent=1.7e308))
    answer = world.post(producer(2, 3, sent=1.7e308).json, CLIENT, "application/json")
    assert partial(answer) == {
        "rejectedDataPoints": "1",
        "errorMessage": "the sum of a counter's deltas is not finite",
    }
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {LABELS: 1.7e308}


def test_a_resource_of_too_many_attributes_is_refused(world: World) -> None:
    document = json.loads(Push({"service.instance.id": "jvm-1"}).sum(COMMIT, 1, 1, 2).json)
    attributes = document["resourceMetrics"][0]["resource"]["attributes"]
    attributes[1:] = [{"key": f"k{number}", "value": {"stringValue": "v"}} for number in range(64)]
    answer = world.post(json.dumps(document).encode(), {}, "application/json")
    assert (answer.status, json.loads(answer.body)["message"]) == (413, "has a resource of more than 64 attributes")


def test_the_cluster_is_one_that_is_watched(world: World) -> None:
    world.push(producer(1, 2), {**CLIENT, "kafka-cluster": "dr"})
    assert list(world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL)) == [("dr", INSTANCE, "orders/1")]
    refused = world.post(producer(1, 2).json, {**CLIENT, "kafka-cluster": "other"}, "application/json")
    assert refused.status == 400
    other = Push({"kafka_cluster": "other"}).sum(COMMIT, 1, 1, 2)
    assert partial(world.post(other.json, {}, "application/json"))["rejectedDataPoints"] == "1"


def test_more_clients_than_allowed_are_refused_and_counted() -> None:
    world = World(clients=2)
    for number in range(3):
        world.post(producer(1, 2).protobuf, {**CLIENT, "kafka-client-instance-id": f"i{number}"})
    assert len(world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL)) == 2
    assert world.values(catalogue.SERIES_DROPPED) == {(catalogue.TELEMETRY_CLIENT_INFO.name,): 1}


def test_more_series_of_a_client_than_allowed_are_refused(world: World) -> None:
    push = Push()
    for number in range(MOST_SERIES + 10):
        push.sum(COMMIT, 1, 1, 2, DELTA, **{"client-id": f"c{number}"})
    answer = world.post(push.json, CLIENT, "application/json")
    assert partial(answer)["rejectedDataPoints"] == "10"


def test_the_work_for_one_client_grows_with_its_client_ids_and_not_with_their_square(world: World) -> None:
    def push(number: int) -> Push:
        made = Push()
        for place in range(number):
            made.sum(COMMIT, 1, 1, 2, DELTA, **{"client-id": f"c{place}"})
        return made

    world.push(push(100))
    few = sum(calls_of(world.samples).values())
    world.push(push(1000))
    many = sum(calls_of(world.samples).values())
    assert len(world.values(catalogue.PRODUCER_TXN_SECONDS_TOTAL)) == 1000
    assert many < 11 * few


def test_a_body_of_many_instances_is_taken_without_a_pass_over_all_clients_for_each() -> None:
    world = World(clients=100)
    for number in range(100):
        world.push(producer(1, 2), {**CLIENT, "kafka-client-instance-id": f"i{number}"})
    push = Push()
    for number in range(300):
        push.sum(COMMIT, 1, 1, 2, DELTA, **{"client-instance-id": f"other{number}"})
    body = push.protobuf
    found = calls_of(lambda: world.post(body, {}))
    assert found["LatestBySender.put"] == 300
    assert found["LatestBySender._forget_silent"] == 0
    assert world.receiver.left_out() == 100


def test_all_that_is_kept_is_within_the_budget() -> None:
    budget = Budget(20_000)
    world = World(budget=budget)
    for number in range(50):
        world.post(producer(1, 2).protobuf, {**CLIENT, "kafka-client-instance-id": f"i{number}"})
    assert budget.kept <= 20_000
    assert budget.dropped["telemetry"] > 0


@pytest.mark.parametrize("kind", ["application/x-protobuf", "application/json"])
def test_gzip_is_taken(world: World, kind: str) -> None:
    push = producer(1, 2)
    body = push.protobuf if kind.endswith("protobuf") else push.json
    world.post(gzip.compress(body), {**CLIENT, "content-encoding": "gzip"}, kind)
    assert world.values(catalogue.PRODUCER_RECORDS_SENT_TOTAL) == {LABELS: 10}


GZIP = {**CLIENT, "content-encoding": "gzip"}


@pytest.mark.parametrize(
    ("body", "headers", "kind", "status", "why"),
    [
        (b"hello", CLIENT, "application/x-protobuf", 400, "is no ExportMetricsServiceRequest"),
        (b"hello", CLIENT, "application/json", 400, "is no JSON"),
        (b"x", CLIENT, "text/plain", 415, "Content-Type must be"),
        (b"x", {**CLIENT, "content-encoding": "zstd"}, "application/json", 415, "Content-Encoding must be gzip"),
        (b"no gzip", GZIP, "application/json", 400, "is not the gzip"),
        (gzip.compress(b"{}", mtime=0) * 2, GZIP, "application/json", 400, "is not one whole member"),
        (gzip.compress(b"{}", mtime=0)[:-9], GZIP, "application/json", 400, "is not one whole member"),
        (gzip.compress(bytes(MOST_BYTES + 1), mtime=0), GZIP, "application/json", 413, "more than 1 MB"),
        (zlib.compress(b"{}"), GZIP, "application/json", 400, "is not the gzip"),
        (b"x", {**CLIENT, "content-length": "100000000"}, "application/json", 413, "more than 1024 KB"),
        (b"x", {**CLIENT, "content-length": ""}, "application/json", 411, "Content-Length"),
        (b"x", {**CLIENT, "kafka-client-id": "a%0Ab"}, "application/json", 400, "kafka-client-id must be"),
        (b"x", {**CLIENT, "kafka-client-id": "a" * 401}, "application/json", 400, "kafka-client-id must be"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_with_a_status_and_its_reason(
    world: World, body: bytes, headers: Mapping[str, str], kind: str, status: int, why: str
) -> None:
    answer = world.post(body, headers, kind)
    assert answer.status == status
    if kind == "application/x-protobuf":
        assert answer.content_type == kind
        assert answer.body.startswith(b"\x08\x03\x12")
        assert why.encode() in answer.body
    else:
        assert answer.content_type == "application/json"
        assert why in json.loads(answer.body)["message"]
    assert world.receiver.senders() == {}


def test_a_gzip_bomb_is_unpacked_no_further_than_the_limit(world: World) -> None:
    bomb = gzip.compress(gzip.compress(bytes(50_000_000), 1) + bytes(MOST_BYTES), 9)
    assert len(bomb) < 1024 * 1024
    assert world.post(bomb, GZIP, "application/json").status == 413


def test_the_token_is_asked_for() -> None:
    world = World(token="t0ken")
    refused = world.post(producer(1, 2).protobuf)
    assert refused.status == 401
    assert b"t0ken" not in refused.body
    assert world.post(producer(1, 2).protobuf, {**CLIENT, "authorization": "Bearer t0ken"}).status == 200


def test_a_flood_is_refused_for_a_while(world: World) -> None:
    answers = [world.post(b"") for _ in range(1001)]
    assert (answers[0].status, answers[-1].status) == (200, 429)
    assert answers[-1].headers["Retry-After"]
