"""The markers of one producer id in one partition, and those that its decisions ask for: both by epoch and type.

A lookup is a dictionary's, and a bisection where transactions share an epoch: comparing all decisions of a producer
with all its markers takes time that grows with their number, not with its square.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from exporter.kafka.log.batches import Marker

_TIMESTAMP = attrgetter("timestamp_ms")


class MarkerWindow(NamedTuple):
    """The markers that a decision asks for: of this type and epoch, with a timestamp in this closed interval."""

    epoch: int
    commit: bool
    first_ms: float
    last_ms: float


class MarkerIndex:
    """Markers of one producer id in one partition."""

    def __init__(self, markers: Iterable[Marker]) -> None:
        self._found: dict[tuple[int, bool], list[Marker]] = {}
        shared = set()
        for marker in markers:
            key = marker.producer_epoch, marker.commit
            known = self._found.get(key)
            if known is None:
                self._found[key] = [marker]
            else:
                known.append(marker)
                shared.add(key)
        for key in shared:
            self._found[key].sort(key=_TIMESTAMP)

    def any_of(self, epochs: Collection[int], *, commit: bool) -> bool:
        """Return whether there is a marker of this type with one of these epochs."""
        return any((epoch, commit) in self._found for epoch in epochs)

    def between(self, epochs: Collection[int], first_ms: float, last_ms: float, *, commit: bool) -> list[Marker]:
        """The markers of this type and these epochs with a timestamp in this interval, in the order of offsets."""
        found: list[Marker] = []
        for epoch in epochs:
            markers = self._found.get((epoch, commit))
            if markers:
                first = bisect_left(markers, first_ms, key=_TIMESTAMP)
                found += markers[first : bisect_right(markers, last_ms, key=_TIMESTAMP)]
        return sorted(found) if len(found) > 1 else found


class AskedMarkers:
    """The markers that the decisions of one producer id ask for in one partition."""

    def __init__(self, windows: Iterable[MarkerWindow]) -> None:
        found: defaultdict[tuple[int, bool], list[tuple[float, float]]] = defaultdict(list)
        for window in windows:
            found[window.epoch, window.commit].append((window.first_ms, window.last_ms))
        self._firsts: dict[tuple[int, bool], Sequence[float]] = {}
        self._latest: dict[tuple[int, bool], Sequence[float]] = {}
        for key, intervals in found.items():
            intervals.sort()
            latest: list[float] = []
            for _, last_ms in intervals:
                latest.append(max(last_ms, latest[-1]) if latest else last_ms)
            self._firsts[key] = [first_ms for first_ms, _ in intervals]
            self._latest[key] = latest

    def asks_for(self, marker: Marker) -> bool:
        """Return whether a decision asks for this marker."""
        key = marker.producer_epoch, marker.commit
        begun = bisect_right(self._firsts.get(key, ()), marker.timestamp_ms)
        return begun > 0 and self._latest[key][begun - 1] >= marker.timestamp_ms
