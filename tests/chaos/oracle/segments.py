"""Record batches (magic 2) as they are in a broker's segment files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp, producer id,
# producer epoch, base sequence, records
_HEAD = struct.Struct(">qiibIhiqqqhii")
_BEFORE_LENGTH = 12
_COMPRESSION, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20


class LogError(ValueError):
    """A segment has what this reader does not expect."""


class SegmentBatch(NamedTuple):
    """One record batch. ``records`` is where its records begin in ``data``."""

    base_offset: int
    last_offset: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    records_count: int
    data: bytes
    leader_epoch: int = -1
    shift_ms: int = 0
    """By how much the clock of its broker was ahead; its times are without it."""

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    def records(self) -> Iterator[SegmentRecord]:
        """Its records. Raises LogError when it is compressed: these clients do not compress."""
        if self.attributes & _COMPRESSION:
            raise LogError(f"the batch at {self.base_offset} is compressed")
        at = 0
        for _ in range(self.records_count):
            length, at = _varint(self.data, at)
            end = at + length
            at += 1  # attributes, unused
            timestamp_delta, at = _varint(self.data, at)
            offset_delta, at = _varint(self.data, at)
            key, at = _bytes(self.data, at)
            value, at = _bytes(self.data, at)
            at = end
            timestamp = self.base_timestamp + timestamp_delta
            if self.attributes & _APPEND_TIME:
                timestamp = self.max_timestamp
            yield SegmentRecord(self.base_offset + offset_delta, timestamp, key, value)


class SegmentRecord(NamedTuple):
    """One record; ``timestamp`` in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def batches(folder: Path) -> Iterator[SegmentBatch]:
    """All batches of one partition's folder, in offset order. A torn one at the very end is left out."""
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        at = 0
        while at + _HEAD.size <= len(data):
            fields = _HEAD.unpack_from(data, at)
            base_offset, length, leader, magic, crc, attributes, last_delta, base_ts, max_ts, pid, epoch, _, count = (
                fields
            )
            end = at + _BEFORE_LENGTH + length
            if length <= 0 or end > len(data):
                break
            if magic != 2:
                raise LogError(f"{segment} has a batch of magic {magic} at {at}")
            body = data[at + _HEAD.size : end]
            last = base_offset + last_delta
            yield SegmentBatch(base_offset, last, crc, attributes, base_ts, max_ts, pid, epoch, count, body, leader)
            at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    if length < 0:
        return None, at
    return data[at : at + length], at + length
