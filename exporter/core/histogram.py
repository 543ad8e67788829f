"""A histogram of durations."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from exporter.model import Distribution, Metric


class Histogram:
    """A histogram. Cumulative buckets are computed on request: observations are more frequent."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, metric: Metric) -> None:
        self._bounds = metric.buckets
        self._counts = [0] * (len(metric.buckets) + 1)
        self._total = 0.0

    def observe(self, ms: int) -> None:
        """Observe a duration in milliseconds. A negative one, from clocks that differ, is ignored."""
        if ms > 0:
            seconds = ms / 1000
            self._counts[bisect_left(self._bounds, seconds)] += 1
            self._total += seconds
        else:
            self._counts[0] += 1

    def observe_seconds(self, seconds: float) -> None:
        """Observe a duration in seconds, measured by one monotonic clock."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
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
        steps = []
        count = 0
        for bound, more in zip(self._bounds, self._counts, strict=False):
            count += more
            steps.append((bound, float(count)))
        return Distribution(tuple(steps), float(count + self._counts[-1]), self._total)
