"""Whether the clocks of leaders of partitions are that of the coordinators, by when new markers came. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable

from exporter.kafka.log.control import Marker
from exporter.transactions.decided.fate import CLOCK_SLACK_SECONDS


class LeaderClocks:
    """The distance of our monotonic clock from that of each broker, between two bounds.

    A marker is written between the read that did not have it and the one that has it.
    """

    def __init__(self) -> None:
        self._bounds: dict[int, tuple[float, float]] = {}

    def came(self, broker: int, markers: Iterable[Marker], after: float, at: float) -> None:
        """Note that a broker wrote these markers between two monotonic instants."""
        for marker in markers:
            written = marker.timestamp_ms / 1000
            least, most = self._bounds.get(broker, (-math.inf, math.inf))
            least, most = max(least, after - written), min(most, at - written)
            # Its clock was set, or a marker waited to be replicated.
            self._bounds[broker] = (least, most) if least <= most else (after - written, at - written)

    def is_near(self, broker: int | None, distance: float | None) -> bool:
        """Return whether a broker's clock is less than the allowed difference from one of this distance."""
        if broker is None or distance is None or broker not in self._bounds:
            return False
        least, most = self._bounds[broker]
        return distance - CLOCK_SLACK_SECONDS < least and most < distance + CLOCK_SLACK_SECONDS
