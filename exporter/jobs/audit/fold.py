"""The audit's Python workers: fold records into few large rows, and find suspects in each part.

Spark shuffles 10 million small rows in many seconds and a hundred large ones in none. So the first stage folds the
records of a task into blobs of numpy arrays, one for each part of the hash space, and the second sorts one part at a
time, which puts equal ids beside each other. Hashes only select suspects; a finding is decided by comparing the records
themselves (``evidence.py``).

A worker receives these functions by value: it needs numpy and pyarrow, not this package. So this module imports nothing
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, np.dtype[Any]]

OFFSET_BITS = 44
"""A position is one integer: the partition above, the offset below. 17 trillion offsets, half a million partitions."""
EMPTY = -1 << 63
"""The sign bit of a position: a record without a value, in the first stage."""
CHUNK_BITS = 18
CHUNK = 1 << CHUNK_BITS
"""Offsets of a partition are compared in chunks: a bitmap of 32 kB marks those that hold a record."""
FOLD_RECORDS = 1 << 20
"""Records that a worker keeps before it folds them: some tens of megabytes."""

SCHEMA = "kind tinyint, part int, place long, data binary"
ARROW_SCHEMA = pa.schema([("kind", pa.int8()), ("part", pa.int32()), ("place", pa.int64()), ("data", pa.binary())])


class Fold(IntEnum):
    """Kinds of rows."""

    IDS = 0  # hash, position: of the topic's ids
    SOURCE_IDS = 1  # the same of the source topic
    RUNS = 2  # stretches of a key's sequence that go up by one
    KEPT = 3  # bitmap of the offsets of a chunk that a read_committed reader gets
    HELD = 4  # the same for read_uncommitted
    SINK = 5  # positions in a chunk that the sink has, as often as it has them
    BLANK = 6  # an expression gave null: for which kind in ``part``, how often in ``place``, and the first positions
    # Of the second stage:
    SUSPECT_IDS = 7  # hash, position
    SUSPECT_KEYS = 8  # hash, second hash, lowest and highest position
    COUNT = 9  # of a chunk: records, first and last offset without one
    ABSENT_IDS = 10  # of the source, hash and position: the topic has no such hash
    UNSOURCED = 11  # of the topic: the source has no such hash
    MATCHED = 12  # newest position of each source partition that the topic has
    # Offsets compared:
    NEWEST = 13  # a position in the sink, in ``place``
    ABORTED = 14
    SINK_REPEATED = 15  # position, how often
    SINK_ABORTED = 16
    SINK_AHEAD = 17
    SINK_MISSING = 18
    SINK_STRANGE = 19  # positions at which the topic holds no record
    WAITING = 20  # records that the sink may still get, in ``place``
    # Of the first stage:
    BLANK_TOMBSTONE = 21  # as BLANK, of records without a value
    LEFT_OUT = 22  # records of the audited topic that the condition leaves out, in ``place``


class OffsetSpan(NamedTuple):
    """Half-open range of offsets of one partition."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True)  # with slots, the cloudpickle of pyspark 3.5 loses the values of a class that it ships by value
class Plan:
    """Parameters of the first stage. Its columns are position, with ``EMPTY`` for a record without a value, then those
    that are needed: id_hash; key_hash, key_hash_2 and sequence; ``chosen`` (false or null: its id and number do not
    count).
    Null is the value of an expression for a record that has none. With ``sparse``, numbers of a key only have to grow.

    ``parts`` are the values of ``part`` that lead to each task of the second stage (``parts_of``). ``mask`` keeps fewer
    bits of the hashes, for tests: with a few, everything collides, and the result must be the same.
    """

    parts: tuple[int, ...]
    ids: Fold | None = None
    keys: bool = False
    offsets: Fold | None = None
    mask: int = -1
    sparse: bool = False


