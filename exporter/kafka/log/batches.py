"""Batches of records by Fetch: the request, and the batches of an answer. Records are decoded only when asked for.

What a batch decodes to is bounded while it is decoded: 1 MB of gzip can be 1 GB of records.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import zstandard
from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from exporter.kafka.requests.offsets import CONSUMER, Isolation
from exporter.model import Deadline, TopicPartition

MOST_DECODED = 8 << 20
"""Bytes of the records of one batch when decoded. A coordinator writes 1 MB at most by default (max.message.bytes)."""
MOST_RECORDS = 150_000
"""Records of one batch."""
WIDEST_WINDOW = 8 << 20
"""Memory that a zstd decoder may take: the largest window that Kafka's compression levels use."""
UNREADABLE = (CorruptRecordError, struct.error, ValueError, IndexError, AssertionError)
"""The errors of reading a batch or a record of it."""


class BatchRecord(NamedTuple):
    """A record of a batch. ``timestamp`` is Unix milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


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


def records_of(batch: DefaultRecordBatch) -> Iterator[BatchRecord]:
    """The records of a batch, without their headers. Raises one of ``UNREADABLE``, also beyond the bounds above.

    The library would decode without a bound, or not at all where a codec is not installed, and make an object of each
    header: two bytes become 64.
    """
    if batch.records_count > MOST_RECORDS:
        raise ValueError(f"more than {MOST_RECORDS} records")
    body = memoryview(batch._buffer)[batch.HEADER_STRUCT.size :]  # noqa: SLF001 -- its bytes have no other access
    data = _decoded(body, batch.compression_type)
    at = 0
    for _ in range(batch.records_count):
        size, at = decode_varint(data, at)
        end = at + size
        if not at < end <= len(data):
            raise ValueError("a record that ends early")
        since, at = decode_varint(data, at + 1)  # after the record's attributes
        distance, at = decode_varint(data, at)
        key, at = _nullable(data, at, end)
        value, at = _nullable(data, at, end)
        by_broker = batch.timestamp_type == batch.LOG_APPEND_TIME
        timestamp = batch.max_timestamp if by_broker else batch.first_timestamp + since
        yield BatchRecord(batch.base_offset + distance, timestamp, key, value)
        at = end


def _nullable(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them, and where they end."""
    size, at = decode_varint(data, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise ValueError("a field that ends early")
    return data[at : at + size], at + size


def _decoded(body: memoryview, codec: int) -> bytes:
    """The records of a batch as bytes without compression."""
    if codec == DefaultRecordBatch.CODEC_NONE:
        records = bytes(body[: MOST_DECODED + 1])
    elif codec == DefaultRecordBatch.CODEC_GZIP:
        records = _gunzip(body)
    elif codec == DefaultRecordBatch.CODEC_ZSTD:
        records = _zstd(body)
    else:
        names = {DefaultRecordBatch.CODEC_SNAPPY: "snappy", DefaultRecordBatch.CODEC_LZ4: "lz4"}
        raise ValueError(f"compressed by {names.get(codec, f'codec {codec}')}, which is not read")
    if len(records) > MOST_DECODED:
        raise ValueError(f"more than {MOST_DECODED >> 20} MB when decoded")
    return records


def _gunzip(body: memoryview) -> bytes:
    decoder = zlib.decompressobj(wbits=31)
    try:
        records = decoder.decompress(body, MOST_DECODED + 1)
    except zlib.error as error:
        raise ValueError(f"no gzip: {error}") from None
    if len(records) <= MOST_DECODED and not decoder.eof:
        raise ValueError("gzip that ends early")
    return records


def _zstd(body: memoryview) -> bytes:
    decoder = zstandard.ZstdDecompressor(max_window_size=WIDEST_WINDOW)
    try:
        with decoder.stream_reader(body) as reader:
            return bytes(reader.read(MOST_DECODED + 1))
    except zstandard.ZstdError as error:
        raise ValueError(f"no zstd: {error}") from None
