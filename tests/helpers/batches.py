"""Batches of records as a broker gives them: headers, with a body that is never read."""

from __future__ import annotations

import struct

from kafka.record.default_records import DefaultRecordBatchBuilder

TRANSACTIONAL, CONTROL = 0x10, 0x20


def batch(
    base: int, records: int, producer_id: int = -1, attributes: int = 0, span: int | None = None, at_ms: int = 0
) -> bytes:
    """The header of a batch with a body that is never read; ``span`` offsets where compaction took some records."""
    body = b"\0" * 10
    after = struct.pack(">hiqqqhii", attributes, (span or records) - 1, at_ms, at_ms, producer_id, 0, 0, records)
    rest = struct.pack(">ibI", 0, 2, 0) + after + body
    return struct.pack(">qi", base, len(rest)) + rest


def data(base: int, records: int, producer_id: int) -> bytes:
    """Records of a transaction."""
    return batch(base, records, producer_id, TRANSACTIONAL)


def marker(base: int, producer_id: int, at_ms: int = 0) -> bytes:
    """The end of a transaction, commit or abort."""
    return batch(base, 1, producer_id, TRANSACTIONAL | CONTROL, at_ms=at_ms)


def offset_commit(
    group: str, topic: str, producer_id: int = -1, base: int = 0, offset: int = 12, at_ms: int = 1000
) -> bytes:
    """A batch of ``__consumer_offsets`` with the commit of an offset, in a transaction where it has a producer id."""
    transactional = producer_id >= 0
    made = DefaultRecordBatchBuilder(2, 0, transactional, producer_id, 0 if transactional else -1, -1, 1 << 20)
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in (group, topic))
    key = struct.pack(">h", 1) + names + struct.pack(">i", 0)
    made.append(0, timestamp=at_ms, key=key, value=struct.pack(">hqh", 1, offset, -1), headers=[])
    written = bytearray(made.build())
    written[0:8] = struct.pack(">q", base)
    written[12:16] = struct.pack(">i", 0)  # the leader's epoch, which no client writes
    return bytes(written)
