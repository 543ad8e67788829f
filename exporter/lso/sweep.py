"""The sweep: every partition is read once in an interval, a part of them at each read.

No I/O; the present is an argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice

from exporter.model import TopicPartition


class Sweep:
    """The partitions in turn: all are read in ``seconds``, with a read each ``interval`` seconds."""

    def __init__(self, seconds: float, interval: float) -> None:
        self._seconds, self._interval = seconds, interval
        self._least = 1 / max(1, math.floor(seconds / interval))  # a read a little early must not put off the last part
        self._order: tuple[TopicPartition, ...] = ()
        self._next = 0
        self._due = 0
        self._read_at: float | None = None
        self._at = 0.0

    def of(self, partitions: Iterable[TopicPartition]) -> None:
        """Sweep these from now on; those of a topic side by side."""
        self._order = tuple(partitions)
        self._next %= max(1, len(self._order))

    def due(self, now: float) -> frozenset[TopicPartition]:
        """The partitions to read at ``now`` (monotonic): the share of all that an interval is, or the time since
        ``read`` where that is longer, or less than half of an interval.
        """
        since = self._seconds if self._read_at is None else now - self._read_at
        least = self._least if since > self._interval / 2 else 0.0
        self._at, self._due = now, math.ceil(min(1.0, max(least, since / self._seconds)) * len(self._order))
        ahead = islice(self._order, self._next, self._next + self._due)
        again = islice(self._order, max(0, self._next + self._due - len(self._order)))
        return frozenset((*ahead, *again))

    def read(self) -> None:
        """Note that those of the last ``due`` were requested. Without that they are due again."""
        self._read_at = self._at
        self._next = (self._next + self._due) % max(1, len(self._order))
