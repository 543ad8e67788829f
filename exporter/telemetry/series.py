"""Numbers of one pushing client over time: deltas are added up, cumulative numbers and gauges replace the one before.

KIP-714 brokers ask their clients for deltas (ClientMetricsManager), so a counter here begins with the first push that
arrives. A push that is lost is missing from it, and one that comes twice is counted once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from exporter.ingest.admission import MOST_AHEAD_SECONDS
from exporter.telemetry.points import Point, PushedAttribute, Temporality


class SeriesKey(NamedTuple):
    """A metric of one client. ``who`` is a client id or thread, ``part`` a topic or task, "" where it has none."""

    place: PushedAttribute
    who: str
    part: str


class Tracked(NamedTuple):
    """The last number of a series. ``start`` and ``time`` are those of the last point, ``seen`` is monotonic."""

    value: float
    temporality: Temporality
    start: int
    time: int
    seen: float


def is_counter(place: PushedAttribute) -> bool:
    """Return whether the number only grows. ``restore-remaining-records-total`` also falls (TaskMetrics)."""
    return place.attribute.endswith("-total") and not place.attribute.startswith("restore-remaining-")


def problem_of(point: Point, wall: float) -> str:
    """Why the point is refused, "" for a good one. ``wall`` is the receiver's clock in Unix seconds."""
    if max(point.start, point.time) > (wall + MOST_AHEAD_SECONDS) * 1e9:
        return "a point is more than 10 minutes ahead of the clock of this agent"
    if not math.isfinite(point.value):
        return "a counter is not finite" if is_counter(point.place) else ""
    if is_counter(point.place) and point.value < 0:
        return "a counter is negative"
    if point.temporality is Temporality.DELTA and point.time == 0:
        return "a delta has no time"
    return ""


def has_meaning(point: Point) -> bool:
    """Return whether a number follows from the point: not from NaN, Kafka's "no value yet", and not from the change of
    a number whose beginning is unknown.
    """
    return math.isfinite(point.value) and (is_counter(point.place) or point.temporality is not Temporality.DELTA)


def following(before: Tracked | None, point: Point, now: float) -> Tracked | None:
    """The series after a point; None where the point repeats, or is older than, what is counted. The sum of finite
    deltas may be infinite.
    """
    first = before is None or (before.temporality is Temporality.DELTA) != (point.temporality is Temporality.DELTA)
    tracked = Tracked(point.value, point.temporality, point.start, point.time, now)
    if first or before is None:
        return tracked
    if point.temporality is Temporality.CUMULATIVE and point.start > before.start > 0:
        return tracked  # a new process, whose clock may be behind that of the one before
    if point.temporality is not Temporality.DELTA:
        return tracked if point.time >= before.time or point.time == 0 else None
    if (point.start, point.time) == (before.start, before.time):
        return None
    # Intervals of one client follow each other without a gap, also where its clock was set back.
    if (point.start or point.time - 1) < before.time:
        return None
    return tracked._replace(value=before.value + point.value)
