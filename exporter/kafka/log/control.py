"""The control batches of partitions: the COMMIT and ABORT markers that transactions end with (EndTransactionMarker).

Batches are read by Fetch, read_uncommitted; of those with records only the header is looked at. The layout of a control
record is in KIP-98: its key has a version and the type, its value a version and the coordinator's epoch. Headers are
taken apart here, as the hot path of ``audit markers``; the library decodes unusual control batches only.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.record.default_records import DefaultRecordBatch

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.log.batches import UNREADABLE, records_of
from exporter.kafka.log.partition_fetch import fetch_partition
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation, start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition

ABORT, COMMIT = 0, 1
_TYPES = frozenset({ABORT, COMMIT})
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
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_SIZE = struct.Struct(">qi")
_HEADER = struct.Struct(">qiib4xhiqqqh")
"""DefaultRecordBatch.java: base offset, length, leader epoch, magic, attributes, last offset delta, timestamps of the
first and the newest record, producer id and epoch.
"""
_MAGIC = 2
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_LOG_APPEND_TIME = 0x08
_BODY = struct.Struct(">5shhB2xi")
"""The record of a control batch: all before its key, key version, type, length of the value, coordinator epoch."""
_BODY_AT = 61
_BODY_START = b"\x20\x00\x00\x00\x08"
"""16 bytes that follow, no attributes, both deltas 0, a key of 4 bytes."""
_VALUE_LENGTH = 12
_USUAL_SIZE = 78
_FROM_LENGTH = 12
_OLD_MAGIC_AT = 16


class OffsetRange(NamedTuple):
    """Offsets of one partition, from ``start`` to before ``end``."""

    start: int
    end: int


class Marker(NamedTuple):
    """One control record. ``timestamp_ms`` is Unix milliseconds by the clock of the partition's leader."""

    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


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
    """Take the batches of an answer, the last of which may be cut off; those of before Kafka 0.11 have no producer.

    Raises one of ``UNREADABLE``.
    """
    at, size = 0, len(data)
    while at + _FROM_LENGTH <= size:
        _, length = _SIZE.unpack_from(data, at)
        after = at + _FROM_LENGTH + length
        if length < 0:
            raise ValueError("a batch of negative length")
        if after > size:
            return
        if after - at > _OLD_MAGIC_AT and data[at + _OLD_MAGIC_AT] == _MAGIC:
            _take(own, data, at, after, end)
        at = after


def _take(own: PartitionMarkers, data: bytes, at: int, after: int, end: int) -> None:
    base, _, leader_epoch, _, attributes, last_delta, first_ms, max_ms, producer_id, epoch = _HEADER.unpack_from(
        data, at
    )
    last = base + last_delta
    if last < own.reached or base >= end:
        own.reached = max(own.reached, min(base, end))
        return
    own.reached = min(end, last + 1)
    own.leader_epoch = leader_epoch
    if not attributes & _CONTROL:
        if own.begun is not None and attributes & _TRANSACTIONAL and own.begun.get(producer_id) != epoch:
            own.begun[producer_id] = epoch
            own.begins.append((producer_id, epoch, max_ms))
        return
    if after - at == _USUAL_SIZE:
        start, _, kind, length, coordinator_epoch = _BODY.unpack_from(data, at + _BODY_AT)
        if start == _BODY_START and length == _VALUE_LENGTH:
            if kind in _TYPES:
                written_ms = max_ms if attributes & _LOG_APPEND_TIME else first_ms
                own.marked(producer_id, written_ms)
                own.markers.append(Marker(base, written_ms, producer_id, epoch, kind == COMMIT, coordinator_epoch))
            return
    for marker in _decoded(data[at:after], producer_id, epoch):
        own.marked(producer_id, marker.timestamp_ms)
        own.markers.append(marker)


def _decoded(batch: bytes, producer_id: int, epoch: int) -> Iterator[Marker]:
    """The markers of a control batch in any form. Raises one of ``UNREADABLE``."""
    for record in records_of(DefaultRecordBatch(batch)):
        _, kind = _KEY.unpack_from(record.key or b"")
        if kind in _TYPES:
            coordinator_epoch = _VALUE.unpack_from(record.value)[1] if record.value else -1
            yield Marker(record.offset, record.timestamp, producer_id, epoch, kind == COMMIT, coordinator_epoch)
