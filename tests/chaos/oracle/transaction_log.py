"""Keys and values of ``__transaction_state``, layouts 0 and 1 (TransactionLogKey.json, TransactionLogValue.json)."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.chaos.oracle.segments import LogError, SegmentBatch

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


class State(NamedTuple):
    """One record of the log; times in milliseconds. ``status`` is None for a tombstone.

    ``shift`` is by how much the clock of the coordinator that wrote it was ahead, ``started_shift`` that of the one
    with which the transaction began.
    """

    log_partition: int
    offset: int
    appended: int
    transactional_id: str
    status: int | None
    producer_id: int = -1
    epoch: int = -1
    timeout: int = -1
    updated: int = -1
    started: int = -1
    client_version: int = 0
    partitions: frozenset[tuple[str, int]] = frozenset()
    shift: int = 0
    started_shift: int = 0


def states(log_partition: int, all_batches: Iterable[SegmentBatch]) -> Iterator[State]:
    """All records of one partition of the log. Raises LogError where one is not understood to its last byte."""
    for batch in all_batches:
        if batch.control:
            continue
        for record in batch.records():
            transactional_id = _key(record.key or b"")
            if record.value is None:
                yield State(log_partition, record.offset, record.timestamp, transactional_id, None)
            else:
                bare = State(
                    log_partition, record.offset, record.timestamp, transactional_id, None, shift=batch.shift_ms
                )
                yield _value(bare, record.value)


def _key(key: bytes) -> str:
    version, length = struct.unpack_from(">hh", key)
    if version != 0 or len(key) != 4 + length:
        raise LogError(f"a key of version {version} and {len(key)} bytes")
    return key[4:].decode()


def _value(bare: State, value: bytes) -> State:
    stream = io.BytesIO(value)
    layout, producer_id, epoch, timeout, status = _take(stream, ">hqhib")
    if layout not in (0, 1) or not 0 <= status <= 5:
        raise LogError(f"layout {layout}, status {status} at {bare.log_partition}:{bare.offset}")
    compact = layout == 1
    partitions = set()
    for _ in range(_array(stream, compact=compact)):
        name = stream.read(_unsigned(stream) - 1 if compact else _take(stream, ">h")[0]).decode()
        for _ in range(_array(stream, compact=compact)):
            partitions.add((name, _take(stream, ">i")[0]))
        if compact:
            _tags(stream)
    updated, started = _take(stream, ">qq")
    tags = _tags(stream) if compact else {}
    if stream.read():
        raise LogError(f"bytes are left over at {bare.log_partition}:{bare.offset}")
    version = struct.unpack(">h", tags[2])[0] if 2 in tags else 0
    return bare._replace(
        status=status,
        producer_id=producer_id,
        epoch=epoch,
        timeout=timeout,
        updated=updated,
        started=started,
        client_version=version,
        partitions=frozenset(partitions),
    )


def _take(stream: io.BytesIO, layout: str) -> tuple[int, ...]:
    data = stream.read(struct.calcsize(layout))
    return struct.unpack(layout, data)


def _array(stream: io.BytesIO, *, compact: bool) -> int:
    count = _unsigned(stream) - 1 if compact else _take(stream, ">i")[0]
    return max(0, count)


def _tags(stream: io.BytesIO) -> dict[int, bytes]:
    found = {}
    for _ in range(_unsigned(stream)):
        tag = _unsigned(stream)
        found[tag] = stream.read(_unsigned(stream))
    return found


def _unsigned(stream: io.BytesIO) -> int:
    value = shift = 0
    while True:
        (byte,) = _take(stream, ">B")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
