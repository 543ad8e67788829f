"""OTLP in protobuf and in JSON: the same points from both, and a reason for whatever is none."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from exporter.telemetry.otlp import MOST_BYTES
from exporter.telemetry.points import OtlpError, Point, PointTally, Temporality
from exporter.telemetry.protobuf import JSON, PROTOBUF, decode, response, status
from tests.helpers.otlp import COMMIT, CUMULATIVE, Push, pairs

PRODUCER = {"client_id": "orders", "transactional_id": "orders-1"}


def points(kind: str, body: bytes, tally: PointTally | None = None) -> list[Point]:
    return [point for pushed in decode(body, kind, tally or PointTally()) for point in pushed.points]


def refusal(kind: str, body: bytes) -> OtlpError:
    with pytest.raises(OtlpError) as caught:
        points(kind, body)
    return caught.value


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_a_push_is_its_points_with_their_resource(kind: str) -> None:
    push = Push(PRODUCER).sum(COMMIT, 5e9, 1.0, 2.5).gauge("org.apache.kafka.stream.client.state", 2, 3.0)
    push.sum("kafka.producer.record_send_total", 7, 1, 2, CUMULATIVE, **{"client-id": "a", "topic": "t"})
    found = list(decode(push.protobuf if kind == PROTOBUF else push.json, kind, PointTally()))
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
    assert points(PROTOBUF, Push().gauge("jvm.memory", 1, 1).protobuf, tally) == []
    assert (tally.ignored, tally.refused) == (1, 0)


@pytest.mark.parametrize(
    "body", [b"\xff", b"hello", b"\x0a", b"\x0a\x05abc", b"<html>", b"\x00\x00", b"{}", b"\x08\x01\x0b"]
)
def test_what_is_no_protobuf_is_refused(body: bytes) -> None:
    assert refusal(PROTOBUF, body).status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
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
    assert refusal(JSON, body).status == 400


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_the_largest_body_of_points_without_a_value_is_read_in_bounded_memory(kind: str) -> None:
    form = b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"%b","sum":{"dataPoints":[%b]}}]}]}]}'
    body = form % (COMMIT.encode(), b",".join([b"{}"] * (MOST_BYTES // 3 - 100)))
    if kind == PROTOBUF:
        message = ExportMetricsServiceRequest()
        metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name=COMMIT)
        metric.sum.aggregation_temporality = 1
        metric.sum.data_points.extend([NumberDataPoint()] * (MOST_BYTES // 2 - 100))
        body = message.SerializeToString()
    assert len(body) <= MOST_BYTES
    tracemalloc.start()
    with suppress(OtlpError):  # more JSON than is parsed
        assert points(kind, body) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * MOST_BYTES


def number(**fields: Any) -> bytes:
    good = {"asDouble": 1, "startTimeUnixNano": "1", "timeUnixNano": "2"}
    data = {"aggregationTemporality": 1, "dataPoints": [{**good, **fields}, good]}
    scopes = [{"metrics": [{"name": COMMIT, "sum": data}]}]
    return json.dumps({"resourceMetrics": [{"scopeMetrics": scopes}]}).encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": [{"key": "client_id", "value": {"stringValue": "a\nb"}}]},
        {"attributes": [{"key": "client_id", "value": {"stringValue": "x" * 500}}]},
        {"attributes": [{"key": f"k{at}", "value": {"intValue": "1"}} for at in range(65)]},
    ],
)
def test_one_point_that_is_not_used_costs_that_point(fields: dict[str, Any]) -> None:
    tally = PointTally()
    assert len(points(JSON, number(**fields), tally)) == 1
    assert tally.refused == 1
    assert tally.why


@pytest.mark.parametrize(
    "fields", [{"asDouble": []}, {"asDouble": "abc"}, {"timeUnixNano": -1}, {"startTimeUnixNano": 2**64}]
)
def test_one_field_that_cannot_be_read_costs_the_request(fields: dict[str, Any]) -> None:
    assert refusal(JSON, number(**fields)).status == 400


@pytest.mark.parametrize("fields", [{"flags": 1}, {"asDouble": None}])
def test_a_point_without_a_value_is_ignored(fields: dict[str, Any]) -> None:
    tally = PointTally()
    assert len(points(JSON, number(**fields), tally)) == 1
    assert (tally.ignored, tally.refused) == (1, 0)


def test_the_names_of_temporalities_are_known_as_well() -> None:
    body = number().replace(
        b'"aggregationTemporality": 1', b'"aggregationTemporality": "AGGREGATION_TEMPORALITY_CUMULATIVE"'
    )
    assert {point.temporality for point in points(JSON, body)} == {Temporality.CUMULATIVE}


def test_a_sum_of_unknown_temporality_is_refused() -> None:
    tally = PointTally()
    assert points(PROTOBUF, Push().sum(COMMIT, 1, 1, 2, 0).protobuf, tally) == []
    assert tally.refused == 1


def test_a_histogram_is_refused() -> None:
    message = ExportMetricsServiceRequest()
    metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name=COMMIT)
    metric.histogram.data_points.add(count=1)
    tally = PointTally()
    assert points(PROTOBUF, message.SerializeToString(), tally) == []
    assert tally.refused == 1


def test_attributes_beside_texts_and_numbers_are_left_out() -> None:
    push = Push().sum(COMMIT, 1, 1, 2)
    point = push.message.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points[0]
    point.attributes.extend(pairs({"client-id": "a"}))
    point.attributes.add(key="partition").value.int_value = 3
    point.attributes.add(key="list").value.array_value.values.add(string_value="x")
    (found,) = points(PROTOBUF, push.protobuf)
    assert found.attributes == {"client_id": "a", "partition": "3"}


def test_answers_are_those_of_the_specification() -> None:
    assert response(PROTOBUF, 0, "") == b""
    assert json.loads(response(JSON, 0, "")) == {}
    answer = ExportMetricsServiceResponse.FromString(response(PROTOBUF, 3, "why"))
    assert (answer.partial_success.rejected_data_points, answer.partial_success.error_message) == (3, "why")
    assert json.loads(response(JSON, 3, "why")) == {
        "partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "why"}
    }
    assert status(PROTOBUF, 3, "no OTLP") == b"\x08\x03\x12\x07no OTLP"
    assert json.loads(status(JSON, 3, "no OTLP")) == {"code": 3, "message": "no OTLP"}
