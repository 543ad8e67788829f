"""A histogram of durations."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from itertools import accumulate
from typing import Any

from exporter.model import Distribution, Metric


class Histogram:
    """A histogram. Cumulative buckets are computed on request: observations are more frequent."""

    __slots__ = ("_bounds", "_counts", "_edges", "_total")

    def __init__(self, metric: Metric) -> None:
        self._bounds = metric.buckets
        self._edges = _as_floats(metric.buckets)
        self._counts = [0] * (len(metric.buckets) + 1)
        self._total = 0.0

    def observe(self, ms: int) -> None:
        """Observe a duration in milliseconds. A negative one, from clocks that differ, is ignored."""
        if ms > 0:
            seconds = ms / 1000
            self._counts[bisect_left(self._edges, seconds)] += 1
            self._total += seconds
        else:
            self._counts[0] += 1

    def observe_seconds(self, seconds: float) -> None:
        """Observe a duration in seconds, measured by one monotonic clock."""
        self._counts[bisect_left(self._edges, seconds)] += 1
        self._total += seconds

    def saved(self) -> list[Any]:
        """The counts of the buckets and the sum, for ``restore``."""
        return [self._counts, self._total]

    def restore(self, saved: list[Any]) -> None:
        """Continue from saved values. Raises ValueError for other buckets."""
        counts, total = saved
        if len(counts) != len(self._counts):
            raise ValueError(f"a histogram of {len(counts)} buckets, and there are {len(self._counts)}")
        self._counts = [int(each) for each in counts]
        self._total = float(total)

    def value(self) -> Distribution:
        *reached, count = map(float, accumulate(self._counts))
        return Distribution(tuple(zip(self._bounds, reached, strict=True)), count, self._total)


@cache
def _as_floats(bounds: tuple[float, ...]) -> tuple[float, ...]:
    """The same numbers, some of which may be written as int: comparing a float with an int takes twice as long."""
    return tuple(map(float, bounds))
