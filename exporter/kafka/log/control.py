"""The control batches of partitions: the COMMIT and ABORT markers that transactions end with (EndTransactionMarker).

Batches are read by Fetch, read_uncommitted; of those with records only the header is looked at. The layout of a control
record is in KIP-98: its key has a version and the type, its value a version and the coordinator's epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka.record.default_records import DefaultRecordBatch

from exporter.kafka.faults import refusal
from exporter.kafka.log.batches import UNREADABLE, batches, fetch_request, records_of
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.routing import BrokerAccess
from exporter.model import Deadline, Fault, Reason, TopicPartition

ABORT, COMMIT = 0, 1
FETCH_BYTES = 8 << 20
"""Read at once of one partition."""
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class OffsetRange(NamedTuple):
    """Offsets of one partition, from ``start`` to before ``end``; ``cut``: retention may have taken some before."""

    start: int
    end: int
    cut: bool = False


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

    ``cut``: retention may have deleted earlier records. ``first_ms`` is the timestamp of the first batch, -1 when there
    was none. ``reached`` is the offset after the last one read; ``fault`` is why reading stopped before the end, None
    otherwise.
    """

    start: int
    cut: bool = False
    markers: list[Marker] = field(default_factory=list)
    first_ms: int = -1
    reached: int = 0
    fault: Fault | None = None


def read_markers(
    client: BrokerAccess,
    metadata: Metadata,
    ranges: Mapping[TopicPartition, OffsetRange],
    deadline: Deadline,
    advance: Callable[[int], object] = lambda _: None,
) -> dict[TopicPartition, PartitionMarkers]:
    """The markers of these ranges of offsets, one partition after the other.

    ``advance`` is called with the number of offsets passed. A read error is a fault of its partition.
    """
    found = {}
    for partition, (start, end, cut) in ranges.items():
        own = found[partition] = PartitionMarkers(start, cut, reached=start)
        while own.fault is None and own.reached < end:
            before = own.reached
            _read_on(client, metadata, partition, own, end, deadline)
            advance(own.reached - before)
    return found


def _read_on(
    client: BrokerAccess, metadata: Metadata, place: TopicPartition, own: PartitionMarkers, end: int, deadline: Deadline
) -> None:
    leader = metadata.leader(*place)
    if leader is None or deadline.over:
        reason = Reason.NO_LEADER if leader is None else Reason.TIMEOUT
        own.fault = Fault(reason, f"{place} at {own.reached}: {'no leader' if leader is None else 'not read in time'}")
        return
    request = fetch_request({place: own.reached}, deadline, FETCH_BYTES, FETCH_BYTES)
    answer = client.ask({leader: request}, deadline)[leader]
    if isinstance(answer, Fault):
        own.fault = answer
        return
    for each in (part for topic in answer.responses for part in topic.partitions):
        if each.error_code:
            own.fault = refusal(f"Fetch of {place}", each.error_code, f"READ on Topic:{place.topic}")
            return
        passed = own.reached
        try:
            for batch in batches(bytes(each.records or b"")):
                _take(own, batch, end)
        except UNREADABLE:
            own.fault = Fault(Reason.MALFORMED, f"{place} at {own.reached}: a batch that cannot be read")
            return
        if own.reached == passed and each.high_watermark >= end > own.reached:
            # Compaction may have deleted the last batches of the range: no records are left up to its end.
            if each.records:
                own.fault = Fault(Reason.MALFORMED, f"{place} at {passed}: a batch larger than {FETCH_BYTES} bytes")
                return
            own.reached = end


def _take(own: PartitionMarkers, batch: DefaultRecordBatch, end: int) -> None:
    if batch.last_offset < own.reached or batch.base_offset >= end:
        own.reached = max(own.reached, min(batch.base_offset, end))
        return
    own.reached = min(end, batch.last_offset + 1)
    if own.first_ms < 0:
        own.first_ms = batch.max_timestamp
    if not batch.is_control_batch:
        return
    for record in records_of(batch):
        _, kind = _KEY.unpack_from(record.key or b"")
        if kind in {ABORT, COMMIT}:
            epoch = _VALUE.unpack_from(record.value)[1] if record.value else -1
            own.markers.append(
                Marker(record.offset, record.timestamp, batch.producer_id, batch.producer_epoch, kind == COMMIT, epoch)
            )
