"""A history's report as JSON: the output of ``history report --output json``. Its keys are stable."""

from __future__ import annotations

from exporter.core.documents import document_of
from exporter.core.durations import seconds_of
from exporter.jobs.history.report import ApplicationSummary, HistoryReport, Hold, TransactionSummary
from exporter.views.command_documents import (
    HeldSeconds,
    HistoryApplication,
    HistoryFences,
    HistoryHold,
    HistoryOutput,
    HistoryTransaction,
)


def document(found: HistoryReport) -> HistoryOutput:
    """The report for programs: instants as Unix seconds, as in ``/api/v1/status``."""
    return document_of(
        HistoryOutput,
        found,
        **{"from": found.begin_ms / 1000, "to": found.end_ms / 1000},
        newest=seconds_of(found.newest_ms),
        transactions=found.counts.total,
        outcomes=found.counts._asdict(),
        applications=list(map(_application, found.applications)),
        timeline={
            "step_seconds": found.width_ms / 1000,
            "starts": [start / 1000 for start in found.starts],
            "outcomes": [counts._asdict() for counts in found.timeline],
        },
        fences=[
            document_of(HistoryFences, fenced, count=fenced.times, last=fenced.last_ms / 1000)
            for fenced in found.fenced
        ],
        longest=list(map(_transaction, found.longest)),
        unclean_ends=list(map(_transaction, found.unclean)),
        holds=list(map(_hold, found.holds)),
        held=[document_of(HeldSeconds, partition, seconds=seconds) for partition, seconds in found.held_seconds],
    )


def _application(summary: ApplicationSummary) -> HistoryApplication:
    return document_of(
        HistoryApplication,
        summary,
        application=summary.name,
        transactions=summary.counts.total,
        outcomes=summary.counts._asdict(),
        abort_ratio=summary.counts.ratio("aborted"),
        timeout_ratio=summary.counts.ratio("timed_out"),
        open_seconds={"median": summary.median, "p99": summary.p99, "p999": summary.p999, "max": summary.longest},
        suggested_timeout_seconds=summary.suggested_timeout,
        timeline=[counts._asdict() for counts in summary.timeline],
    )


def _hold(hold: Hold) -> HistoryHold:
    times = {"from": hold.begin_ms / 1000, "to": hold.end_ms / 1000, "seconds": hold.seconds}
    return document_of(HistoryHold, hold.holder, **hold.partition._asdict(), **times)


def _transaction(transaction: TransactionSummary) -> HistoryTransaction:
    return document_of(
        HistoryTransaction,
        transaction,
        begin=seconds_of(transaction.begin_ms),
        complete=seconds_of(transaction.complete_ms),
        timeout_seconds=seconds_of(transaction.timeout_ms),
    )
