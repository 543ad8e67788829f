"""Batches of records, by the bytes of a partition's answer to Fetch. Records are decoded only when asked for.

The layouts are those of DefaultRecordBatch.java, DefaultRecord.java and EndTransactionMarker.java (KIP-98): the key of
a control record has a version and the type, its value a version and the coordinator's epoch. kafka-python would decode
without a bound, and make an object of each header of a record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import zstandard

from exporter.kafka.varint import read_varint

MOST_DECODED = 8 << 20
"""Bytes of the records of one batch when decoded: 1 MB of gzip can be 1 GB of records."""
WIDEST_WINDOW = 8 << 20
"""Memory that a zstd decoder may take: the largest window that Kafka's compression levels use."""
UNREADABLE = (struct.error, ValueError, IndexError)
"""The errors of reading a batch or a record of it."""

_SIZE = struct.Struct(">qi")
_HEADER = struct.Struct(">q4xi5xhiqqqh4xi")
"""The fields of ``FetchedBatch``, without length, magic, checksum and base sequence."""
_FROM_LENGTH = 12
_MAGIC_AT, _MAGIC = 16, 2
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_NONE, _GZIP, _ZSTD = 0, 1, 4
_NOT_READ = {2: "snappy", 3: "lz4"}

ABORT, COMMIT = 0, 1
_TYPES = frozenset({ABORT, COMMIT})
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_BODY = struct.Struct(">5shhB2xi")
"""The record of a control batch: all before its key, key version, type, length of the value, coordinator epoch."""
_BODY_START = b"\x20\x00\x00\x00\x08"
"""16 bytes that follow, no attributes, both deltas 0, a key of 4 bytes."""
_VALUE_LENGTH = 12
_USUAL_BODY = 17


class FetchedBatch(NamedTuple):
    """A batch by its header. Times are Unix milliseconds: of the first record, and the largest. ``producer_id`` is -1
    without an idempotent producer; ``records`` is how many compaction has left.
    """

    base_offset: int
    leader_epoch: int
    attributes: int
    last_delta: int
    first_ms: int
    max_ms: int
    producer_id: int
    producer_epoch: int
    records: int
    body: memoryview

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_delta

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def by_broker(self) -> bool:
        """Return whether its time is the broker's (LogAppendTime)."""
        return bool(self.attributes & _LOG_APPEND_TIME)


class BatchRecord(NamedTuple):
    """A record of a batch. ``timestamp`` is Unix milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Marker(NamedTuple):
    """One control record. ``timestamp_ms`` is Unix milliseconds by the clock of the partition's leader."""

    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


def batches(data: bytes) -> Iterator[FetchedBatch]:
    """The batches of a partition's answer. The last one is left out where it was cut off, as are those of before Kafka
    0.11, which have no producer. Raises one of ``UNREADABLE``.
    """
    at, size, view = 0, len(data), memoryview(data)
    while at + _FROM_LENGTH <= size:
        length = _SIZE.unpack_from(data, at)[1]
        after = at + _FROM_LENGTH + length
        if length < 0:
            raise ValueError("a batch of negative length")
        if after > size:
            return
        if length > _MAGIC_AT - _FROM_LENGTH and data[at + _MAGIC_AT] == _MAGIC:
            body = at + _HEADER.size
            if body > after:
                raise ValueError("a batch without a header")
            yield FetchedBatch._make((*_HEADER.unpack_from(data, at), view[body:after]))
        at = after


def records_of(batch: FetchedBatch) -> Iterator[BatchRecord]:
    """The records of a batch, without their headers. Raises one of ``UNREADABLE``, also beyond the bounds above."""
    data = _decoded(batch.body, batch.attributes & _CODEC)
    at = 0
    for _ in range(batch.records):
        size, at = read_varint(data, at)
        end = at + size
        if not at < end <= len(data):
            raise ValueError("a record that ends early")
        since, at = read_varint(data, at + 1)  # after the record's attributes
        distance, at = read_varint(data, at)
        key, at = _nullable(data, at, end)
        value, at = _nullable(data, at, end)
        timestamp = batch.max_ms if batch.by_broker else batch.first_ms + since
        yield BatchRecord(batch.base_offset + distance, timestamp, key, value)
        at = end


def markers_of(batch: FetchedBatch) -> Iterator[Marker]:
    """The markers of a control batch; other control records are passed over. Raises one of ``UNREADABLE``."""
    who = batch.producer_id, batch.producer_epoch
    if len(batch.body) == _USUAL_BODY:  # the hot path of ``audit markers``
        start, _, kind, length, coordinator_epoch = _BODY.unpack_from(batch.body)
        if start == _BODY_START and length == _VALUE_LENGTH:
            if kind in _TYPES:
                written_ms = batch.max_ms if batch.by_broker else batch.first_ms
                yield Marker(batch.base_offset, written_ms, *who, kind == COMMIT, coordinator_epoch)
            return
    for record in records_of(batch):
        _, kind = _KEY.unpack_from(record.key or b"")
        if kind in _TYPES:
            coordinator_epoch = _VALUE.unpack_from(record.value)[1] if record.value else -1
            yield Marker(record.offset, record.timestamp, *who, kind == COMMIT, coordinator_epoch)


def _nullable(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them, and where they end."""
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise ValueError("a field that ends early")
    return data[at : at + size], at + size


def _decoded(body: memoryview, codec: int) -> bytes:
    """The records of a batch as bytes without compression."""
    whole = True
    try:
        if codec == _NONE:
            records = bytes(body[: MOST_DECODED + 1])
        elif codec == _GZIP:
            decoder = zlib.decompressobj(wbits=31)
            records = decoder.decompress(body, MOST_DECODED + 1)
            whole = decoder.eof
        elif codec == _ZSTD:
            with zstandard.ZstdDecompressor(max_window_size=WIDEST_WINDOW).stream_reader(body) as reader:
                records = bytes(reader.read(MOST_DECODED + 1))
        else:
            raise ValueError(f"compressed by {_NOT_READ.get(codec, f'codec {codec}')}, which is not read")
    except zlib.error as error:
        raise ValueError(f"no gzip: {error}") from None
    except zstandard.ZstdError as error:
        raise ValueError(f"no zstd: {error}") from None
    if len(records) > MOST_DECODED:
        raise ValueError(f"more than {MOST_DECODED >> 20} MB when decoded")
    if not whole:
        raise ValueError("gzip that ends early")
    return records
