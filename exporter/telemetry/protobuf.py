"""OTLP's requests and answers by protobuf's own parsers, in its two forms: protobuf, and its mapping to JSON.

In JSON unknown fields are ignored, enums may be names, and 64-bit numbers texts. One field that cannot be read costs
the request; what can be read and is not used costs its point.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
)

from exporter.bounds.json_text import JsonError, parse_json
from exporter.telemetry.points import (
    MOST_ATTRIBUTES,
    OtlpError,
    Point,
    PointTally,
    Pushed,
    PushedAttribute,
    Temporality,
    attributes_of,
    place_of,
)

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_TEMPORALITIES = {
    AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE: Temporality.CUMULATIVE,
    AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA: Temporality.DELTA,
}


def decode(body: bytes, kind: str, tally: PointTally) -> Iterator[Pushed]:
    """The points of the metrics that are read, by resource. Raises OtlpError for what is no such message."""
    for pushed in _request(body, kind).resource_metrics:
        yield _resource(pushed, tally)


def response(kind: str, refused: int, why: str) -> bytes:
    """An ExportMetricsServiceResponse; an empty one where nothing was refused."""
    answer = ExportMetricsServiceResponse()
    if refused:
        answer.partial_success.rejected_data_points = refused
        answer.partial_success.error_message = why
    return (
        json_format.MessageToJson(answer, indent=None).encode() if kind == JSON else bytes(answer.SerializeToString())
    )


def status(kind: str, code: int, message: str) -> bytes:
    """A ``google.rpc.Status``: an int32 ``code`` and a string ``message``, which OTLP/HTTP has for refusals."""
    if kind == JSON:
        return json.dumps({"code": code, "message": message}).encode()
    # A partial success has the same wire form: a number in field 1, a text in field 2.
    same = ExportMetricsPartialSuccess(rejected_data_points=code, error_message=message)
    return bytes(same.SerializeToString())


def _request(body: bytes, kind: str) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    try:
        if kind == PROTOBUF:
            request.ParseFromString(body)
        else:
            document = parse_json(body)
            if not isinstance(document, dict):
                raise OtlpError("is no JSON object")
            json_format.ParseDict(document, request, ignore_unknown_fields=True)
    except JsonError as error:
        raise OtlpError(str(error), 413 if "larger" in str(error) else 400) from None
    except (DecodeError, json_format.ParseError):
        form = "protobuf" if kind == PROTOBUF else "JSON"
        raise OtlpError(f"is no ExportMetricsServiceRequest in {form}") from None
    return request


def _resource(pushed: ResourceMetrics, tally: PointTally) -> Pushed:
    attributes = pushed.resource.attributes
    if len(attributes) > MOST_ATTRIBUTES:
        raise OtlpError(f"has a resource of more than {MOST_ATTRIBUTES} attributes", 413)
    metrics = (metric for scope in pushed.scope_metrics for metric in scope.metrics)
    points = tuple(point for metric in metrics for point in _points(metric, tally))
    return Pushed(attributes_of(_pairs(attributes)) or {}, points)


def _points(metric: Metric, tally: PointTally) -> Iterator[Point]:
    place = place_of(metric.name)
    if place is None:
        tally.ignored += 1
        return
    kind = metric.WhichOneof("data")
    if kind not in {"gauge", "sum"}:
        tally.refuse(f"{metric.name} is neither gauge nor sum")
        return
    numbers = metric.gauge.data_points if kind == "gauge" else metric.sum.data_points
    temporality = Temporality.GAUGE
    if kind == "sum":
        known = _TEMPORALITIES.get(metric.sum.aggregation_temporality)
        if known is None:
            tally.refuse(f"{metric.name} is a sum of unknown temporality", len(numbers))
            return
        temporality = known
    for number in numbers:
        point = _point(place, number, temporality, tally)
        if point is not None:
            yield point


def _point(
    place: PushedAttribute, number: NumberDataPoint, temporality: Temporality, tally: PointTally
) -> Point | None:
    which = number.WhichOneof("value")
    if which is None or number.flags & DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK:
        tally.ignored += 1
        return None
    attributes = attributes_of(_pairs(number.attributes)) if len(number.attributes) <= MOST_ATTRIBUTES else None
    if attributes is None:
        tally.refuse("a data point has attributes that cannot be labels, or too many")
        return None
    value = float(number.as_double if which == "as_double" else number.as_int)
    return Point(place, attributes, value, temporality, number.start_time_unix_nano, number.time_unix_nano)


def _pairs(attributes: Iterable[KeyValue]) -> Iterator[tuple[str, str | float | None]]:
    return ((attribute.key, _value(attribute.value)) for attribute in attributes)


def _value(value: AnyValue) -> str | float | None:
    match value.WhichOneof("value"):
        case "string_value":
            return str(value.string_value)
        case "int_value":
            return int(value.int_value)
        case "double_value":
            return float(value.double_value)
    return None
