"""The partitions that transactions name: topics, and partitions of ``__consumer_offsets``. No I/O."""

from __future__ import annotations

from exporter.kafka.requests.metadata import CONSUMER_OFFSETS
from exporter.transactions.machine.entries import Ended, decode_section

MOST_LISTS = 10_000
MOST_BYTES = 4 * 1024 * 1024
"""Size of the cache of known partition lists; a full cache is cleared. A list may have thousands of partitions."""


class PartitionLists:
    """Decodes each list once, as the same lists recur often."""

    __slots__ = ("_bytes", "known", "offsets", "topics")

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self._bytes = 0
        self.offsets: dict[bytes, frozenset[int]] = {}
        """Of the known lists those with partitions of ``__consumer_offsets``, with these."""
        self.topics: set[str] = set()
        """All that finished transactions wrote to."""

    def learn(self, transaction: Ended) -> None:
        """Note the partitions of a list that is not known."""
        if len(self.known) >= MOST_LISTS or self._bytes >= MOST_BYTES:
            self.known.clear()
            self.offsets.clear()
            self._bytes = 0
        self.known.add(transaction.section)
        self._bytes += len(transaction.section)
        partitions = decode_section(transaction.section, transaction.layout)
        self.topics.update(partition.topic for partition in partitions)
        if offsets := frozenset(partition.partition for partition in partitions if partition.topic == CONSUMER_OFFSETS):
            self.offsets[transaction.section] = offsets
