"""A history's report as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from exporter import __version__
from exporter.bounds.text import some
from exporter.core.durations import format_age
from exporter.jobs.history.report import (
    MOST,
    ApplicationSummary,
    Counts,
    Fenced,
    HistoryReport,
    Hold,
    TransactionSummary,
)
from exporter.jobs.report.html_page import Block, Note, PageSection, Plot, ReportPage, Table
from exporter.jobs.report.plots import PlotSpan, bars, lanes
from exporter.model import TopicPartition
from exporter.words import Outcome

MOST_PLOTTED = 12
MOST_LANES = 20
MOST_NAMED = 3
_NUMBERS = frozenset({
    "transactions", "committed", "aborted", "timed out", "fenced", "not committed", "median",
    "p99", "longest", "suggested timeout",
    "open", "markers", "timeout", "producer id", "epoch", "times", "held at most",
    "begin", "completed", "from", "to", "last",
})  # fmt: skip


def verdict(found: HistoryReport) -> tuple[str, str]:
    """Level and first line: what did not end by its own client's will."""
    if not found.counts.total and not found.unclean_found:
        return "blind", "No transactions in this time"
    if not found.unclean_found:
        return "good", f"{found.counts.total:,} transactions, all ended by their own clients"
    parts = (
        (found.counts.fenced, "fenced"),
        (found.counts.timed_out, "timed out"),
    )
    return "bad", ", ".join(f"{count:,} {what}" for count, what in parts if count)


def page_of(found: HistoryReport) -> ReportPage:
    """The whole report."""
    level, text = verdict(found)
    counts = found.counts
    details = [
        f"{counts.total:,} transactions of {len(found.applications):,} applications in {found.table}.",
        f"Completed from {second_of(found.begin_ms)} to {second_of(found.end_ms)} (UTC).",
    ]
    facts = [(name.replace("_", " "), f"{getattr(counts, name):,}") for name in Outcome]
    facts.append(("not committed", ratio(counts.not_committed)))
    facts.append(("newest transaction", "none" if found.newest_ms is None else second_of(found.newest_ms)))
    return ReportPage(
        f"kafka-eos-exporter · history · {found.table}",
        level,
        text,
        details,
        facts,
        _sections(found) if counts.total else (),
        f"kafka-eos-exporter {__version__} · instants are UTC, by the coordinators' clocks",
    )


def _sections(found: HistoryReport) -> Sequence[PageSection]:
    return [
        PageSection("Transactions over time", _over_time(found)),
        PageSection("Applications", _applications(found)),
        PageSection("Who held the last stable offset", _holds(found)),
        PageSection("Ends that no client asked for, newest first", [_transactions(found.unclean, "none")]),
        PageSection("Ids that were fenced", [_fenced(found)]),
        PageSection("Longest transactions", [_transactions(found.longest, "none whose begin is known")]),
    ]


def _plot(
    timeline: Sequence[Counts], found: HistoryReport, kinds: Sequence[str], caption: str, height: int = 220
) -> Plot:
    stacks = {kind: [getattr(counts, kind) for counts in timeline] for kind in kinds}
    return Plot(bars(found.starts, found.width_ms, stacks, height=height), f"{caption} {_step(found)}")


def _step(found: HistoryReport) -> str:
    step = f"{found.width_ms} ms" if found.width_ms < 1000 else format_age(found.width_ms / 1000)
    return f"One bar is {step}."


# The rare outcomes are at the bottom, on the line, where a pixel is visible.
_OTHERS = ("fenced", "timed_out", "aborted")
_ALL = (*_OTHERS, "committed")


def _over_time(found: HistoryReport) -> list[Block]:
    blocks: list[Block] = [_plot(found.timeline, found, _ALL, "All applications, by outcome.")]
    if found.counts.total > found.counts.committed:
        blocks.append(_plot(found.timeline, found, _OTHERS, "The same without those that were committed.", 150))
    return blocks


def _applications(found: HistoryReport) -> list[Block]:
    rows = [application_row(application) for application in found.applications]
    marks = [
        "bad" if application.counts.fenced or application.counts.timed_out else "" for application in found.applications
    ]
    blocks: list[Block] = [Table(APPLICATION_COLUMNS, rows, _NUMBERS, marks, linked=True)]
    shown = [
        application for application in found.applications if application.counts.total > application.counts.committed
    ][:MOST_PLOTTED]
    if len(found.applications) > 1:
        blocks += [
            _plot(application.timeline, found, _OTHERS, f"{application.name}: what was not committed.", 130)
            for application in shown
        ]
    return blocks