def parts_of(count: int) -> tuple[int, ...]:
    """For each of ``count`` tasks an integer that ``repartition(count, "part")`` sends there.

    Spark's HashPartitioning: pmod(Murmur3 of the value with seed 42, count). With plain numbers some tasks would get no
    part and others several.
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(_murmur3(number) % count, number)
        number += 1
    return tuple(found[task] for task in range(count))


def _murmur3(value: int) -> int:
    """Murmur3_x86_32.hashInt of Spark with the seed 42, as a signed integer."""
    word = 0xFFFFFFFF
    k = _rotate(value * 0xCC9E2D51 & word, 15) * 0x1B873593 & word
    h = (_rotate(42 ^ k, 13) * 5 + 0xE6546B64) & word
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & word
    h = (h ^ h >> 13) * 0xC2B2AE35 & word
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


def position(partition: int, offset: int) -> int:
    """A place in a topic as one integer."""
    return partition << OFFSET_BITS | offset


def place(packed: int) -> tuple[int, int]:
    """Partition and offset of a position."""
    return packed >> OFFSET_BITS, packed & ((1 << OFFSET_BITS) - 1)


# --- First stage: records to blobs ---


def folder(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``; the records of a partition arrive in the order of its log."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = Bitmaps(plan)
        waiting: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            waiting.append(batch)
            count += batch.num_rows
            if count >= FOLD_RECORDS:
                yield from _fold(plan, kept, waiting)
                waiting, count = [], 0
        if waiting:
            yield from _fold(plan, kept, waiting)
        yield from kept.rest()

    return fold


def _fold(plan: Plan, kept: Bitmaps, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches).combine_chunks()
    signed = table["position"].to_numpy()
    positions = signed & ~EMPTY
    yield from kept.add(positions)
    if "chosen" in table.column_names:
        there = table["chosen"].fill_null(False).to_numpy()
        if not there.all():
            if plan.offsets is not None:  # of the audited topic: its source has another condition
                yield rows([(int(Fold.LEFT_OUT), 0, len(there) - int(there.sum()), b"")])
            table, positions, signed = table.filter(pa.array(there)), positions[there], signed[there]
    if plan.ids is not None:
        yield from _fold_ids(plan, plan.ids, table, positions, signed < 0)
    if plan.keys:
        yield from _fold_runs(plan, table, positions, signed < 0)


def _fold_ids(plan: Plan, kind: Fold, table: pa.Table, positions: Array, empty: Array) -> Iterator[pa.RecordBatch]:
    hashes = table["id_hash"]
    if hashes.null_count:
        there = hashes.is_valid().to_numpy()
        yield from _blanks(kind, positions, ~there, empty)
        hashes, positions = hashes.drop_null(), positions[there]
    values = hashes.to_numpy() & plan.mask
    yield from _dealt(kind, plan.parts, values, (values, positions))


def _fold_runs(plan: Plan, table: pa.Table, positions: Array, empty: Array) -> Iterator[pa.RecordBatch]:
    if table["sequence"].null_count or table["key_hash"].null_count:
        there = table["sequence"].is_valid().to_numpy() & table["key_hash"].is_valid().to_numpy()
        yield from _blanks(Fold.RUNS, positions, ~there, empty)
        table, positions = table.filter(pa.array(there)), positions[there]
    key, key_2, sequence = (table[name].to_numpy() for name in ("key_hash", "key_hash_2", "sequence"))
    runs = runs_of(key & plan.mask, key_2 & plan.mask, sequence, positions, sparse=plan.sparse)
    yield from _dealt(Fold.RUNS, plan.parts, runs[0], runs)


def runs_of(key: Array, key_2: Array, sequence: Array, positions: Array, *, sparse: bool = False) -> tuple[Array, ...]:
    """Maximal runs in which a key's sequence grows by one from record to record, in the order of the log.

    With ``sparse`` it only has to grow. Returns key, key_2, first and last sequence number, first and last position. A
    topic without an anomaly has one for each key, however hot that key is.
    """
    if not len(key):
        empty = np.empty(0, dtype=np.int64)
        return (empty,) * 6
    order = np.argsort(key, kind="stable")
    key, key_2, sequence, positions = key[order], key_2[order], sequence[order], positions[order]
    new = np.empty(len(key), dtype=bool)
    new[0] = True
    new[1:] = (
        (key[1:] != key[:-1])
        | (key_2[1:] != key_2[:-1])
        | ((sequence[1:] <= sequence[:-1]) if sparse else (sequence[1:] != sequence[:-1] + 1))
        | (positions[1:] >> OFFSET_BITS != positions[:-1] >> OFFSET_BITS)
    )
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(key)) - 1
    return key[first], key_2[first], sequence[first], sequence[last], positions[first], positions[last]


class Bitmaps:
    """The offsets of each chunk that have a record. A chunk is emitted when the task has moved on to another."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._open: dict[int, Array] = {}

    def add(self, positions: Array) -> Iterator[pa.RecordBatch]:
        if self._plan.offsets is None:
            return
        chunks = positions >> CHUNK_BITS
        # Records arrive in the order of the log: a chunk is one contiguous range.
        starts = np.append(0, np.flatnonzero(chunks[1:] != chunks[:-1]) + 1)
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(chunks)], strict=True):
            chunk = int(chunks[start])
            bits = self._open.setdefault(chunk, np.zeros(CHUNK, dtype=bool))
            bits[positions[start:end] & (CHUNK - 1)] = True
        for key in sorted(self._open.keys() - {int(chunks[-1])}):
            yield self._row(key, self._open.pop(key))

    def rest(self) -> Iterator[pa.RecordBatch]:
        for key, bits in self._open.items():
            yield self._row(key, bits)

    def _row(self, chunk: int, bits: Array) -> pa.RecordBatch:
        kind, parts = self._plan.offsets, self._plan.parts
        return rows([(int(kind or 0), parts[chunk % len(parts)], chunk, np.packbits(bits).tobytes())])


