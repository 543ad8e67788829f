"""Which files of a history a report reads, and how: copies of merged batches where they have what is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exporter.jobs.history.index import HistoryError, Index, gaps
from exporter.jobs.history.merged import BATCHES_EACH, NOTABLE, PLAIN, MergedIndex, copies_of, files_of, numbers_of
from exporter.jobs.history.store import BATCH_FILE, TABLE, identity
from exporter.jobs.history.table import BATCH, DAY, SCHEMA, gathered
from exporter.jobs.history.tally import NARROW, HistoryTally, notable

ROWS_AT_ONCE = 131_072
_STRINGS = ["application", "outcome"]


class ReportRange(NamedTuple):
    """The range of a report: completed from ``begin_ms`` to before ``end_ms``, of one application or of all."""

    begin_ms: int | None = None
    end_ms: int | None = None
    application: str | None = None


@dataclass(frozen=True, slots=True)
class ReportPiece:
    """Files that are read together: a copy, or some batches as they were written."""

    copy: Path | None = None
    files: tuple[Path, ...] = ()


class HistoryFiles:
    """The files of a history as they were when this was made. Raises OSError, and HistoryError where there is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        whose = identity(folder)
        if whose is None:
            raise HistoryError(f"--input {folder}: is not a history; give the --output of `history run`")
        self.cluster_id = str(whose["cluster_id"])
        self.cluster = str(whose.get("cluster_name") or self.cluster_id)
        there = numbers_of(folder)
        known = set(there)
        self.copies = {path: index for path, index in copies_of(folder).items() if known.issuperset(index.batches)}
        merged = {number for index in self.copies.values() for number in index.batches}
        self.others = [number for number in there if number not in merged]
        """Batches without a copy."""

    def bounds(self, span: ReportRange) -> tuple[int, int]:
        """Instants between which all that is asked for completed, as close as is known without reading rows."""
        begin_ms, end_ms = span.begin_ms, span.end_ms
        if begin_ms is not None and end_ms is not None:
            return begin_ms, end_ms
        ends = [(index.first_ms, index.last_ms) for index in self.copies.values()]
        ends += [found for file in files_of(self.folder, self.others) if (found := _completed(file)) is not None]
        first = min((end for end, _ in ends), default=0)
        last = max((end for _, end in ends), default=0)
        return first if begin_ms is None else begin_ms, last + 1 if end_ms is None else end_ms

    def pieces(self, span: ReportRange) -> Iterator[ReportPiece]:
        """The files to read for this range."""
        batches = list(self.others)
        for path, index in self.copies.items():
            if _apart(index, span):
                continue
            if _within(index, span):
                yield ReportPiece(copy=path)
            else:
                batches += index.batches
        for at in range(0, len(batches), BATCHES_EACH):
            files = files_of(self.folder, batches[at : at + BATCHES_EACH])
            if chosen := tuple(file for file in files if _of_days(file, span)):
                yield ReportPiece(files=chosen)

    def coverage(self) -> tuple[int | None, tuple[str, ...]]:
        """When the last batch was written, and what is missing according to the batches."""
        copies = self.copies.values()
        newest = max((copy.written_ms for copy in copies), default=None)
        missing = sum(copy.missing for copy in copies)
        undecodable = sum(copy.undecodable for copy in copies)
        truncated = sum(copy.truncated for copy in copies)
        files = [self.folder / TABLE / f"{BATCH}={number}" / BATCH_FILE for number in self.others]
        for file in (*files, *self.folder.glob("_batches/*/index.json")):
            try:
                index = Index.from_json(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue  # a running writer moved it
            newest = max(newest or 0, index.written_ms)
            if file.name == BATCH_FILE:
                undecodable += index.undecodable
                truncated += len(index.truncated)
                # Records that were compacted before the history began are no gap in it.
                missing += index.missing if index.batch else 0
        return newest, gaps(missing, undecodable, truncated)

    def counted(self, span: ReportRange, width_ms: int) -> HistoryTally:
        """Count all that is asked for, some pieces at once. Raises OSError and pyarrow's errors."""
        whole = HistoryTally(width_ms)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for part in pool.map(lambda piece: _part(piece, span, width_ms), self.pieces(span)):
                whole.merge(part)
        return whole


def _part(piece: ReportPiece, span: ReportRange, width_ms: int) -> HistoryTally:
    part = HistoryTally(width_ms)
    if piece.copy is None:
        for table in _tables(piece.files, SCHEMA.names):
            chosen = _chosen(table, span)
            part.add(chosen)
            part.note(notable(chosen))
        return part
    for table in _tables([piece.copy / NOTABLE], SCHEMA.names):
        chosen = _chosen(table, span)
        part.add(chosen)
        part.note(chosen)
    for table in _tables([piece.copy / PLAIN], NARROW):
        part.add(_chosen(table, span))
    return part


def _tables(files: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of these files, some at a time. Raises HistoryError for one that cannot be read."""
    pieces = (pa.Table.from_batches([batch]) for file in files for batch in _batches(file, columns))
    return map(_joined, gathered(pieces, ROWS_AT_ONCE))


def _batches(file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(file, read_dictionary=_STRINGS) as opened:
            yield from opened.iter_batches(ROWS_AT_ONCE, columns=list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        advice = "; delete its folder, the batches have all of its rows" if file.name in {NOTABLE, PLAIN} else ""
        raise HistoryError(f"{file}: cannot be read: {str(error).partition(chr(10))[0]}{advice}") from None


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries()


def _chosen(table: pa.Table, span: ReportRange) -> pa.Table:
    for bound, compare in ((span.begin_ms, pc.greater_equal), (span.end_ms, pc.less)):
        if bound is not None:
            table = table.filter(compare(table["complete"], pa.scalar(bound, pa.timestamp("ms", tz="UTC"))))
    if span.application is not None:
        table = table.filter(pc.equal(table["application"], span.application))
    return table


def _completed(file: Path) -> tuple[int, int] | None:
    """The first and the last completion in a file, by its statistics; None without any."""
    groups = pq.read_metadata(file)
    column = SCHEMA.names.index("complete")
    found = []
    for number in range(groups.num_row_groups):
        statistics = groups.row_group(number).column(column).statistics
        if statistics is not None and statistics.has_min_max:
            found += [round(bound.timestamp() * 1000) for bound in (statistics.min, statistics.max)]
    return (min(found), max(found)) if found else None


def _within(index: MergedIndex, span: ReportRange) -> bool:
    begins = span.begin_ms is None or span.begin_ms <= index.first_ms
    return begins and (span.end_ms is None or index.last_ms < span.end_ms)


def _apart(index: MergedIndex, span: ReportRange) -> bool:
    early = span.begin_ms is not None and index.last_ms < span.begin_ms
    return early or (span.end_ms is not None and index.first_ms >= span.end_ms)


def _of_days(file: Path, span: ReportRange) -> bool:
    """Return whether a file may have rows of the range, by the name of its folder."""
    day = file.parent.name.removeprefix(f"{DAY}=")
    begins = span.begin_ms is None or day >= _day(span.begin_ms)
    return begins and (span.end_ms is None or day <= _day(span.end_ms))


def _day(instant_ms: int) -> str:
    return datetime.fromtimestamp(instant_ms / 1000, UTC).strftime("%Y-%m-%d")