def _holds(found: HistoryReport) -> list[Block]:
    if not found.holds:
        return [Note("No transaction held a partition's last stable offset for a second or longer.")]
    worst = [partition for partition, _ in found.held_seconds[:MOST_LANES]]
    rows = [
        (
            str(partition),
            [
                PlotSpan(
                    hold.begin_ms,
                    hold.end_ms,
                    hold.holder.outcome,
                    f"{hold.holder.transactional_id}, {seconds(hold.seconds)}, {hold.holder.outcome.replace('_', ' ')}",
                )
                for hold in found.holds
                if hold.partition == partition
            ],
        )
        for partition in worst
    ]
    begin = min(found.begin_ms, *(hold.begin_ms for hold in found.holds))
    plot = Plot(
        lanes(rows, begin, found.end_ms),
        "One lane for each partition: where a transaction holds its last stable offset, read_committed consumers wait.",
    )
    table = Table(
        HOLD_COLUMNS,
        [hold_row(hold) for hold in found.holds[:MOST]],
        _NUMBERS,
        ["" if hold.holder.outcome == "committed" else "bad" for hold in found.holds[:MOST]],
        more(min(len(found.holds), MOST), found.holds_found),
    )
    note = (
        "By begin and end of the transactions in the transaction log, which has no markers: one that came to a "
        "partition later held it for less, and so did one that somebody aborted there by hand. For the markers: "
        "kafka-eos-exporter audit markers."
    )
    return [plot, table, Note(note)]


def _fenced(found: HistoryReport) -> Block:
    if not found.fenced:
        return Note("None.")
    return Table(FENCED_COLUMNS, [fenced_row(fenced) for fenced in found.fenced], _NUMBERS)


def _transactions(rows: Sequence[TransactionSummary], nothing: str) -> Block:
    if not rows:
        return Note(nothing.capitalize() + ".")
    marks = ["" if row.outcome in {"committed", "aborted"} else "bad" for row in rows]
    return Table(TRANSACTION_COLUMNS, [transaction_row(row) for row in rows], _NUMBERS, marks)


# --- Rows, for the page and for the terminal ---

APPLICATION_COLUMNS = (
    "application", "transactions", "committed", "aborted", "timed out", "fenced", "not committed",
    "median", "p99", "longest", "suggested timeout",
)  # fmt: skip
TRANSACTION_COLUMNS = (
    "transactional.id", "producer id", "epoch", "outcome", "begin", "completed", "open", "markers", "timeout",
    "partitions",
)  # fmt: skip
HOLD_COLUMNS = ("partition", "transactional.id", "producer id", "epoch", "outcome", "from", "to", "held at most")
FENCED_COLUMNS = ("transactional.id", "application", "times", "last")


def application_row(application: ApplicationSummary) -> tuple[object, ...]:
    """Cells of ``APPLICATION_COLUMNS``."""
    counts = application.counts
    shown = (counts.total, counts.committed, counts.aborted, counts.timed_out, counts.fenced)
    return (
        application.name,
        *(f"{count:,}" for count in shown),
        ratio(counts.not_committed),
        *(
            seconds(value)
            for value in (application.median, application.p99, application.longest, application.suggested_timeout)
        ),
    )


def transaction_row(transaction: TransactionSummary) -> tuple[object, ...]:
    """Cells of ``TRANSACTION_COLUMNS``."""
    return (
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.outcome.replace("_", " "),
        "unknown" if transaction.begin_ms is None else second_of(transaction.begin_ms),
        second_of(transaction.complete_ms),
        seconds(transaction.open_seconds),
        seconds(transaction.completion_seconds),
        "none" if transaction.timeout_ms is None else seconds(transaction.timeout_ms / 1000),
        partitions(transaction.partitions),
    )


def hold_row(hold: Hold) -> tuple[object, ...]:
    """Cells of ``HOLD_COLUMNS``."""
    who = hold.holder
    return (
        str(hold.partition),
        who.transactional_id,
        who.producer_id,
        who.producer_epoch,
        who.outcome.replace("_", " "),
        second_of(hold.begin_ms),
        second_of(hold.end_ms),
        seconds(hold.seconds),
    )


def fenced_row(fenced: Fenced) -> tuple[object, ...]:
    """Cells of ``FENCED_COLUMNS``."""
    return fenced.transactional_id, fenced.application, fenced.times, second_of(fenced.last_ms)


def partitions(named: Sequence[TopicPartition] | None) -> str:
    """The first few by name, and how many more."""
    return "unknown" if named is None else some(sorted(named), MOST_NAMED)


def second_of(ms: int) -> str:
    """An instant in UTC, to the second."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def seconds(value: float | None) -> str:
    """A duration, with fewer digits the longer it is."""
    if value is None:
        return "unknown"
    if value >= 60:
        return format_age(value)
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


def ratio(value: float) -> str:
    """A share in percent; a value above 0 is never shown as 0 %."""
    if 0 < value < 0.0001:
        return "< 0.01 %"
    return f"{value:.2%}".replace("%", " %")


def more(shown: int, found: int) -> str:
    """The number of rows of a list that are not shown."""
    return f"{found - shown:,} shorter ones are not shown." if found > shown else ""