def _blanks(kind: Fold, positions: Array, blank: Array, empty: Array) -> Iterator[pa.RecordBatch]:
    # Which expression gave null, how often, and at which first positions; records without a value apart.
    for fold, chosen in ((Fold.BLANK, positions[blank & ~empty]), (Fold.BLANK_TOMBSTONE, positions[blank & empty])):
        if len(chosen):
            yield rows([(int(fold), int(kind), len(chosen), chosen[:8].astype(np.int64).tobytes())])


def _dealt(kind: Fold, parts: tuple[int, ...], by: Array, columns: tuple[Array, ...]) -> Iterator[pa.RecordBatch]:
    """One row for each part of the hash space, with the columns of what falls into it one after the other."""
    # The high bits choose the part; the second stage sorts by all of them.
    high = (by.view(np.uint64) >> np.uint64(40)).astype(np.uint32)
    part = (high % np.uint32(len(parts))).astype(np.uint16)
    order = np.argsort(part, kind="stable")
    counts = np.bincount(part, minlength=len(parts))
    ends = np.cumsum(counts)
    # All blobs in one buffer, which Arrow takes as it is: lists of bytes would be copied twice more.
    data = np.empty(len(by) * len(columns), dtype=np.int64)
    for at, column in enumerate(columns):
        ordered = column[order]
        for start, end in zip((ends - counts).tolist(), ends.tolist(), strict=True):
            first = start * len(columns) + at * (end - start)
            data[first : first + end - start] = ordered[start:end]
    there = np.flatnonzero(counts)
    offsets = np.concatenate(([0], ends[there] * (8 * len(columns)))).astype(np.int32)
    blobs = pa.Array.from_buffers(pa.binary(), len(there), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(there), int(kind), dtype=np.int8)),
            pa.array(np.array(parts, dtype=np.int32)[there]),
            pa.array(counts[there].astype(np.int64)),
            blobs,
        ],
        schema=ARROW_SCHEMA,
    )


def rows(found: Iterable[tuple[int, int, int, bytes]]) -> pa.RecordBatch:
    """Rows of ``SCHEMA``: kind, part, place, data."""
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)], schema=ARROW_SCHEMA
    )


def unpack(data: bytes, columns: int) -> list[Array]:
    """The columns of a blob."""
    return list(np.frombuffer(data, dtype=np.int64).reshape(columns, -1))
