"""A report of a history over a time range: outcomes, fences, the longest transactions, holders of partitions.

By SQL over the table. All rows are read for few columns only; whole rows are read of the notable ones, which lasted,
did not end by their client's will, or were open longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from exporter.jobs.history.table import DAY, HistoryError
from exporter.jobs.report.plots import bucket_ms
from exporter.jobs.spark_error import error_line
from exporter.model import TopicPartition
from exporter.transactions.outcome import LEAST_TRANSACTIONS, QUANTILE, suggested_timeout
from exporter.words import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

MOST = 50
"""Rows of a list in a report; the others are counted."""
MOST_HOLDS = 2_000
LEAST_HOLD_MS = 1000
UNCLEAN = (Outcome.TIMED_OUT.value, Outcome.FENCED.value)

_COUNTS = """
SELECT application, outcome, step, open_ms, count(*) AS transactions
FROM (
  SELECT application, outcome, unix_millis(complete) div {width_ms} AS step,
         CAST(rint(open_seconds * 1000) AS bigint) AS open_ms
  FROM {rows}
)
GROUP BY GROUPING SETS ((application, outcome, step), (application, open_ms))
"""
_QUANTILES = """
SELECT application, percentile(open_ms, array(0.5, 0.99, {quantile}, 1.0), transactions) AS quantiles
FROM {counts} WHERE step IS NULL AND open_ms IS NOT NULL GROUP BY application
"""
_LONGEST_MS = """
SELECT max(open_ms) FROM (
  SELECT open_ms, sum(sum(transactions)) OVER (ORDER BY open_ms DESC) AS as_long
  FROM {counts} WHERE step IS NULL AND open_ms IS NOT NULL GROUP BY open_ms
) WHERE as_long >= {most}
"""
_FENCED = """
SELECT transactional_id, application, count(*) AS times, unix_millis(max(complete)) AS last_ms
FROM {rows} WHERE outcome = 'fenced' GROUP BY transactional_id, application
ORDER BY times DESC, last_ms DESC, transactional_id, application LIMIT {most}
"""
# The LSO of a partition is the first offset of its oldest open transaction. The log has the times at which transactions
# began and completed, not their offsets: the one that began first is the holder, from the end of the previous holder. A
# transaction may have written to a partition later than it began; then it held it for less.
_HOLDS = """
SELECT *, end_ms - begin_ms AS held_ms FROM (
  SELECT place.topic, place.partition, transactional_id, application, producer_id, producer_epoch, outcome,
         unix_millis(complete) AS end_ms,
         unix_millis(greatest(begin, max(complete) OVER (
           PARTITION BY place ORDER BY begin, complete, log_partition, log_offset
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
         ))) AS begin_ms
  FROM (
    SELECT *, explode(partitions) AS place FROM {rows} WHERE unix_millis(complete) - unix_millis(begin) >= {least_ms}
  )
) WHERE end_ms - begin_ms >= {least_ms}
"""


class ReportRange(NamedTuple):
    """What is asked for: instants in Unix milliseconds, the end exclusive; None is unbounded."""

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


class Holder(NamedTuple):
    """The transaction that held a partition."""

    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    outcome: str


class Hold(NamedTuple):
    """One holder of one partition's LSO, from ``begin_ms`` to ``end_ms``."""

    partition: TopicPartition
    begin_ms: int
    end_ms: int
    holder: Holder

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.begin_ms) / 1000


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """A report. Lists have the worst first, at most ``MOST`` (``MOST_HOLDS``); ``holds_found`` counts all.

    ``begin_ms`` and ``end_ms`` bound what was found, ``width_ms`` is the width of a step of the timelines.
    ``newest_ms`` is when the newest transaction completed, None without one.
    """

    table: str
    newest_ms: int | None
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

    @property
    def unclean_found(self) -> int:
        """Number of transactions that did not end by their own client's will."""
        return self.counts.timed_out + self.counts.fenced


class _Cell(NamedTuple):
    """The key by which transactions are counted; ``step`` is the instant of completion in widths of the timeline."""

    application: str
    outcome: str
    step: int


def report(rows: DataFrame, span: ReportRange, table: str) -> HistoryReport:
    """Read the rows of a history; ``table`` is its name. Raises HistoryError."""
    try:
        return _report(_chosen(rows, span), span, table)
    except PySparkException as error:
        raise HistoryError(f"{table}: cannot be read: {error_line(error)}") from None


