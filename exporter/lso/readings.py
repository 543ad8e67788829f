"""The last reading of each partition. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from typing import NamedTuple

from exporter.model import TopicPartition


class Reading(NamedTuple):
    """The offsets of a partition by one read."""

    last_stable_offset: int
    high_watermark: int

    @property
    def lag(self) -> int:
        return max(0, self.high_watermark - self.last_stable_offset)


class Readings(dict[TopicPartition, Reading]):
    """By partition. Written by ``note``, ``renew`` and ``drop`` alone."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[TopicPartition, float] = {}
        """The monotonic instant of the last request for each partition. Its offsets are of that instant or later. The
        instant of the answer is not used: a process that was stopped before it took the answer would date it too late.
        """
        self.topics: Counter[str] = Counter()
        """How many partitions of each topic have a reading; no topic without one."""
        self._oldest = float("inf")  # no reading is older
        self.version = 0
        """Another number after each ``note``."""

    def note(self, partition: TopicPartition, reading: Reading, at: float) -> None:
        if partition not in self:
            self.topics[partition.topic] += 1
        self.version += 1
        self[partition] = reading
        self.at[partition] = at
        self._oldest = min(self._oldest, at)

    def renew(self, partitions: Iterable[TopicPartition], at: float) -> None:
        """Note that partitions, which all have a reading, were read at this instant too, with the same offsets."""
        self.at.update(dict.fromkeys(partitions, at))
        self._oldest = min(self._oldest, at)

    def drop(self, partition: TopicPartition) -> None:
        if self.pop(partition, None) is not None:
            del self.at[partition]
            self.topics[partition.topic] -= 1
            if not self.topics[partition.topic]:
                del self.topics[partition.topic]

    def before(self, instant: float, but: Container[TopicPartition]) -> list[TopicPartition]:
        """The partitions that were last read before an instant, without those in ``but``. All are looked at only when
        one of them may be.
        """
        if self._oldest >= instant:
            return []
        self._oldest = min(self.at.values(), default=float("inf"))
        return [partition for partition, at in self.at.items() if at < instant and partition not in but]
