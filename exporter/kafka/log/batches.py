"""Batches of records by Fetch: the request, and the batches of an answer, whose records stay compressed."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

from exporter.kafka.requests.offsets import CONSUMER, Isolation
from exporter.model import Deadline, TopicPartition

UNREADABLE = (CorruptRecordError, struct.error, ValueError, IndexError, AssertionError)
"""What reading a batch, or a record of it, raises."""


def fetch_request(
    positions: Mapping[TopicPartition, int],
    deadline: Deadline,
    size: int,
    most: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> FetchRequest:
    """Fetch of partitions, each from its offset: ``size`` bytes of each or one batch, ``most`` in all."""
    kind: Any = FetchRequest.FetchTopic
    topics: defaultdict[str, list[Any]] = defaultdict(list)
    for (topic, partition), offset in positions.items():
        topics[topic].append(
            kind.FetchPartition(
                partition=partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=size,
            )
        )
    return FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=min(500, int(deadline.remaining() * 1000)),
        min_bytes=1,
        max_bytes=most,
        isolation_level=int(isolation),
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        forgotten_topics_data=[],
        rack_id="",
        # Version 13 and later name topics by id; the highest before it serves every broker since 2.7.
        max_version=12,
    )


def batches(data: bytes) -> Iterator[DefaultRecordBatch]:
    """The batches of a partition's answer; those of before Kafka 0.11 have no producer and are left out.

    Raises one of ``UNREADABLE``.
    """
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        if isinstance(batch, DefaultRecordBatch):
            yield batch


def records_of(batch: DefaultRecordBatch) -> Iterator[Any]:
    """The records of a batch, uncompressed. Raises one of ``UNREADABLE``."""
    try:
        yield from batch
    except UNREADABLE:
        raise
    except Exception as error:  # noqa: BLE001 -- the errors of the five codecs have no type in common
        raise ValueError(f"records that cannot be read: {type(error).__name__}") from None
