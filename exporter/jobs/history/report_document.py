"""A history's report as JSON: the output of ``history report --output json``. Its keys are stable."""

from __future__ import annotations

from typing import Any

from exporter.jobs.history.report import HistoryReport, TransactionSummary


def document(found: HistoryReport) -> dict[str, Any]:
    """The report for programs: instants as Unix seconds, as in ``/api/v1/status``."""
    return {
        "kafka_cluster": found.cluster,
        "from": found.begin_ms / 1000,
        "to": found.end_ms / 1000,
        "written_until": None if found.until_ms is None else found.until_ms / 1000,
        "transactions": found.counts.total,
        "outcomes": found.counts._asdict(),
        "aborted_by_server": found.by_server,
        "applications": [
            {
                "application": each.name,
                "transactions": each.counts.total,
                "outcomes": each.counts._asdict(),
                "aborted_by_server": each.by_server,
                "abort_ratio": each.counts.ratio("aborted"),
                "timeout_ratio": each.counts.ratio("timed_out"),
                "open_seconds": {"median": each.median, "p99": each.p99, "max": each.longest},
                "timeline": [counts._asdict() for counts in each.timeline],
            }
            for each in found.applications
        ],
        "timeline": {
            "step_seconds": found.width_ms / 1000,
            "starts": [start / 1000 for start in found.starts],
            "outcomes": [counts._asdict() for counts in found.timeline],
        },
        "fences": [
            {
                "transactional_id": each.transactional_id,
                "application": each.application,
                "count": each.times,
                "last": each.last_ms / 1000,
            }
            for each in found.fenced
        ],
        "longest": [_transaction(each) for each in found.longest],
        "unclean_ends": [_transaction(each) for each in found.unclean],
        "holds": [
            {
                "topic": hold.partition.topic,
                "partition": hold.partition.partition,
                "from": hold.begin_ms / 1000,
                "to": hold.end_ms / 1000,
                "seconds": hold.seconds,
                **{key: value for key, value in hold.holder._asdict().items() if not key.endswith("_ms")},
            }
            for hold in found.holds
        ],
        "holds_found": found.holds_found,
        "held": [
            {"topic": partition.topic, "partition": partition.partition, "seconds": seconds}
            for partition, seconds in found.held_seconds
        ],
        "caveats": list(found.caveats),
    }


def _transaction(each: TransactionSummary) -> dict[str, Any]:
    fields = {
        key: value for key, value in each._asdict().items() if key not in {"begin_ms", "complete_ms", "timeout_ms"}
    }
    return fields | {
        "begin": None if each.begin_ms is None else each.begin_ms / 1000,
        "complete": each.complete_ms / 1000,
        "timeout_seconds": None if each.timeout_ms is None else each.timeout_ms / 1000,
        "partitions": None if each.partitions is None else [partition._asdict() for partition in each.partitions],
    }
