"""A report of a history over a time range: outcomes, fences, the longest transactions, holders of partitions.

By pyarrow, without a JVM: only the columns and days that are needed are read, a part of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from exporter.jobs.history.files import ReportRange
from exporter.jobs.history.holds import Hold, Lasting, holds_of
from exporter.jobs.history.index import HistoryError
from exporter.jobs.history.tally import LEAST_HOLD_MS, MOST, MOST_LASTING, Cell, HistoryTally
from exporter.jobs.report.plots import bucket_ms
from exporter.model import TopicPartition
from exporter.transactions.suggested_timeout import LEAST_TRANSACTIONS, QUANTILE, suggested_timeout
from exporter.words import Outcome

MOST_HOLDS = 2_000
_WHO = ("transactional_id", "application", "producer_id", "producer_epoch", "outcome")
_ROWS_AT_ONCE = 10_000


class Counts(NamedTuple):
    """Transactions by outcome."""

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    fenced: int = 0

    @property
    def total(self) -> int:
        return sum(self)

    def ratio(self, outcome: str) -> float:
        count: int = getattr(self, outcome)
        return count / self.total if self.total else 0.0

    @property
    def not_committed(self) -> float:
        """Return the share that was aborted, timed out or was fenced."""
        return 1 - self.ratio("committed") if self.total else 0.0


class ApplicationSummary(NamedTuple):
    """One application. ``median`` to ``longest`` are seconds open, None where no begin is known."""

    name: str
    counts: Counts
    median: float | None
    p99: float | None
    p999: float | None
    longest: float | None
    timeline: tuple[Counts, ...]

    @property
    def suggested_timeout(self) -> float | None:
        """Seconds of transaction.timeout.ms by its own durations; None of fewer than ``LEAST_TRANSACTIONS``."""
        if self.p999 is None or self.counts.total < LEAST_TRANSACTIONS:
            return None
        return suggested_timeout(self.p999)


class TransactionSummary(NamedTuple):
    """A row that a report shows."""

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    outcome: str
    begin_ms: int | None
    complete_ms: int
    open_seconds: float | None
    completion_seconds: float
    timeout_ms: int | None
    partitions: tuple[TopicPartition, ...] | None


class Fenced(NamedTuple):
    """An id that was fenced: how often, and when last."""

    transactional_id: str
    application: str
    times: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """A report. Lists have the worst first, at most ``MOST`` (``MOST_HOLDS``); ``holds_found`` counts all.

    ``begin_ms`` and ``end_ms`` bound what was found, ``width_ms`` is the width of a step of the timelines. ``until_ms``
    is when the last batch was written, ``caveats`` has sentences on what may be missing.
    """

    cluster: str
    until_ms: int | None
    begin_ms: int
    end_ms: int
    width_ms: int
    counts: Counts
    starts: tuple[int, ...]
    timeline: tuple[Counts, ...]
    applications: tuple[ApplicationSummary, ...]
    fenced: tuple[Fenced, ...]
    longest: tuple[TransactionSummary, ...]
    unclean: tuple[TransactionSummary, ...]
    holds: tuple[Hold, ...]
    holds_found: int
    held_seconds: tuple[tuple[TopicPartition, float], ...]
    caveats: tuple[str, ...]

    @property
    def unclean_found(self) -> int:
        """Number of transactions that did not end by their own client's will."""
        return self.counts.timed_out + self.counts.fenced


class HistorySource(Protocol):
    """A history in one format, as it is when it is read."""

    @property
    def cluster(self) -> str:
        """The name of its cluster."""

    def bounds(self, span: ReportRange) -> tuple[int, int]:
        """Instants between which all that is asked for completed, as close as is known without reading rows."""

    def counted(self, span: ReportRange, width_ms: int) -> HistoryTally:
        """Count all that is asked for."""

    def coverage(self) -> tuple[int | None, tuple[str, ...]]:
        """When the last batch was written, and what is missing according to the batches."""


