"""The last reading of each partition. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import NamedTuple

from exporter.model import TopicPartition


class Reading(NamedTuple):
    """One read of a partition: offsets, and the monotonic instant of the request.

    The offsets are of that instant or later. The instant of the answer is not used: a process that was stopped before
    it took the answer would date it too late.
    """

    last_stable_offset: int
    high_watermark: int
    at: float

    @property
    def lag(self) -> int:
        return max(0, self.high_watermark - self.last_stable_offset)


class Readings(dict[TopicPartition, Reading]):
    """By partition. Written by ``note``, ``renew`` and ``drop`` alone."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: Counter[str] = Counter()
        """How many partitions of each topic have a reading; no topic without one."""
        self._oldest = float("inf")  # no reading is older

    def note(self, partition: TopicPartition, reading: Reading) -> None:
        if partition not in self:
            self.topics[partition.topic] += 1
        self[partition] = reading
        self._oldest = min(self._oldest, reading.at)

    def renew(self, readings: Mapping[TopicPartition, Reading], at: float) -> None:
        """Replace readings of partitions that have one; all are of the instant ``at``."""
        self.update(readings)
        self._oldest = min(self._oldest, at)

    def drop(self, partition: TopicPartition) -> None:
        if self.pop(partition, None) is not None:
            self.topics[partition.topic] -= 1
            if not self.topics[partition.topic]:
                del self.topics[partition.topic]

    def before(self, instant: float, but: Container[TopicPartition]) -> list[TopicPartition]:
        """The partitions that were last read before an instant, without those in ``but``. All are looked at only when
        one of them may be.
        """
        if self._oldest >= instant:
            return []
        self._oldest = min((each.at for each in self.values()), default=float("inf"))
        return [partition for partition, each in self.items() if each.at < instant and partition not in but]
