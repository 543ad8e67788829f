"""A history's report as JSON: the output of ``history report --output json``. Its keys are stable."""

from __future__ import annotations

from exporter.jobs.history.report import Counts, HistoryReport, TransactionSummary
from exporter.jobs.history.torn import MarkerRecord
from exporter.status.command_documents import HistoryCounts, HistoryMarkers, HistoryOutput, HistoryTransaction


def document(found: HistoryReport) -> HistoryOutput:
    """The report for programs: instants as Unix seconds, as in ``/api/v1/status``."""
    return {
        "kafka_cluster": found.cluster,
        "from": found.begin_ms / 1000,
        "to": found.end_ms / 1000,
        "written_until": None if found.until_ms is None else found.until_ms / 1000,
        "transactions": found.counts.total,
        "outcomes": _counts(found.counts),
        "aborted_by_server": found.by_server,
        "applications": [
            {
                "application": application.name,
                "transactions": application.counts.total,
                "outcomes": _counts(application.counts),
                "aborted_by_server": application.by_server,
                "abort_ratio": application.counts.ratio("aborted"),
                "timeout_ratio": application.counts.ratio("timed_out"),
                "open_seconds": {
                    "median": application.median,
                    "p99": application.p99,
                    "p999": application.p999,
                    "max": application.longest,
                },
                "suggested_timeout_seconds": application.suggested_timeout,
                "timeline": [_counts(counts) for counts in application.timeline],
            }
            for application in found.applications
        ],
        "timeline": {
            "step_seconds": found.width_ms / 1000,
            "starts": [start / 1000 for start in found.starts],
            "outcomes": [_counts(counts) for counts in found.timeline],
        },
        "fences": [
            {
                "transactional_id": fenced.transactional_id,
                "application": fenced.application,
                "count": fenced.times,
                "last": fenced.last_ms / 1000,
            }
            for fenced in found.fenced
        ],
        "longest": [_transaction(transaction) for transaction in found.longest],
        "unclean_ends": [_transaction(transaction) for transaction in found.unclean],
        "holds": [
            {
                "topic": hold.partition.topic,
                "partition": hold.partition.partition,
                "from": hold.begin_ms / 1000,
                "to": hold.end_ms / 1000,
                "seconds": hold.seconds,
                "transactional_id": hold.holder.transactional_id,
                "application": hold.holder.application,
                "producer_id": hold.holder.producer_id,
                "producer_epoch": hold.holder.producer_epoch,
                "outcome": hold.holder.outcome,
            }
            for hold in found.holds
        ],
        "holds_found": found.holds_found,
        "held": [
            {"topic": partition.topic, "partition": partition.partition, "seconds": seconds}
            for partition, seconds in found.held_seconds
        ],
        "caveats": list(found.caveats),
        "markers": None if found.markers is None else _markers(found.markers),
    }


def _markers(record: MarkerRecord) -> HistoryMarkers:
    return {
        "from": record.from_ms / 1000,
        "until": record.until_ms / 1000,
        "transactions": record.compared,
        "torn": [
            {
                "transactional_id": torn.transactional_id,
                "producer_id": torn.producer_id,
                "decided": torn.decided.lower(),
                "topic": torn.topic,
                "partition": torn.partition,
                "found": torn.found,
                "completed": torn.completed_ms / 1000,
            }
            for torn in record.torn
        ],
        "not_compared": list(record.questions),
    }


def _transaction(transaction: TransactionSummary) -> HistoryTransaction:
    return {
        "transactional_id": transaction.transactional_id,
        "application": transaction.application,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "outcome": transaction.outcome,
        "open_seconds": transaction.open_seconds,
        "completion_seconds": transaction.completion_seconds,
        "begin": None if transaction.begin_ms is None else transaction.begin_ms / 1000,
        "complete": transaction.complete_ms / 1000,
        "timeout_seconds": None if transaction.timeout_ms is None else transaction.timeout_ms / 1000,
        "partitions": None
        if transaction.partitions is None
        else [{"topic": place.topic, "partition": place.partition} for place in transaction.partitions],
    }


def _counts(counts: Counts) -> HistoryCounts:
    return {
        "committed": counts.committed,
        "aborted": counts.aborted,
        "timed_out": counts.timed_out,
        "fenced": counts.fenced,
    }