def _report(rows: DataFrame, span: ReportRange, table: str) -> HistoryReport:
    sql = rows.sparkSession.sql
    first_ms, last_ms = _one(rows.selectExpr("unix_millis(min(complete))", "unix_millis(max(complete))"))
    begin_ms = span.begin_ms if span.begin_ms is not None else first_ms or 0
    end_ms = span.end_ms if span.end_ms is not None else (last_ms or 0) + 1
    width = bucket_ms(begin_ms, max(end_ms, begin_ms + 1))
    counts = sql(_COUNTS, rows=rows, width_ms=width).persist()
    cells = {
        _Cell(row.application, row.outcome, row.step): row.transactions
        for row in counts.where("step IS NOT NULL").collect()
    }
    quantiles = {row.application: row.quantiles for row in sql(_QUANTILES, counts=counts, quantile=QUANTILE).collect()}
    longest_ms, *_ = _one(sql(_LONGEST_MS, counts=counts, most=MOST))
    notable = rows.where(
        (f.unix_millis("complete") - f.unix_millis("begin") >= LEAST_HOLD_MS)
        | f.col("outcome").isin(*UNCLEAN)
        | (f.col("open_seconds") * 1000 >= (longest_ms or 0) - 0.5)
    ).persist()
    holds = sql(_HOLDS, rows=notable, least_ms=LEAST_HOLD_MS).persist()
    held = holds.groupBy("topic", "partition").agg(f.count("*").alias("times"), f.sum("held_ms").alias("held_ms"))
    held_rows = held.collect()
    starts = tuple(range(begin_ms // width * width, max(end_ms, begin_ms + 1), width))
    found = HistoryReport(
        table,
        last_ms,
        begin_ms,
        end_ms,
        width,
        _counts(cells),
        starts,
        _timeline(cells, starts, width),
        _applications(cells, quantiles, starts, width),
        tuple(Fenced(*row) for row in sql(_FENCED, rows=notable, most=MOST).collect()),
        _transactions(notable.where("open_seconds IS NOT NULL"), "open_seconds"),
        _transactions(notable.where(f.col("outcome").isin(*UNCLEAN)), "complete"),
        tuple(
            Hold(
                TopicPartition(row.topic, row.partition),
                row.begin_ms,
                row.end_ms,
                Holder(row.transactional_id, row.application, row.producer_id, row.producer_epoch, row.outcome),
            )
            for row in holds.orderBy(f.desc("held_ms"), "begin_ms", "topic", "partition").limit(MOST_HOLDS).collect()
        ),
        sum(row.times for row in held_rows),
        tuple(
            (TopicPartition(row.topic, row.partition), row.held_ms / 1000)
            for row in sorted(held_rows, key=lambda row: (-row.held_ms, row.topic, row.partition))[:MOST]
        ),
    )
    for frame in (holds, notable, counts):
        frame.unpersist()
    return found


def _chosen(rows: DataFrame, span: ReportRange) -> DataFrame:
    """The rows that are asked for; of other days no file is read."""
    if span.begin_ms is not None:
        begin = f.timestamp_millis(f.lit(span.begin_ms))
        rows = rows.where((f.col("complete") >= begin) & (f.col(DAY) >= f.to_date(begin)))
    if span.end_ms is not None:
        end = f.timestamp_millis(f.lit(span.end_ms))
        rows = rows.where((f.col("complete") < end) & (f.col(DAY) <= f.to_date(end)))
    if span.application is not None:
        rows = rows.where(f.col("application") == span.application)
    return rows


def _one(rows: DataFrame) -> Row:
    [row] = rows.collect()
    return row


def _counts(cells: Mapping[_Cell, int]) -> Counts:
    found = dict.fromkeys(Outcome, 0)
    for cell, count in cells.items():
        found[Outcome(cell.outcome)] += count
    return Counts(*(found[outcome] for outcome in Outcome))


def _timeline(cells: Mapping[_Cell, int], starts: Sequence[int], width: int) -> tuple[Counts, ...]:
    """Counts by outcome in each step."""
    by_step: dict[int, dict[_Cell, int]] = {}
    for cell, count in cells.items():
        by_step.setdefault(cell.step, {})[cell] = count
    return tuple(_counts(by_step.get(start // width, {})) for start in starts)


def _applications(
    cells: Mapping[_Cell, int], quantiles: Mapping[str, Sequence[float]], starts: Sequence[int], width: int
) -> tuple[ApplicationSummary, ...]:
    """The ones with unclean ends first, then the busiest."""
    by_name: dict[str, dict[_Cell, int]] = {}
    for cell, number in cells.items():
        by_name.setdefault(cell.application, {})[cell] = number
    found = []
    for name, own in by_name.items():
        known: Sequence[float | None] = [millis / 1000 for millis in quantiles.get(name, ())] or (None,) * 4
        median, p99, p999, longest = known
        timeline = _timeline(own, starts, width)
        found.append(ApplicationSummary(name, _counts(own), median, p99, p999, longest, timeline))
    found.sort(
        key=lambda application: (
            -(application.counts.fenced + application.counts.timed_out),
            -application.counts.total,
            application.name,
        )
    )
    return tuple(found)


def _transactions(rows: DataFrame, column: str) -> tuple[TransactionSummary, ...]:
    """The rows with the highest values of a column, these first; of equal ones, those earlier in the log."""
    top = rows.orderBy(f.desc(column), "log_partition", "log_offset").limit(MOST)
    named = top.select(
        *("transactional_id", "application", "producer_id", "producer_epoch", "outcome"),
        f.unix_millis("begin").alias("begin_ms"),
        f.unix_millis("complete").alias("complete_ms"),
        *("open_seconds", "completion_seconds", "timeout_ms", "partitions"),
    )
    return tuple(TransactionSummary._make((*row[:-1], _places(row.partitions))) for row in named.collect())


def _places(partitions: Sequence[Row] | None) -> tuple[TopicPartition, ...] | None:
    return None if partitions is None else tuple(TopicPartition(*place) for place in partitions)
