"""OTLP in JSON: names in lowerCamelCase, 64-bit numbers as texts or numbers, enums as numbers. Unknown fields are
ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

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

_NO_VALUE = 1  # DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
_TEMPORALITIES = {1: Temporality.DELTA, 2: Temporality.CUMULATIVE}  # AggregationTemporality
_LONGEST_NUMBER = 40


def decode(body: bytes, tally: PointTally) -> Iterator[Pushed]:
    """The points of the metrics that are read, by resource. Raises OtlpError for what is no such document."""
    try:
        document = parse_json(body)
    except JsonError as error:
        too_large = "larger" in str(error)
        raise OtlpError(str(error), 413 if too_large else 400) from None
    if not isinstance(document, dict):
        raise OtlpError("is no JSON object")
    if document and "resourceMetrics" not in document:
        raise OtlpError("has no resourceMetrics")
    for resource_metrics in _objects(document, "resourceMetrics", tally):
        resource = resource_metrics.get("resource")
        resource = resource if isinstance(resource, dict) else {}
        listed = resource.get("attributes")
        if isinstance(listed, list) and len(listed) > MOST_ATTRIBUTES:
            raise OtlpError(f"has a resource of more than {MOST_ATTRIBUTES} attributes", 413)
        attributes = attributes_of(_pairs(resource))
        points = tuple(
            point
            for scope in _objects(resource_metrics, "scopeMetrics", tally)
            for metric in _objects(scope, "metrics", tally)
            for point in _points(metric, tally)
        )
        if attributes is not None:
            yield Pushed(attributes, points)
        elif points:
            tally.refuse("a resource has an attribute that cannot be read", len(points))


def response(refused: int, why: str) -> bytes:
    """An ExportMetricsServiceResponse; ``{}`` where nothing was refused."""
    answer = {"partialSuccess": {"rejectedDataPoints": str(refused), "errorMessage": why}} if refused else {}
    return json.dumps(answer).encode()


def status(code: int, message: str) -> bytes:
    """A ``google.rpc.Status``."""
    return json.dumps({"code": code, "message": message}).encode()


def _objects(holder: Mapping[str, Any], key: str, tally: PointTally) -> Iterator[Mapping[str, Any]]:
    value = holder.get(key)
    if value is None:
        return
    if not isinstance(value, list):
        raise OtlpError(f"{key} is no list")
    tally.count(len(value))
    for child in value:
        if not isinstance(child, dict):
            raise OtlpError(f"each of {key} must be an object")
        yield child


def _points(metric: Mapping[str, Any], tally: PointTally) -> Iterator[Point]:
    name = metric.get("name")
    place = place_of(name) if isinstance(name, str) else None
    if place is None:
        tally.ignored += 1
        return
    gauge, total = metric.get("gauge"), metric.get("sum")
    data = gauge if isinstance(gauge, dict) else total
    if not isinstance(data, dict):
        tally.refuse(f"{name} is neither gauge nor sum")
        return
    temporality = Temporality.GAUGE if data is gauge else _temporality(data.get("aggregationTemporality"))
    numbers = data.get("dataPoints") or []
    if not isinstance(numbers, list):
        tally.refuse("dataPoints is no list")
        return
    tally.count(len(numbers))
    for number in numbers:
        point = _point(place, number, temporality, tally)
        if point is not None:
            yield point


def _temporality(value: object) -> Temporality | None:
    # The specification has numbers; what protobuf's own mapping writes is the name.
    if isinstance(value, str):
        return next(
            (temporality for temporality in _TEMPORALITIES.values() if value.lower().endswith(f"_{temporality.value}")),
            None,
        )
    return _TEMPORALITIES.get(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _point(place: PushedAttribute, number: object, temporality: Temporality | None, tally: PointTally) -> Point | None:
    if not isinstance(number, dict) or temporality is None:
        tally.refuse("a sum is of unknown temporality" if temporality is None else "a data point is no object")
        return None
    written = number.get("asDouble", number.get("asInt"))
    flags = _whole(number.get("flags", 0))
    if written is None or (flags is not None and flags & _NO_VALUE):
        tally.ignored += 1
        return None
    value, start, time = (
        _number(written),
        _whole(number.get("startTimeUnixNano", 0)),
        _whole(number.get("timeUnixNano", 0)),
    )
    attributes = attributes_of(_pairs(number))
    if value is None or start is None or time is None or attributes is None:
        tally.refuse("a data point has a value, time or attribute that cannot be read")
        return None
    return Point(place, attributes, float(value), temporality, start, time)


def _number(value: object) -> float | None:
    """A number, or a text of one; NaN and infinities by the names of protobuf's JSON. None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        if len(value) > _LONGEST_NUMBER or not value.isascii() or "_" in value:
            return None
        try:
            return int(value) if value.lstrip("-").isdecimal() else float(value)
        except ValueError:
            return None
    return value


def _whole(value: object) -> int | None:
    """A whole number of 64 bits without a sign; None for anything else."""
    number: object = _number(value)
    return number if isinstance(number, int) and 0 <= number < 2**64 else None


def _pairs(holder: Mapping[str, Any]) -> Iterator[tuple[str, str | float | None]]:
    attributes = holder.get("attributes") or []
    if not isinstance(attributes, list) or len(attributes) > MOST_ATTRIBUTES:
        yield "client_id", None  # refuses what they are of
        return
    for attribute in attributes:
        if isinstance(attribute, dict) and isinstance(attribute.get("key"), str):
            value = attribute.get("value")
            yield attribute["key"], _value(value) if isinstance(value, dict) else None


def _value(value: Mapping[str, Any]) -> str | float | None:
    if isinstance(text := value.get("stringValue"), str):
        return text
    return _number(value.get("intValue", value.get("doubleValue")))
