"""The control batches of partitions: the COMMIT and ABORT markers that transactions end with (EndTransactionMarker).

Batches are read by Fetch, read_uncommitted; of those with records only the header is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.log.batches import UNREADABLE, Marker, batches, markers_of
from exporter.kafka.log.fetch import fetch_partition
from exporter.kafka.log.record_batch import batch_at
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation, start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition

FETCH_BYTES = 8 << 20
"""Read at once of one partition."""
BEGINS_MS = 10_000
"""From the first marker on, ``begins`` is gathered for so long: later transactions are newer than that marker, with
twice the difference that is allowed of two clocks.
"""
LOOK_BACK = 1_000
"""Offsets before what was read in which a marker is looked for."""
MOST_READS = 32
"""Reads of one search: 256 MiB."""


class OffsetRange(NamedTuple):
    """Offsets of one partition, from ``start`` to before ``end``."""

    start: int
    end: int


@dataclass(slots=True)
class PartitionMarkers:
    """Records read of one partition, from ``start``, the first offset requested.

    ``cut``: retention may have deleted earlier records, or the topic was made again. ``first_ms`` is the time of the
    first marker, by its leader's clock, -1 when there was none. ``begins`` are the transactions that have records in
    the first seconds of it: producer id, its epoch, and the timestamp of the first batch. ``reached`` is the offset
    after the last one read; ``fault`` is why reading stopped before the end, None otherwise. ``since_ms``: the time
    from which on no marker is missing that was read, Unix milliseconds.
    ``leader_epoch`` is that of the last batch read, -1 before the first; ``confirmed`` the one of the leader whose log
    is known to have what was read.
    """

    start: int
    cut: bool = False
    markers: list[Marker] = field(default_factory=list)
    first_ms: int = -1
    reached: int = 0
    fault: Fault | None = None
    since_ms: int = 0
    leader_epoch: int = -1
    confirmed: int = -1
    begins: list[tuple[int, int, int]] = field(default_factory=list)
    begun: dict[int, int] | None = field(default_factory=dict)
    """The producer epochs of what is open, by producer id; None once ``begins`` is whole."""
    looked_back: bool = False

    def marked(self, producer_id: int, written_ms: int) -> None:
        """Note the time of a marker."""
        if self.first_ms < 0:
            self.first_ms = written_ms
        if self.begun is None:
            return
        self.begun.pop(producer_id, None)
        if written_ms > self.first_ms + BEGINS_MS:
            self.begun = None


def read_markers(
    client: BrokerAccess,
    metadata: Metadata,
    ranges: Mapping[TopicPartition, OffsetRange],
    deadline: Deadline,
    advance: Callable[[int], object] = lambda _: None,
    most_bytes: float = math.inf,
) -> dict[TopicPartition, PartitionMarkers]:
    """The markers of these ranges of offsets, one partition after the other.

    ``advance`` is called with the number of offsets passed. A read error is a fault of its partition, and so is that
    ``most_bytes`` were read.
    """
    found = {}
    for partition, (start, end) in ranges.items():
        own = found[partition] = PartitionMarkers(start, cut=True, reached=start)
        while own.fault is None and own.reached < end:
            if most_bytes <= 0:
                own.fault = Fault(Reason.TIMEOUT, f"{partition}: not read, the limit of bytes was reached")
                break
            before = own.reached
            most_bytes -= _read_on(client, metadata, partition, own, end, deadline)
            advance(own.reached - before)
    return found


def look_back(
    client: BrokerAccess, metadata: Metadata, read: Mapping[TopicPartition, PartitionMarkers], deadline: Deadline
) -> None:
    """Look for a marker before what was read of each partition: the topic is not younger than that."""
    starts = start_offsets(client, metadata, read, deadline).values
    ranges = {
        place: OffsetRange(max(log_start, read[place].start - LOOK_BACK), read[place].start)
        for place, log_start in starts.items()
    }
    for place, found in read_markers(client, metadata, ranges, deadline).items():
        own = read[place]
        own.looked_back = True
        if older := [marker.timestamp_ms for marker in found.markers if marker.offset < own.start]:
            own.first_ms = older[0]


class NextMarker(NamedTuple):
    """The marker that was looked for, and the offset up to which there is no other; why it ended early, or None."""

    marker: Marker | None
    reached: int
    fault: Fault | None = None


def next_marker(
    client: BrokerAccess,
    metadata: Metadata,
    place: TopicPartition,
    producer_id: int,
    span: OffsetRange,
    deadline: Deadline,
) -> NextMarker:
    """The first marker of a producer id in a range of offsets, within ``MOST_READS`` reads."""
    own = PartitionMarkers(span.start, reached=span.start)
    for _ in range(MOST_READS):
        if own.fault is not None or own.reached >= span.end:
            break
        _read_on(client, metadata, place, own, span.end, deadline)
        for marker in own.markers:
            if marker.producer_id == producer_id and marker.offset >= span.start:
                return NextMarker(marker, own.reached)
        own.markers.clear()
    return NextMarker(None, own.reached, own.fault)


def _read_on(
    client: BrokerAccess, metadata: Metadata, place: TopicPartition, own: PartitionMarkers, end: int, deadline: Deadline
) -> int:
    """Read once. Returns the number of bytes."""
    part = fetch_partition(client, metadata, place, own.reached, FETCH_BYTES, Isolation.READ_UNCOMMITTED, deadline)
    if isinstance(part, Fault):
        own.fault = part
        return 0
    passed, data = own.reached, bytes(part.records or b"")
    try:
        take_batches(own, data, end)
    except UNREADABLE:
        own.fault = Fault(Reason.MALFORMED, f"{place} at {own.reached}: a batch that cannot be read")
        return len(data)
    if own.reached == passed and part.high_watermark >= end > own.reached:
        # Compaction may have deleted the last batches of the range: no records are left up to its end.
        if part.records:
            own.fault = Fault(Reason.MALFORMED, f"{place} at {passed}: a batch larger than {FETCH_BYTES} bytes")
        else:
            own.reached = end
    return len(data)


def take_batches(own: PartitionMarkers, data: bytes, end: int) -> None:
    """Take the batches of an answer up to an offset. Raises one of ``UNREADABLE``."""
    for batch in batches(data):
        last = batch.base_offset + batch.last_delta
        if last < own.reached or batch.base_offset >= end:
            own.reached = max(own.reached, min(batch.base_offset, end))
            continue
        own.reached = min(end, last + 1)
        own.leader_epoch = batch.leader_epoch
        if batch.control:
            for marker in markers_of(batch):
                own.marked(marker.producer_id, marker.timestamp_ms)
                own.markers.append(marker)
        elif own.begun is not None and batch.transactional:
            who = batch.producer_id, batch.producer_epoch
            if own.begun.get(who[0]) != who[1]:
                own.begun[who[0]] = who[1]
                own.begins.append((*who, batch.max_ms))


# --- The open records of a producer ---

REACHES = (1_000, 20_000)
"""Offsets below the first open record that are read for the producer's last marker, the shorter distance first."""


