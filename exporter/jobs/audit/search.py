"""The second stage in the Python workers: one part of the hash space, or some chunks of offsets, at a time.

As ``fold``, whose rows these functions take and give, it is sent to the workers by value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from exporter.jobs.audit.fold import CHUNK, CHUNK_BITS, OFFSET_BITS, Array, Fold, OffsetSpan, place, rows, unpack

Row = tuple[int, int, int, bytes]
_COLUMNS = {Fold.IDS: 2, Fold.SOURCE_IDS: 2, Fold.RUNS: 6}


@dataclass(frozen=True)  # without slots, as fold.Plan
class Search:
    """The records to search. ``spans`` are the audited offsets by partition; ``fresh`` those that are new.

    With ``sparse``, numbers of a key may leave some out. Without ``fresh`` all are new; with it (``--follow``) older
    records alone are no suspects.
    """

    spans: Mapping[int, OffsetSpan] = field(default_factory=dict)
    source: bool = False
    sparse: bool = False
    fresh: Mapping[int, OffsetSpan] | None = None

    def is_fresh(self, positions: Array) -> Array:
        """Which of these positions are new."""
        if self.fresh is None:
            return np.ones(len(positions), dtype=bool)
        partitions, offsets = positions >> OFFSET_BITS, positions & ((1 << OFFSET_BITS) - 1)
        found = np.zeros(len(positions), dtype=bool)
        for span in self.fresh.values():
            found |= (partitions == span.partition) & (offsets >= span.start) & (offsets < span.end)
        return found


def searcher(search: Search) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow`` after ``repartition(n, "part")``: suspects, kept offsets, blanks."""

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blobs: dict[Fold, list[list[Array]]] = defaultdict(list)
        kept: dict[int, Array] = {}
        for kind, part, where, data in _rows(batches):
            if kind == Fold.KEPT:
                _merge(kept, where, data)
            elif kind in _COLUMNS:
                blobs[Fold(kind)].append(unpack(data, _COLUMNS[Fold(kind)]))
            else:
                yield rows([(kind, part, where, data)])
        for chunk, bits in kept.items():
            packed = np.packbits(bits).tobytes()
            yield rows([(Fold.KEPT, 0, chunk, packed), (Fold.COUNT, 0, chunk, _count(search, chunk, bits))])
        ids = _joined(blobs.pop(Fold.IDS, []), 2)
        yield _found(Fold.SUSPECT_IDS, repeated(ids[0], ids[1], search))
        if search.source:
            source = _joined(blobs.pop(Fold.SOURCE_IDS, []), 2)
            yield from _compare(ids, source)
        yield _found(Fold.SUSPECT_KEYS, broken(_joined(blobs.pop(Fold.RUNS, []), 6), search))

    return find


def repeated(hashes: Array, positions: Array, search: Search) -> tuple[Array, ...]:
    """Hash and position of every record whose hash another record has too."""
    ordered = np.sort(hashes)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twice):
        return hashes[:0], positions[:0]
    several = np.isin(hashes, twice)
    hashes, positions = hashes[several], positions[several]
    if search.fresh is not None:
        touched = np.isin(hashes, hashes[search.is_fresh(positions)])
        hashes, positions = hashes[touched], positions[touched]
    return hashes, positions


def broken(runs: list[Array], search: Search) -> tuple[Array, ...]:
    """Keys whose sequence does not go up by one: key, key_2, lowest and highest position."""
    key, key_2, first, last, begin, end = runs
    if not len(key):
        return key, key_2, begin, end
    bad = np.zeros(len(key), dtype=bool)
    # By sequence number: runs that leave a gap, or overlap.
    order = np.lexsort((begin, first, key_2, key))
    same = _same(key[order], key_2[order])
    # Sparse runs may lie within each other: only those of one partition are compared, below.
    bad[order[1:]] = same & (first[order][1:] != last[order][:-1] + 1) & (not search.sparse)
    # By position in one partition: runs that go back.
    order = np.lexsort((begin, key_2, key))
    here = _same(key[order], key_2[order]) & (begin[order][1:] >> OFFSET_BITS == begin[order][:-1] >> OFFSET_BITS)
    bad[order[1:]] |= here & (first[order][1:] <= last[order][:-1])
    if search.fresh is not None:
        # An old break was reported before: a key counts only when it has new records.
        fresh = search.is_fresh(end)
        bad &= np.isin(key, key[fresh])
    if not bad.any():
        return key[:0], key_2[:0], begin[:0], end[:0]
    chosen = np.isin(key, key[bad])
    order = np.flatnonzero(chosen)[np.lexsort((key_2[chosen], key[chosen]))]
    starts = np.append(0, np.flatnonzero(~_same(key[order], key_2[order])) + 1)
    return (
        key[order][starts],
        key_2[order][starts],
        np.minimum.reduceat(begin[order], starts),
        np.maximum.reduceat(end[order], starts),
    )


def _same(key: Array, key_2: Array) -> Array:
    return np.asarray((key[1:] == key[:-1]) & (key_2[1:] == key_2[:-1]))


def _compare(ids: list[Array], source: list[Array]) -> Iterator[pa.RecordBatch]:
    """Source ids that the topic lacks, ids that the source lacks, and how far the topic has come with the source."""
    there = np.isin(source[0], ids[0])
    yield _found(Fold.ABSENT_IDS, (source[0][~there], source[1][~there]))
    strange = ~np.isin(ids[0], source[0])
    yield _found(Fold.UNSOURCED, (ids[0][strange], ids[1][strange]))
    matched = source[1][there]
    newest = [matched[matched >> OFFSET_BITS == partition].max() for partition in np.unique(matched >> OFFSET_BITS)]
    yield rows([(Fold.MATCHED, 0, len(newest), np.array(newest, dtype=np.int64).tobytes())])


