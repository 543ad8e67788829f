"""What the transactions of applications name: topics, and partitions of ``__consumer_offsets``. No I/O."""

from __future__ import annotations

from exporter.kafka.requests.metadata import CONSUMER_OFFSETS
from exporter.model import TopicPartition
from exporter.transactions.counting.application_counters import ApplicationCounters

MOST_LISTS = 10_000
MOST_NAMES = 100_000
"""Partitions of the known lists together; a full cache is cleared. A list may have thousands of partitions."""


class PartitionLists:
    """Looks at each list once, as the same lists recur often."""

    __slots__ = ("_names", "known", "topics")

    def __init__(self) -> None:
        self.known: set[tuple[ApplicationCounters | None, frozenset[TopicPartition]]] = set()
        """The lists that are noted, each of an application: as an object, because one that went may come back."""
        self._names = 0
        self.topics: set[str] = set()
        """All that finished transactions wrote to."""

    def learn(self, partitions: frozenset[TopicPartition], application: ApplicationCounters | None) -> None:
        """Note the partitions of a list that is not known of this application."""
        if len(self.known) >= MOST_LISTS or self._names >= MOST_NAMES:
            self.known.clear()
            self._names = 0
        self.known.add((application, partitions))
        self._names += len(partitions)
        topics = {partition.topic for partition in partitions}
        self.topics |= topics
        if application is not None:
            application.topics |= topics
            application.offset_partitions.update(
                partition.partition for partition in partitions if partition.topic == CONSUMER_OFFSETS
            )
