"""A histogram of durations."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import TypeAlias

from exporter.model import Distribution, Metric

BucketCounts: TypeAlias = tuple[Sequence[int], float]
"""How many observations are in each bucket, those above the last bound included; and their sum."""


class Histogram:
    """A histogram. Cumulative buckets are computed on request: observations are more frequent."""

    __slots__ = ("_bounds", "_counts", "_edges", "_edges_ms", "_ms", "_total")

    def __init__(self, metric: Metric) -> None:
        self._bounds = metric.buckets
        self._edges = _as_floats(metric.buckets)
        self._edges_ms = _in_whole_ms(metric.buckets)
        self._counts = [0] * (len(metric.buckets) + 1)
        self._total = 0.0  # seconds, without ``_ms``
        self._ms = 0

    def observe(self, ms: int) -> None:
        """Observe a duration in milliseconds. A negative one, from clocks that differ, counts as 0."""
        if ms > 0:
            self._counts[bisect_left(self._edges_ms, ms)] += 1
            self._ms += ms
        else:
            self._counts[0] += 1

    def observe_seconds(self, seconds: float) -> None:
        """Observe a duration in seconds, measured by one monotonic clock."""
        self._counts[bisect_left(self._edges, seconds)] += 1
        self._total += seconds

    def counted(self) -> BucketCounts:
        """The observations up to now."""
        return tuple(self._counts), self._total + self._ms / 1000

    def restore(self, counted: BucketCounts) -> None:
        """Continue from ``counted``, or what JSON made of it. Raises ValueError for other buckets."""
        counts, total = counted
        if len(counts) != len(self._counts):
            raise ValueError(f"a histogram of {len(counts)} buckets, and there are {len(self._counts)}")
        self._counts = [int(count) for count in counts]
        self._total, self._ms = float(total), 0

    def value(self) -> Distribution:
        return distribution(self._bounds, self.counted())


def distribution(bounds: Sequence[float], counted: BucketCounts) -> Distribution:
    """Return the counts of a histogram with these upper bounds as the value of a sample."""
    counts, total = counted
    *reached, count = map(float, accumulate(counts))
    return Distribution(tuple(zip(bounds, reached, strict=True)), count, total)


@cache
def _as_floats(bounds: tuple[float, ...]) -> tuple[float, ...]:
    """The same numbers, some of which may be written as int: comparing a float with an int takes twice as long."""
    return tuple(map(float, bounds))


@cache
def _in_whole_ms(bounds: tuple[float, ...]) -> tuple[int, ...]:
    """The largest whole number of milliseconds in each of these seconds: what is above it is above the bound."""
    return tuple(math.floor(bound * 1000 + 1e-6) for bound in bounds)
