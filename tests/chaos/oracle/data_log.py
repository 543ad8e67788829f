"""The transactions in the log of a data partition: what they wrote, and which marker ended them there."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.chaos.oracle.segments import LogError, SegmentBatch


@dataclass
class DataTransaction:
    """The open records of one producer in one partition until a marker: one transaction, or more where a marker was
    lost.

    ``epoch`` is that of its first batch, ``last_epoch`` that of its last. ``end`` is the offset of the marker,
    ``ended`` its time; None while there is none. ``appended`` is the time of the first batch, ``tokens`` are by the
    value of their records, with the time of the first one. Times are Unix seconds of the broker, where the topic has
    LogAppendTime.
    """

    producer_id: int
    epoch: int
    start: int
    end: int | None = None
    committed: bool = False
    tokens: dict[str, float] = field(default_factory=dict)
    appended: float = 0.0
    ended: float | None = None
    last_epoch: int = -1


def held(all_batches: Iterable[SegmentBatch], *, tokens: bool) -> list[DataTransaction]:
    """All transactions of the partition, by their first offset. With ``tokens`` the records' values are read."""
    every: list[DataTransaction] = []
    open_now: dict[int, DataTransaction] = {}
    for batch in all_batches:
        if batch.control:
            marker = _marker(batch)
            # A marker without a transaction is that of one which has nothing here: its batch was never written.
            if marker is not None and (ended := open_now.pop(batch.producer_id, None)) is not None:
                ended.end, ended.committed, ended.ended = batch.base_offset, marker, batch.max_timestamp / 1000
        elif batch.transactional:
            found = open_now.get(batch.producer_id)
            if found is None:
                found = DataTransaction(batch.producer_id, batch.producer_epoch, batch.base_offset)
                found.appended = batch.max_timestamp / 1000
                open_now[batch.producer_id] = found
                every.append(found)
            found.last_epoch = batch.producer_epoch
            if tokens:
                for record in batch.records():
                    found.tokens.setdefault((record.value or b"").decode(errors="replace"), batch.max_timestamp / 1000)
    return every


def _marker(batch: SegmentBatch) -> bool | None:
    """True for a commit, False for an abort, None for a control record of another kind."""
    record = next(batch.records())
    if record.key is None or len(record.key) < 4:
        raise LogError(f"a control record without its key at {batch.base_offset}")
    _, kind = struct.unpack_from(">hh", record.key)
    return {0: False, 1: True}.get(kind)