def _count(search: Search, chunk: int, bits: Array) -> bytes:
    """Number of offsets of a chunk that hold a record, and the first and last of the span that do not (-1: none)."""
    start, wanted = _window(search.spans, chunk)
    empty = np.flatnonzero(wanted & ~bits)
    first, last = (start + empty[0], start + empty[-1]) if len(empty) else (-1, -1)
    return np.array([int(bits.sum()), first, last], dtype=np.int64).tobytes()


# --- Offsets: the topic against itself, and against a sink ---


@dataclass(frozen=True)  # as Search
class Comparison:
    """``spans`` as audited; ``expected`` is the offset of each partition before which the sink must have all."""

    spans: Mapping[int, OffsetSpan]
    sink: bool = False
    expected: Mapping[int, int] = field(default_factory=dict)


def comparer(comparison: Comparison) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow`` after ``repartition(n, "part")``, over kept, held and sink offsets by chunk."""

    def compare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept: dict[int, Array] = {}
        held: dict[int, Array] = {}
        sink: dict[int, list[Array]] = defaultdict(list)
        for kind, part, where, data in _rows(batches):
            if kind == Fold.KEPT:
                _merge(kept, where, data)
            elif kind == Fold.HELD:
                _merge(held, where, data)
            elif kind == Fold.SINK:
                sink[where].append(np.frombuffer(data, dtype=np.int64))
            else:
                yield rows([(kind, part, where, data)])
        nothing = np.zeros(CHUNK, dtype=bool)
        for chunk in sorted(kept.keys() | held.keys() | sink.keys()):
            stored = np.concatenate(sink[chunk]) if chunk in sink else np.empty(0, dtype=np.int64)
            yield from _chunk(comparison, chunk, kept.get(chunk, nothing), held.get(chunk, nothing), stored)

    return compare


def _chunk(comparison: Comparison, chunk: int, kept: Array, held: Array, stored: Array) -> Iterator[pa.RecordBatch]:
    partition, first = place(chunk << CHUNK_BITS)
    _, wanted = _window(comparison.spans, chunk)
    aborted = held & ~kept & wanted
    yield _found(Fold.ABORTED, (_positions(chunk, aborted),))
    if not comparison.sink:
        return
    span = comparison.spans.get(partition)
    if span is None:
        yield _found(Fold.SINK_STRANGE, (np.unique(stored),))
        return
    here, counts = np.unique(stored, return_counts=True)
    offsets = here & ((1 << OFFSET_BITS) - 1)
    audited = offsets >= span.start
    yield _found(Fold.SINK_REPEATED, (here[audited & (counts > 1)], counts[audited & (counts > 1)].astype(np.int64)))
    early = audited & (offsets >= span.end)
    yield _found(Fold.SINK_AHEAD, (here[early],))
    bits = np.zeros(CHUNK, dtype=bool)
    bits[here & (CHUNK - 1)] = True
    yield _found(Fold.SINK_ABORTED, (_positions(chunk, bits & aborted),))
    yield _found(Fold.SINK_STRANGE, (_positions(chunk, bits & wanted & ~held & ~kept),))
    due = np.arange(first, first + CHUNK) < comparison.expected.get(partition, 0)
    yield _found(Fold.SINK_MISSING, (_positions(chunk, kept & wanted & ~bits & due),))
    waiting = int((kept & wanted & ~bits & ~due).sum())
    yield rows([(Fold.WAITING, 0, waiting, b"")])


def _positions(chunk: int, bits: Array) -> Array:
    return np.flatnonzero(bits).astype(np.int64) + (chunk << CHUNK_BITS)


def _window(spans: Mapping[int, OffsetSpan], chunk: int) -> tuple[int, Array]:
    """The first offset of a chunk, and which of its offsets are audited."""
    partition, first = place(chunk << CHUNK_BITS)
    span = spans.get(partition)
    wanted = np.zeros(CHUNK, dtype=bool)
    if span is not None:
        wanted[max(0, span.start - first) : max(0, span.end - first)] = True
    return first, wanted


def fold_sink(parts: tuple[int, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow`` over a sink's positions, in any order: rows by chunk, and the newest of each."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            column = batch.column("position")
            if column.null_count:
                yield rows([(Fold.BLANK, Fold.SINK, column.null_count, b"")])
            positions = np.sort(column.drop_null().to_numpy())
            if not len(positions):
                continue
            chunks = positions >> CHUNK_BITS
            starts = np.append(0, np.flatnonzero(chunks[1:] != chunks[:-1]) + 1).tolist()
            for start, end in zip(starts, [*starts[1:], len(positions)], strict=True):
                chunk = int(chunks[start])
                yield rows([(Fold.SINK, parts[chunk % len(parts)], chunk, positions[start:end].tobytes())])
                yield rows([(Fold.NEWEST, 0, int(positions[end - 1]), b"")])

    return fold


# --- Rows ---


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _merge(bitmaps: dict[int, Array], chunk: int, data: bytes) -> None:
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8)).view(bool)
    bitmaps[chunk] = bitmaps[chunk] | bits if chunk in bitmaps else bits


def _joined(blobs: list[list[Array]], columns: int) -> list[Array]:
    if not blobs:
        return [np.empty(0, dtype=np.int64)] * columns
    return [np.concatenate(column) for column in zip(*blobs, strict=True)]


def _found(kind: Fold, columns: tuple[Array, ...]) -> pa.RecordBatch:
    if not len(columns[0]):
        return rows([])
    return rows([(kind, 0, len(columns[0]), b"".join(np.ascontiguousarray(column).tobytes() for column in columns))])
