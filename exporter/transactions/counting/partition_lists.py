"""What the transactions of applications name: topics, and partitions of ``__consumer_offsets``. No I/O."""

from __future__ import annotations

from exporter.kafka.requests.metadata import CONSUMER_OFFSETS
from exporter.transactions.counting.application_counters import ApplicationCounters
from exporter.transactions.machine.entries import Ended, decode_section

MOST_LISTS = 10_000
MOST_BYTES = 4 * 1024 * 1024
"""Size of the cache of known partition lists; a full cache is cleared. A list may have thousands of partitions."""


class PartitionLists:
    """Decodes each list once, as the same lists recur often."""

    __slots__ = ("_bytes", "known", "topics")

    def __init__(self) -> None:
        self.known: set[tuple[ApplicationCounters | None, bytes]] = set()
        """The lists that are noted, each of an application: as an object, because one that went may come back."""
        self._bytes = 0
        self.topics: set[str] = set()
        """All that finished transactions wrote to."""

    def learn(self, transaction: Ended, application: ApplicationCounters | None) -> None:
        """Note the partitions of a list that is not known of this application."""
        if len(self.known) >= MOST_LISTS or self._bytes >= MOST_BYTES:
            self.known.clear()
            self._bytes = 0
        self.known.add((application, transaction.section))
        self._bytes += len(transaction.section)
        partitions = decode_section(transaction.section, transaction.layout)
        topics = {partition.topic for partition in partitions}
        self.topics |= topics
        if application is not None:
            application.topics |= topics
            application.offset_partitions.update(
                partition.partition for partition in partitions if partition.topic == CONSUMER_OFFSETS
            )
