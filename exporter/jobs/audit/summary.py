"""Results of the stages in the driver: a few small rows for each task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from exporter.jobs.audit.fold import CHUNK, CHUNK_BITS, OFFSET_BITS, Fold, OffsetSpan, place, position, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW = 300
"""Records that are looked up one by one; for more, Spark reads the range that contains them."""
_SMALL = frozenset({Fold.COUNT, Fold.BLANK, Fold.BLANK_TOMBSTONE, Fold.MATCHED})
_BLANK = {Fold.IDS: "--id", Fold.SOURCE_IDS: "--source-id", Fold.RUNS: "--key or --sequence"}


class Summary:
    """The small rows of a stage: counts of all kinds, chunks, blanks."""

    def __init__(self, frame: DataFrame) -> None:
        small = ", ".join(str(int(kind)) for kind in _SMALL)
        self.counts: dict[Fold, int] = dict.fromkeys(Fold, 0)
        self._small: list[tuple[Fold, int, int, bytes]] = []
        # Suspects are read here where there are few: to read them from the frame would be one more job.
        few = f"kind = {int(Fold.SUSPECT_IDS)} AND place <= {FEW}"
        data = f"CASE WHEN kind IN ({small}) OR {few} THEN data END AS data"
        for kind, part, where, blob in frame.selectExpr("kind", "part", "place", data).collect():
            fold = Fold(kind)
            if blob is not None:
                self._small.append((fold, part, where, bytes(blob)))
            self.counts[fold] += where

    def positions(self, kind: Fold) -> list[int]:
        """The positions of the suspects of this kind, of which there are at most ``FEW``."""
        found = [unpack(data, 2)[1] for fold, _, _, data in self._small if fold is kind]
        return [int(offset) for positions in found for offset in positions]

    @property
    def records(self) -> int:
        return sum(int(unpack(data, 3)[0][0]) for fold, _, _, data in self._small if fold is Fold.COUNT)

    def gaps(self, spans: Mapping[int, OffsetSpan]) -> dict[int, OffsetSpan]:
        """By partition, the offsets from the first to the last of these spans that hold no record."""
        counted = {chunk: unpack(data, 3) for fold, _, chunk, data in self._small if fold is Fold.COUNT}
        found: dict[int, OffsetSpan] = {}
        for number, span in spans.items():
            for at in range(span.start & ~(CHUNK - 1), span.end, CHUNK):
                first, last = max(at, span.start), min(at + CHUNK, span.end) - 1
                if (chunk := position(number, at) >> CHUNK_BITS) in counted:
                    # A chunk without any record has no row at all.
                    _, first, last = (int(column[0]) for column in counted[chunk])
                if first >= 0:
                    known = found.get(number, OffsetSpan(number, first, last + 1))
                    found[number] = OffsetSpan(number, min(known.start, first), max(known.end, last + 1))
        return found

    def blanks(self) -> Iterator[str]:
        """Records without id, key or number, in sentences."""
        for kind in (Fold.IDS, Fold.RUNS, Fold.SOURCE_IDS):
            mine = {
                blank: [(where, data) for fold, part, where, data in self._small if fold is blank and part == kind]
                for blank in (Fold.BLANK, Fold.BLANK_TOMBSTONE)
            }
            if every := [row for rows in mine.values() for row in rows]:
                number, offset = place(int(min(np.frombuffer(data, dtype=np.int64)[0] for _, data in every)))
                count = sum(where for where, _ in every)
                empty = sum(where for where, _ in mine[Fold.BLANK_TOMBSTONE])
                them = f" ({empty:,} of them tombstones)" if empty else ""
                yield f"{_BLANK[kind]} gives null for {count:,} records{them}, as at partition {number} offset {offset}"

    def matched(self) -> dict[int, int]:
        """The newest offset of each source partition whose id the topic has."""
        found: dict[int, int] = {}
        for fold, _, _, data in self._small:
            for packed in np.frombuffer(data, dtype=np.int64).tolist() if fold is Fold.MATCHED else ():
                number, offset = place(packed)
                found[number] = max(found.get(number, -1), offset)
        return found


def spans_between(suspects: DataFrame, spans: Mapping[int, OffsetSpan]) -> dict[int, OffsetSpan]:
    """The offsets of each partition in which the suspects' records lie; all of them for a key in several partitions."""
    ends = suspects.selectExpr(
        f"shiftright(lowest, {OFFSET_BITS}) AS partition",
        f"shiftright(highest, {OFFSET_BITS}) AS last_partition",
        "lowest",
        "highest",
    )
    found = ends.groupBy("partition").agg({"last_partition": "max", "lowest": "min", "highest": "max"})
    between = {}
    for row in found.collect():
        number = int(row["partition"])
        if int(row["max(last_partition)"]) != number:
            return dict(spans)
        between[number] = OffsetSpan(number, place(row["min(lowest)"])[1], place(row["max(highest)"])[1] + 1)
    return between


def dealt(frame: DataFrame, parts: Sequence[int]) -> DataFrame:
    """Chunks to the tasks that compare them."""
    numbers = ", ".join(map(str, parts))
    return frame.selectExpr(
        "kind", f"element_at(array({numbers}), CAST(place % {len(parts)} AS INT) + 1) AS part", "place", "data"
    )


def newest_of(sink: DataFrame) -> tuple[dict[int, int], int]:
    """The newest offset of each partition in the sink, and how many of its rows have none."""
    found: dict[int, int] = {}
    blank = 0
    small = sink.where(f"kind IN ({int(Fold.NEWEST)}, {int(Fold.BLANK)})").select("kind", "place")
    for kind, packed in small.collect():
        if kind == Fold.BLANK:
            blank += packed
            continue
        number, offset = place(packed)
        found[number] = max(found.get(number, -1), offset)
    return found, blank


def up_to(newest: Mapping[int, int]) -> str:
    """A condition on ``position``: not after the newest of its partition."""
    bits = (1 << OFFSET_BITS) - 1
    tests = [
        f"(shiftright(position, {OFFSET_BITS}) = {number} AND (position & {bits}) <= {offset})"
        for number, offset in newest.items()
    ]
    return " OR ".join(tests) or "false"


def before(ends: Mapping[int, int]) -> str:
    """A condition on ``partition`` and ``offset``: before the end of its partition."""
    tests = [f"(partition = {number} AND offset < {end})" for number, end in ends.items()]
    return " OR ".join(tests) or "false"


def within(spans: Mapping[int, OffsetSpan]) -> str:
    """A condition on ``partition`` and ``offset``: in the span of its partition."""
    tests = [
        f"(partition = {span.partition} AND offset >= {span.start} AND offset < {span.end})" for span in spans.values()
    ]
    return f"({' OR '.join(tests) or 'false'})"
