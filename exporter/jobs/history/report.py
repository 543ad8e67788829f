"""A report of a history over a time range: outcomes, fences, the longest transactions, holders of partitions.

By pyarrow, without a JVM: only the columns and days that are needed are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from exporter.jobs.history.holders import Hold, Lasting, holds_of
from exporter.jobs.history.store import BATCH_FILE, TABLE, HistoryError, Index, identity
from exporter.jobs.history.table import BATCH, DAY, SCHEMA
from exporter.jobs.history.torn import MarkerRecord, read_torn
from exporter.jobs.report.plots import bucket_ms
from exporter.model import Outcome, TopicPartition

MOST = 50
"""Rows of a list in a report; the others are counted."""
MOST_HOLDS = 2_000
MOST_LASTING = 200_000
LEAST_HOLD_MS = 1000


class ReportRange(NamedTuple):
    """What to report: transactions completed from ``begin_ms`` to before ``end_ms``, of one application or of all."""

    begin_ms: int | None = None
    end_ms: int | None = None
    application: str | None = None


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


class ApplicationSummary(NamedTuple):
    """One application. ``median`` to ``longest`` are seconds open, None where no begin is known."""

    name: str
    counts: Counts
    by_server: int
    median: float | None
    p99: float | None
    longest: float | None
    timeline: tuple[Counts, ...]


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
    by_server: int
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
    markers: MarkerRecord | None = None
    """What `history run --markers` compared; None where it did not. ``torn`` are those of the time range alone."""

    @property
    def unclean_found(self) -> int:
        """How many did not end by their own client's will."""
        torn = 0 if self.markers is None else len(self.markers.torn)
        return self.counts.timed_out + self.counts.fenced + self.by_server + torn