def report(history: HistorySource, span: ReportRange) -> HistoryReport:
    """Read the history. Raises HistoryError."""
    try:
        tally = history.counted(span, _width(history.bounds(span)))
        begin_ms, end_ms = _found(tally, span)
        if (width := _width((begin_ms, end_ms))) != tally.width_ms:
            # One application may have a shorter history than all of them, and so narrower steps.
            tally = history.counted(span._replace(begin_ms=begin_ms, end_ms=end_ms), width)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"the history cannot be read: {str(error).partition(chr(10))[0]}") from None
    starts = tuple(range(begin_ms // width * width, max(end_ms, begin_ms + 1), width))
    holds = sorted(
        (hold for found in _lasting(tally) for hold in found),
        key=lambda hold: (-hold.seconds, hold.begin_ms, hold.partition),
    )
    held: dict[TopicPartition, float] = {}
    for hold in holds:
        held[hold.partition] = held.get(hold.partition, 0.0) + hold.seconds
    until_ms, caveats = history.coverage()
    if tally.lasting_found > MOST_LASTING:
        caveats += (f"holds rest on the {MOST_LASTING:,} transactions that were open longest",)
    return HistoryReport(
        history.cluster,
        until_ms,
        begin_ms,
        end_ms,
        width,
        _counts(tally.cells),
        starts,
        _timeline(tally.cells, starts, width),
        _applications(tally, starts),
        _fenced(tally),
        _rows(tally.longest),
        _rows(tally.unclean),
        tuple(holds[:MOST_HOLDS]),
        len(holds),
        tuple(sorted(held.items(), key=lambda item: (-item[1], item[0]))[:MOST]),
        caveats,
    )


def _width(bounds: tuple[int, int]) -> int:
    begin_ms, end_ms = bounds
    return bucket_ms(begin_ms, max(end_ms, begin_ms + 1))


def _found(tally: HistoryTally, span: ReportRange) -> tuple[int, int]:
    begin_ms = span.begin_ms if span.begin_ms is not None else tally.first_ms or 0
    return begin_ms, span.end_ms if span.end_ms is not None else (tally.last_ms or 0) + 1


def _counts(cells: Mapping[Cell, int]) -> Counts:
    found = dict.fromkeys(Outcome, 0)
    for cell, count in cells.items():
        found[Outcome(cell.outcome)] += count
    return Counts(*(found[outcome] for outcome in Outcome))


def _timeline(cells: Mapping[Cell, int], starts: Sequence[int], width: int) -> tuple[Counts, ...]:
    """Counts by outcome in each step."""
    by_step: dict[int, dict[Cell, int]] = {}
    for cell, count in cells.items():
        by_step.setdefault(cell.step, {})[cell] = count
    return tuple(_counts(by_step.get(start // width, {})) for start in starts)


def _applications(tally: HistoryTally, starts: Sequence[int]) -> tuple[ApplicationSummary, ...]:
    """The ones with unclean ends first, then the busiest."""
    by_name: dict[str, dict[Cell, int]] = {}
    for cell, number in tally.cells.items():
        by_name.setdefault(cell.application, {})[cell] = number
    found = []
    for name, cells in by_name.items():
        median, p99, p999, longest = tally.open_seconds(name, (0.5, 0.99, QUANTILE, 1.0))
        timeline = _timeline(cells, starts, tally.width_ms)
        found.append(ApplicationSummary(name, _counts(cells), median, p99, p999, longest, timeline))
    found.sort(
        key=lambda application: (
            -(application.counts.fenced + application.counts.timed_out),
            -application.counts.total,
            application.name,
        )
    )
    return tuple(found)


def _fenced(tally: HistoryTally) -> tuple[Fenced, ...]:
    found = (Fenced(identifier, name, *known) for (identifier, name), known in tally.fences.items())
    return tuple(sorted(found, key=lambda fenced: (-fenced.times, -fenced.last_ms, fenced))[:MOST])


def _rows(table: pa.Table) -> tuple[TransactionSummary, ...]:
    return tuple(
        TransactionSummary(
            row["transactional_id"],
            row["application"],
            row["producer_id"],
            row["producer_epoch"],
            row["outcome"],
            None if row["begin"] is None else _ms(row["begin"]),
            _ms(row["complete"]),
            row["open_seconds"],
            row["completion_seconds"],
            row["timeout_ms"],
            _named(row["partitions"]),
        )
        for row in table.to_pylist()
    )


def _lasting(tally: HistoryTally) -> Iterator[list[Hold]]:
    """The holds of each partition, from the transactions that lasted."""
    by_partition: dict[tuple[str, int], list[Lasting]] = {}
    for batch in tally.most_lasting().to_batches(max_chunksize=_ROWS_AT_ONCE):
        begins, completes = (batch[name].cast(pa.int64()).to_pylist() for name in ("begin", "complete"))
        who = (batch[name].to_pylist() for name in _WHO)
        rows = map(Lasting, begins, completes, *who)
        # Columns, not rows: a row as a dictionary takes several times as long.
        places = batch["partitions"].flatten()
        partitions = zip(places.field("topic").to_pylist(), places.field("partition").to_pylist(), strict=True)
        lengths = pc.fill_null(pc.list_value_length(batch["partitions"]), 0).to_pylist()
        for row, length in zip(rows, lengths, strict=True):
            for partition in islice(partitions, length):
                by_partition.setdefault(partition, []).append(row)
    for partition, found in by_partition.items():
        yield holds_of(TopicPartition(*partition), found, LEAST_HOLD_MS)


def _named(partitions: list[dict[str, Any]] | None) -> tuple[TopicPartition, ...] | None:
    if partitions is None:
        return None
    return tuple(TopicPartition(partition["topic"], partition["partition"]) for partition in partitions)


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
