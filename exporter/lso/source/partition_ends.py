"""Both ends of partitions, of which only what may have changed is requested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exporter.kafka.client import ClusterClient
from exporter.kafka.faults import BROKEN
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Ends, Isolation, end_offsets, ends_of
from exporter.lso.readings import Reading
from exporter.model import Deadline, TopicPartition

HIGH_SECONDS = 15.0
"""Seconds between two requests for the high watermarks above LSOs that do not move: a usual scrape interval."""
SLACK = 1.0
"""Seconds by which a read may be early."""


class PartitionEnds:
    """Reads partitions at intervals. Not thread-safe: for one worker.

    While one leader leads, neither end falls, and the last stable offset (LSO) is at most the high watermark
    (UnifiedLog.scala). So an LSO that did not move is below the high watermark if it was before; and where the high
    watermark did not move, an LSO that had reached it is still there. The other end is not requested. A new leader
    may have truncated the log: after each election both ends are read.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._metadata: Metadata | None = None
        self._elected: set[TopicPartition] = set()  # whose both ends were not read since
        self._high_at = float("-inf")

    def read(
        self,
        metadata: Metadata,
        partitions: frozenset[TopicPartition],
        readings: Mapping[TopicPartition, Reading],
        standing: Iterable[TopicPartition],
        deadline: Deadline,
        now: float,
    ) -> Ends:
        """Both ends of these partitions; ``now`` is monotonic. ``standing``: whose LSO was below the high watermark.

        The high watermark above an LSO that did not move is read again by the first read HIGH_SECONDS after the last.
        """
        self._note_elections(metadata)
        held = [partition for partition in standing if partition in partitions]
        level = partitions.difference(held, self._elected) & readings.keys()
        others = partitions.difference(held, level)
        high_due = now - self._high_at >= HIGH_SECONDS - SLACK
        if high_due:
            self._high_at = now

        client, committed = self._client, Isolation.READ_COMMITTED
        both_ends = (*held, *others)
        stable = end_offsets(client, metadata, both_ends, committed, deadline)
        high = {
            partition: known.high_watermark
            for partition in (() if high_due else held)
            if stable.values.get(partition) == (known := readings[partition]).last_stable_offset
            and partition not in self._elected
            and partition not in stable.asked_again
        }
        lost = {metadata.leader(*partition) for partition, fault in stable.unanswered.items() if fault.reason in BROKEN}
        wanted = [partition for partition in both_ends if partition in stable.values and partition not in high]
        wanted += [partition for partition in level if not lost or metadata.leader(*partition) not in lost]
        newest = end_offsets(client, metadata, wanted, Isolation.READ_UNCOMMITTED, deadline)
        # The partitions of the request and not of the answer, which need not stay in memory beside them.
        high |= {partition: newest.values[partition] for partition in wanted if partition in newest.values}
        moved = [
            partition
            for partition in level & newest.values.keys()
            if newest.values[partition] != readings[partition].high_watermark or partition in newest.asked_again
        ]
        again = end_offsets(client, metadata, moved, committed, deadline)

        both = stable.values | {
            partition: readings[partition].last_stable_offset for partition in level.difference(moved)
        }
        for partition in moved:
            if (offset := again.values.get(partition)) is None:
                del high[partition]
            else:
                both[partition], high[partition] = offset, max(offset, high[partition])
        self._elected -= high.keys()
        return ends_of(both, high, (stable, newest, again))

    def _note_elections(self, metadata: Metadata) -> None:
        before, self._metadata = self._metadata, metadata
        if before is None or before.topics is metadata.topics:
            return
        for topic, partitions in metadata.topics.items():
            known = before.topics.get(topic)
            if known is not partitions and known != partitions:
                led = {} if known is None else {number: reading.leader_epoch for number, reading in known.items()}
                self._elected |= {
                    TopicPartition(topic, number)
                    for number, partition in partitions.items()
                    if partition.leader_epoch != led.get(number)
                }
