"""The batch of a partition's log that has a given offset, and the aborted transactions around it.

A read_committed Fetch names the aborted transactions that reach into what it returns (FetchResponse, AbortedIndex): a
transaction whose first offset is at or below the one that was asked for has its marker above it.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.log.batches import UNREADABLE, FetchedBatch, Marker, batches, markers_of, records_of
from exporter.kafka.log.fetch import fetch_partition
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation
from exporter.model import Deadline, Fault, Reason, TopicPartition

FETCH_BYTES = 1 << 20


class RecordBatch(NamedTuple):
    """The batch that covers an offset, by its header.

    ``producer_id`` and ``producer_epoch`` are None without an idempotent producer. ``marker`` is the end of a
    transaction that the batch is, None for any other batch. ``removed``: compaction took the record at the offset and
    left others of the batch, or its header; None where its records cannot be decoded. ``timestamp_ms`` is Unix
    milliseconds, the largest of the batch; ``leader_epoch`` that of the leader that appended it.
    """

    producer_id: int | None
    producer_epoch: int | None
    transactional: bool
    control: bool
    marker: Marker | None
    removed: bool | None
    timestamp_ms: int
    leader_epoch: int


class BatchAtOffset(NamedTuple):
    """``batch`` is None where no batch covers the offset: compaction took it. ``aborted`` are producer ids of the
    transactions with a record at or below the offset and an ABORT marker above it; of a read_committed Fetch only.
    """

    batch: RecordBatch | None
    aborted: frozenset[int] = frozenset()


def batch_at(
    client: BrokerAccess,
    metadata: Metadata,
    place: TopicPartition,
    offset: int,
    isolation: Isolation,
    deadline: Deadline,
) -> BatchAtOffset | Fault:
    """Fetch the batch at an offset that the partition has: 1 MiB or one batch."""
    part = fetch_partition(client, metadata, place, offset, FETCH_BYTES, isolation, deadline)
    if isinstance(part, Fault):
        return part
    aborted = frozenset(
        transaction.producer_id for transaction in part.aborted_transactions or () if transaction.first_offset <= offset
    )
    try:
        return BatchAtOffset(_covering(bytes(part.records or b""), offset), aborted)
    except UNREADABLE:
        return Fault(Reason.MALFORMED, f"{place} at {offset}: a batch that cannot be read")


def _covering(data: bytes, offset: int) -> RecordBatch | None:
    for batch in batches(data):
        if batch.last_offset >= offset:
            return _read(batch, offset) if batch.base_offset <= offset else None
    return None


def _read(batch: FetchedBatch, offset: int) -> RecordBatch:
    known = batch.producer_id >= 0
    markers = markers_of(batch) if batch.control else ()
    return RecordBatch(
        batch.producer_id if known else None,
        batch.producer_epoch if known else None,
        batch.transactional,
        batch.control,
        next((marker for marker in markers if marker.offset == offset), None),
        _is_removed(batch, offset),
        batch.max_ms,
        batch.leader_epoch,
    )


def _is_removed(batch: FetchedBatch, offset: int) -> bool | None:
    if batch.records == batch.last_delta + 1:
        return False
    try:
        return all(record.offset != offset for record in records_of(batch))
    except UNREADABLE:
        return None