class OpenTrace(NamedTuple):
    """The open records of a producer in the partition's log.

    ``first_epoch`` is the producer epoch of the first one, None where it could not be read. ``marker`` is the last
    marker of the producer below it, as far as the partition was read; ``unmarked``: it was read from offset 0 and has
    none.
    """

    first_epoch: int | None = None
    marker: Marker | None = None
    unmarked: bool = False


def read_trace(
    client: BrokerAccess,
    metadata: Metadata,
    place: TopicPartition,
    producer_id: int,
    start_offset: int,
    deadline: Deadline,
) -> OpenTrace:
    """Read the partition at the first open record, and backwards from it. What cannot be read is left out."""
    at = batch_at(client, metadata, place, start_offset, Isolation.READ_UNCOMMITTED, deadline)
    first = None if isinstance(at, Fault) else at.batch
    first_epoch = first.producer_epoch if first is not None and first.producer_id == producer_id else None
    log_start = start_offsets(client, metadata, [place], deadline).values.get(place)
    if log_start is None or log_start > start_offset:
        return OpenTrace(first_epoch)
    end = start_offset
    for reach in REACHES:
        start = max(log_start, start_offset - reach)
        read = read_markers(client, metadata, {place: OffsetRange(start, end)}, deadline)[place]
        own = [marker for marker in read.markers if marker.producer_id == producer_id and marker.offset < start_offset]
        if read.fault is not None:
            break
        if own:
            return OpenTrace(first_epoch, own[-1])
        if start == log_start:
            return OpenTrace(first_epoch, None, unmarked=log_start == 0)
        end = start
    return OpenTrace(first_epoch)
