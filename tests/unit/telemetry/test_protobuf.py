"""OTLP in protobuf and in JSON: the same points from both, and a reason for whatever is none."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from exporter.telemetry import json_form, protobuf
from exporter.telemetry.points import MOST_FIELDS, MOST_PARTS, OtlpError, Point, PointTally, Pushed, Temporality
from tests.helpers.otlp import COMMIT, CUMULATIVE, Push, pairs

Decode = Callable[[bytes, PointTally], Iterator[Pushed]]
PRODUCER = {"client_id": "orders", "transactional_id": "orders-1"}


def points(decode: Decode, body: bytes, tally: PointTally | None = None) -> list[Point]:
    return [point for pushed in decode(body, tally or PointTally()) for point in pushed.points]


def length(size: int) -> bytes:
    return protobuf._varint(size)


def wrapped(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + length(len(content)) + content


def refusal(decode: Decode, body: bytes) -> OtlpError:
    with pytest.raises(OtlpError) as caught:
        points(decode, body)
    return caught.value


@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_a_push_is_its_points_with_their_resource(form: str) -> None:
    push = Push(PRODUCER).sum(COMMIT, 5e9, 1.0, 2.5).gauge("org.apache.kafka.stream.client.state", 2, 3.0)
    push.sum("kafka.producer.record_send_total", 7, 1, 2, CUMULATIVE, **{"client-id": "a", "topic": "t"})
    decode: Decode = protobuf.decode if form == "protobuf" else json_form.decode
    found = list(decode(push.protobuf if form == "protobuf" else push.json, PointTally()))
    assert [pushed.resource for pushed in found] == [PRODUCER] * 3
    commit, state, sent = (pushed.points[0] for pushed in found)
    assert (commit.place.attribute, commit.value, commit.temporality) == (
        "txn-commit-time-ns-total",
        5e9,
        Temporality.DELTA,
    )
    assert (commit.start, commit.time) == (1_000_000_000, 2_500_000_000)
    assert (state.place.attribute, state.value, state.temporality) == ("client-state", 2.0, Temporality.GAUGE)
    assert sent.temporality is Temporality.CUMULATIVE
    assert sent.attributes == {"client_id": "a", "topic": "t"}


def test_metrics_that_are_not_read_are_counted_and_not_decoded() -> None:
    tally = PointTally()
    assert points(protobuf.decode, Push().gauge("jvm.memory", 1, 1).protobuf, tally) == []
    assert (tally.ignored, tally.refused) == (1, 0)


def test_a_damaged_metric_costs_that_metric_alone() -> None:
    name = wrapped(1, COMMIT.encode())
    damaged = wrapped(1, wrapped(2, wrapped(2, name + wrapped(7, b"\xff\xff"))))
    tally = PointTally()
    found = points(protobuf.decode, damaged + Push(PRODUCER).sum(COMMIT, 1, 1, 2).protobuf, tally)
    assert len(found) == 1
    assert (tally.refused, tally.why) == (1, "a metric is damaged")


@pytest.mark.parametrize(
    "body", [b"\xff", b"hello", b"\x0a", b"\x0a\x05abc", b"<html>", b"\x00\x00", b"{}", b"\x08\x01\x0b"]
)
def test_what_is_no_protobuf_is_refused(body: bytes) -> None:
    assert refusal(protobuf.decode, body).status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"metrics":[]}',
        b"[]",
        b"1",
        b"{",
        b"[" * 100_000,
        b'{"resourceMetrics":1}',
        b'{"resourceMetrics":[1]}',
        b'{"resourceMetrics":[{"scopeMetrics":{}}]}',
        b'{"resourceMetrics":' + b'[{"a":' * 100 + b"1" + b"}]" * 100 + b"}",
    ],
)
def test_what_is_no_otlp_in_json_is_refused(body: bytes) -> None:
    assert refusal(json_form.decode, body).status == 400


def test_more_parts_than_the_limit_are_refused_as_too_large() -> None:
    many = b"\x0a\x00" * (MOST_PARTS + 1)
    assert refusal(protobuf.decode, many).status == 413
    documents = json.dumps({"resourceMetrics": [{}] * (MOST_PARTS + 1)}).encode()
    assert refusal(json_form.decode, documents).status == 413


@pytest.mark.parametrize("levels", range(4))
def test_unknown_fields_are_walked_up_to_a_limit_of_the_body(levels: int) -> None:
    def body(fields: int) -> bytes:
        """A message at this level: of the request, a resource, a scope or a metric without a name."""
        content = b"\x20\x00" * fields
        for field in (2, 2, 1)[3 - levels :]:
            content = wrapped(field, content)
        return content

    assert points(protobuf.decode, body(MOST_FIELDS - levels)) == []
    tally = PointTally()
    with pytest.raises(OtlpError) as caught:
        points(protobuf.decode, body(2_000_000), tally)
    assert caught.value.status == 413
    assert tally.fields == MOST_FIELDS + 1


def test_a_metric_of_a_million_points_is_refused_in_little_memory() -> None:
    metric = wrapped(1, COMMIT.encode()) + wrapped(7, b"\x0a\x00" * 1_000_000)
    body = wrapped(1, wrapped(2, wrapped(2, metric)))
    tally = PointTally()
    tracemalloc.start()
    assert points(protobuf.decode, body, tally) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert tally.why == "a metric is larger than 256 KB"
    assert peak < 1024 * 1024


def test_a_resource_of_a_million_attributes_is_refused() -> None:
    body = wrapped(1, wrapped(1, b"\x0a\x00" * 1_000_000))
    assert refusal(protobuf.decode, body).status == 413
    few = wrapped(1, wrapped(1, b"\x0a\x00" * 100))
    assert refusal(protobuf.decode, few).status == 413


def number(**fields: Any) -> bytes:
    good = {"asDouble": 1, "startTimeUnixNano": "1", "timeUnixNano": "2"}
    data = {"aggregationTemporality": 1, "dataPoints": [{**good, **fields}, good]}
    scopes = [{"metrics": [{"name": COMMIT, "sum": data}]}]
    return json.dumps({"resourceMetrics": [{"scopeMetrics": scopes}]}).encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"asDouble": []},
        {"asDouble": True},
        {"asDouble": "abc"},
        {"asDouble": "1_0"},
        {"asDouble": "9" * 100},
        {"timeUnixNano": "NaN"},
        {"timeUnixNano": -1},
        {"timeUnixNano": 1.5},
        {"startTimeUnixNano": 2**64},
        {"attributes": 7},
        {"attributes": [{"key": "client_id", "value": {"stringValue": "a\nb"}}]},
        {"attributes": [{"key": "client_id", "value": {"stringValue": "x" * 500}}]},
        {"attributes": [{"key": f"k{at}", "value": {"intValue": "1"}} for at in range(65)]},
    ],
)
def test_one_bad_point_costs_that_point(fields: dict[str, Any]) -> None:
    tally = PointTally()
    assert len(points(json_form.decode, number(**fields), tally)) == 1
    assert tally.refused == 1
    assert tally.why


@pytest.mark.parametrize("fields", [{"flags": 1}, {"asDouble": None}])
def test_a_point_without_a_value_is_ignored(fields: dict[str, Any]) -> None:
    tally = PointTally()
    assert len(points(json_form.decode, number(**fields), tally)) == 1
    assert (tally.ignored, tally.refused) == (1, 0)


def test_the_names_of_temporalities_are_known_as_well() -> None:
    body = number().replace(
        b'"aggregationTemporality": 1', b'"aggregationTemporality": "AGGREGATION_TEMPORALITY_CUMULATIVE"'
    )
    assert {point.temporality for point in points(json_form.decode, body)} == {Temporality.CUMULATIVE}


def test_a_sum_of_unknown_temporality_is_refused() -> None:
    tally = PointTally()
    assert points(protobuf.decode, Push().sum(COMMIT, 1, 1, 2, 0).protobuf, tally) == []
    assert tally.refused == 1


def test_a_histogram_is_refused() -> None:
    message = ExportMetricsServiceRequest()
    metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name=COMMIT)
    metric.histogram.data_points.add(count=1)
    tally = PointTally()
    assert points(protobuf.decode, message.SerializeToString(), tally) == []
    assert tally.refused == 1


def test_attributes_beside_texts_and_numbers_are_left_out() -> None:
    push = Push().sum(COMMIT, 1, 1, 2)
    point = push.message.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points[0]
    point.attributes.extend(pairs({"client-id": "a"}))
    point.attributes.add(key="partition").value.int_value = 3
    point.attributes.add(key="list").value.array_value.values.add(string_value="x")
    (found,) = points(protobuf.decode, push.protobuf)
    assert found.attributes == {"client_id": "a", "partition": "3"}


def test_answers_are_those_of_the_specification() -> None:
    assert protobuf.response(0, "") == b""
    assert json.loads(json_form.response(0, "")) == {}
    answer = ExportMetricsServiceResponse.FromString(protobuf.response(3, "why"))
    assert (answer.partial_success.rejected_data_points, answer.partial_success.error_message) == (3, "why")
    assert json.loads(json_form.response(3, "why")) == {
        "partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "why"}
    }
    assert protobuf.status(3, "no OTLP") == b"\x08\x03\x12\x07no OTLP"
    assert json.loads(json_form.status(3, "no OTLP")) == {"code": 3, "message": "no OTLP"}