def report(folder: Path, span: ReportRange) -> HistoryReport:
    """Read the history in the folder. Raises HistoryError where there is none."""
    whose = identity(folder)
    if whose is None:
        raise HistoryError(f"--input {folder}: is not a history; give the --output of `history run`")
    table = _read(folder, span)
    until_ms, caveats = _coverage(folder)
    counts = _counts(table)
    by_server = pc.sum(table["ended_by_server"]).as_py() or 0
    completes = table["complete"].cast(pa.int64())
    begin_ms = span.begin_ms if span.begin_ms is not None else pc.min(completes).as_py() or 0
    newest = pc.max(completes).as_py() or 0
    end_ms = span.end_ms if span.end_ms is not None else newest + 1
    width = bucket_ms(begin_ms, max(end_ms, begin_ms + 1))
    starts = tuple(range(begin_ms // width * width, max(end_ms, begin_ms + 1), width))
    lasting, capped = _lasting(table)
    holds = sorted((hold for found in lasting for hold in found), key=lambda hold: -hold.seconds)
    held: dict[TopicPartition, float] = {}
    for hold in holds:
        held[hold.partition] = held.get(hold.partition, 0.0) + hold.seconds
    if capped:
        caveats += (f"holds rest on the {MOST_LASTING:,} transactions that were open longest",)
    return HistoryReport(
        str(whose.get("cluster_name") or whose["cluster_id"]),
        until_ms,
        begin_ms,
        end_ms,
        width,
        counts,
        by_server,
        starts,
        _timeline(table, starts, width),
        _applications(table, starts, width),
        _fenced(table),
        _rows(_top(table.filter(pc.is_valid(table["open_seconds"])), "open_seconds")),
        _rows(_top(table.filter(_unclean(table)), "complete")),
        tuple(holds[:MOST_HOLDS]),
        len(holds),
        tuple(sorted(held.items(), key=lambda item: -item[1])[:MOST]),
        caveats,
        _markers(folder, span, begin_ms, end_ms),
    )


def _markers(folder: Path, span: ReportRange, begin_ms: int, end_ms: int) -> MarkerRecord | None:
    """Torn places of the time range, whatever the application: readers of the topic see them all."""
    record = read_torn(folder)
    if record is None:
        return None
    until_ms = end_ms if span.end_ms is not None else record.until_ms + 1
    return record._replace(torn=tuple(each for each in record.torn if begin_ms <= each.completed_ms < until_ms))


def _read(folder: Path, span: ReportRange) -> pa.Table:
    partitioning = ds.partitioning(pa.schema([(BATCH, pa.int64()), (DAY, pa.string())]), flavor="hive")
    try:
        dataset = ds.dataset(folder / TABLE, format="parquet", partitioning=partitioning, schema=_WITH_DAY)
        wanted = pc.scalar(True)
        for bound, compare in ((span.begin_ms, pc.greater_equal), (span.end_ms, pc.less)):
            if bound is not None:
                instant = pa.scalar(bound, pa.timestamp("ms", tz="UTC"))
                wanted &= compare(ds.field("complete"), instant)
        # Whole days are passed over by their folders' names.
        if span.begin_ms is not None:
            wanted &= ds.field(DAY) >= _day(span.begin_ms)
        if span.end_ms is not None:
            wanted &= ds.field(DAY) <= _day(span.end_ms)
        if span.application is not None:
            wanted &= ds.field("application") == span.application
        return dataset.to_table(filter=wanted)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"--input {folder}: cannot be read: {str(error).splitlines()[0]}") from None


def _day(instant_ms: int) -> str:
    return datetime.fromtimestamp(instant_ms / 1000, UTC).strftime("%Y-%m-%d")


_WITH_DAY = pa.schema([*SCHEMA, pa.field(BATCH, pa.int64()), pa.field(DAY, pa.string())])


def _coverage(folder: Path) -> tuple[int | None, tuple[str, ...]]:
    """When the last batch was written, and what is missing according to the batches."""
    newest: int | None = None
    missing, undecodable, truncated = 0, 0, 0
    files = [*folder.glob(f"{TABLE}/{BATCH}=*/{BATCH_FILE}"), *folder.glob("_batches/*/index.json")]
    for file in files:
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
    caveats = []
    if missing:
        caveats.append(
            f"{missing:,} records were compacted away before they were read: some transactions may be missing"
        )
    if undecodable:
        caveats.append(f"{undecodable:,} records could not be decoded: some transactions may be missing")
    if truncated:
        caveats.append(f"the log was truncated {truncated} times: what was written there is missing")
    return newest, tuple(caveats)


def _counts(table: pa.Table) -> Counts:
    found = {row["values"]: row["counts"] for row in pc.value_counts(table["outcome"].combine_chunks()).to_pylist()}
    return Counts(*(found.get(outcome, 0) for outcome in Outcome))


def _unclean(table: pa.Table) -> Any:  # noqa: ANN401 -- pyarrow ships no types
    ended = pc.is_in(table["outcome"], pa.array([Outcome.TIMED_OUT.value, Outcome.FENCED.value]))
    return pc.or_(ended, table["ended_by_server"])


def _timeline(table: pa.Table, starts: Sequence[int], width: int) -> tuple[Counts, ...]:
    """Counts by outcome in each step."""
    steps = pc.divide(pc.subtract(table["complete"].cast(pa.int64()), starts[0]), width)
    grouped = (
        pa.table({"step": steps, "outcome": table["outcome"]})
        .group_by(["step", "outcome"])
        .aggregate([([], "count_all")])
    )
    found: dict[int, dict[str, int]] = {}
    for row in grouped.to_pylist():
        found.setdefault(row["step"], {})[row["outcome"]] = row["count_all"]
    return tuple(Counts(**found.get(step, {})) for step in range(len(starts)))


def _applications(table: pa.Table, starts: Sequence[int], width: int) -> tuple[ApplicationSummary, ...]:
    """The ones with unclean ends first, then the busiest."""
    found = []
    for name in pc.unique(table["application"]).to_pylist():
        mine = table.filter(pc.equal(table["application"], name))
        median, p99, longest = pc.quantile(mine["open_seconds"], [0.5, 0.99, 1.0]).to_pylist()
        counts = _counts(mine)
        by_server = pc.sum(mine["ended_by_server"]).as_py() or 0
        found.append(ApplicationSummary(name, counts, by_server, median, p99, longest, _timeline(mine, starts, width)))
    found.sort(key=lambda each: (-(each.counts.fenced + each.counts.timed_out + each.by_server), -each.counts.total))
    return tuple(found)


def _fenced(table: pa.Table) -> tuple[Fenced, ...]:
    mine = table.filter(pc.equal(table["outcome"], Outcome.FENCED.value))
    grouped = mine.group_by(["transactional_id", "application"]).aggregate([([], "count_all"), ("complete", "max")])
    rows = grouped.sort_by([("count_all", "descending"), ("complete_max", "descending")]).slice(0, MOST)
    return tuple(
        Fenced(row["transactional_id"], row["application"], row["count_all"], _ms(row["complete_max"]))
        for row in rows.to_pylist()
    )


def _top(table: pa.Table, column: str) -> pa.Table:
    return table.take(pc.select_k_unstable(table, k=min(MOST, table.num_rows), sort_keys=[(column, "descending")]))


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


def _lasting(table: pa.Table) -> tuple[Iterable[list[Hold]], bool]:
    """The holds of each partition, from the transactions that lasted; and whether there were too many of those."""
    lasted = pc.subtract(table["complete"].cast(pa.int64()), table["begin"].cast(pa.int64()))
    long = table.append_column("lasted", lasted).filter(pc.greater_equal(lasted, LEAST_HOLD_MS))
    capped = long.num_rows > MOST_LASTING
    if capped:
        long = long.take(pc.select_k_unstable(long, k=MOST_LASTING, sort_keys=[("lasted", "descending")]))
    by_partition: dict[TopicPartition, list[Lasting]] = {}
    columns = (
        "transactional_id",
        "application",
        "producer_id",
        "producer_epoch",
        "outcome",
        "begin",
        "complete",
        "partitions",
    )
    for row in long.select(columns).to_pylist():
        who = (row["transactional_id"], row["application"], row["producer_id"], row["producer_epoch"], row["outcome"])
        each = Lasting(_ms(row["begin"]), _ms(row["complete"]), *who)
        for partition in _named(row["partitions"]) or ():
            by_partition.setdefault(partition, []).append(each)
    return [holds_of(partition, found, LEAST_HOLD_MS) for partition, found in by_partition.items()], capped


def _named(partitions: list[dict[str, Any]] | None) -> tuple[TopicPartition, ...] | None:
    if partitions is None:
        return None
    return tuple(TopicPartition(each["topic"], each["partition"]) for each in partitions)


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
