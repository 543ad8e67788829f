"""The open records of a producer in a partition's log: the epoch of the first, and the marker before it."""

from __future__ import annotations

from typing import NamedTuple

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.log.control import Marker, OffsetRange, read_markers
from exporter.kafka.log.record_batch import batch_at
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation, start_offsets
from exporter.model import Deadline, Fault, TopicPartition

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
