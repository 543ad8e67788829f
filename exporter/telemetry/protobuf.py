"""OTLP in protobuf: ``ExportMetricsServiceRequest``, which has the wire form of the ``MetricsData`` of KIP-714.

A message in memory takes up to 40 times its bytes. So the levels above a metric are walked on the wire, and only the
metrics that are read are decoded, one at a time and each within ``MOST_BYTES``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, DataPointFlags, Metric, NumberDataPoint
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

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

MOST_BYTES = 256 * 1024
"""Largest resource, or metric that is read."""
_DAMAGED = "is no ExportMetricsServiceRequest in protobuf"
_METRICS_OF_SCOPE = _SCOPES = 2  # fields of ScopeMetrics and ResourceMetrics
_RESOURCE, _NAME, _TOP = 1, 1, 1


class _Field(NamedTuple):
    """A field on the wire; ``content`` is None unless it has a length of its own."""

    number: int
    content: memoryview | None


def decode(body: bytes, tally: PointTally) -> Iterator[Pushed]:
    """The points of the metrics that are read, by resource. Raises OtlpError for what is no such message."""
    for field in _fields(memoryview(body), tally):
        if field.number == _TOP:
            yield _resource(_length_delimited(field), tally)


def response(refused: int, why: str) -> bytes:
    """An ExportMetricsServiceResponse; empty where nothing was refused."""
    answer = ExportMetricsServiceResponse()
    if refused:
        answer.partial_success.rejected_data_points = refused
        answer.partial_success.error_message = why
    return bytes(answer.SerializeToString())


def status(code: int, message: str) -> bytes:
    """A ``google.rpc.Status``: an int32 ``code`` and a string ``message``, which OTLP/HTTP has for refusals."""
    text = message.encode("utf-8", "replace")
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text


def _resource(content: memoryview, tally: PointTally) -> Pushed:
    tally.count()
    resource, metrics = Resource(), []
    for field in _fields(content, tally):
        if field.number == _RESOURCE:
            raw = _length_delimited(field)
            if len(raw) > MOST_BYTES:
                raise OtlpError(f"has a resource of more than {MOST_BYTES // 1024} KB", 413)
            _parse(resource, raw)
        elif field.number == _SCOPES:
            tally.count()
            for inner in _fields(_length_delimited(field), tally):
                if inner.number == _METRICS_OF_SCOPE:
                    tally.count()
                    metrics.append(_length_delimited(inner))
    if len(resource.attributes) > MOST_ATTRIBUTES:
        raise OtlpError(f"has a resource of more than {MOST_ATTRIBUTES} attributes", 413)
    points = tuple(point for metric in metrics for point in _points(metric, tally))
    return Pushed(attributes_of(_pairs(resource.attributes)) or {}, points)


def _points(raw: memoryview, tally: PointTally) -> Iterator[Point]:
    try:
        name = next((_text(field) for field in _fields(raw, tally) if field.number == _NAME), "")
        place = place_of(name)
        if place is None:
            tally.ignored += 1
            return
        if len(raw) > MOST_BYTES:
            tally.refuse(f"a metric is larger than {MOST_BYTES // 1024} KB")
            return
        metric = Metric()
        _parse(metric, raw)
    except OtlpError as error:
        if error.status == 413:  # of the whole body
            raise
        tally.refuse("a metric is damaged")
        return
    kind = metric.WhichOneof("data")
    if kind not in {"gauge", "sum"}:
        tally.refuse(f"{name} is neither gauge nor sum")
        return
    numbers = metric.gauge.data_points if kind == "gauge" else metric.sum.data_points
    temporality = _temporality(metric) if kind == "sum" else Temporality.GAUGE
    tally.count(len(numbers))
    if temporality is None:
        tally.refuse(f"{name} is a sum of unknown temporality", len(numbers))
        return
    for number in numbers:
        point = _point(place, number, temporality, tally)
        if point is not None:
            yield point


def _temporality(metric: Metric) -> Temporality | None:
    match metric.sum.aggregation_temporality:
        case AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE:
            return Temporality.CUMULATIVE
        case AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA:
            return Temporality.DELTA
    return None


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


# --- The wire: https://protobuf.dev/programming-guides/encoding ---


def _fields(content: memoryview, tally: PointTally) -> Iterator[_Field]:
    """The fields of a message. Raises OtlpError."""
    at, end = 0, len(content)
    while at < end:
        tally.count_field()
        tag, at = _number(content, at)
        number, wire = tag >> 3, tag & 7
        if wire == 2:
            size, at = _number(content, at)
            if size > end - at:
                raise OtlpError(_DAMAGED)
            yield _Field(number, content[at : at + size])
            at += size
            continue
        if wire == 0:
            _, at = _number(content, at)
        elif wire in {1, 5}:
            at += 8 if wire == 1 else 4
        else:
            raise OtlpError(_DAMAGED)
        if at > end or number == 0:
            raise OtlpError(_DAMAGED)
        yield _Field(number, None)


def _number(content: memoryview, at: int) -> tuple[int, int]:
    """A varint, and the index behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            break
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise OtlpError(_DAMAGED)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def _length_delimited(field: _Field) -> memoryview:
    if field.content is None:
        raise OtlpError(_DAMAGED)
    return field.content


def _text(field: _Field) -> str:
    content = _length_delimited(field)
    if len(content) > MOST_BYTES:
        raise OtlpError(_DAMAGED)
    try:
        return bytes(content).decode()
    except UnicodeDecodeError:
        raise OtlpError(_DAMAGED) from None


def _parse(message: Resource | Metric, content: memoryview) -> None:
    try:
        message.MergeFromString(bytes(content))
    except DecodeError:
        raise OtlpError(_DAMAGED) from None
