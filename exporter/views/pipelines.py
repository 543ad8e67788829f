"""Connect clusters, streaming queries and audits as parts of the status document. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from exporter.audit_results.result import AuditResult, Finding
from exporter.connect.facts import ConnectState
from exporter.connect.rest import Connector, Task
from exporter.core.documents import LateDocuments, document_of
from exporter.posture.connect import interval_hint
from exporter.spark.queries import Lag, QueryKey, StreamingQuery
from exporter.views import documents as docs
from exporter.words import FailureCause, QueryState


def connect_document(state: ConnectState) -> docs.ConnectDocument:
    """A Connect cluster: its tasks by state, and the failed ones with their reasons."""
    tasks = [task for connector in state.connectors for task in connector.tasks]
    failed: list[tuple[Connector, Task | None]] = [
        (connector, None) for connector in state.connectors if connector.state == "failed"
    ]
    failed += [
        (connector, task) for connector in state.connectors for task in connector.tasks if task.state == "failed"
    ]
    return {
        "name": state.name,
        "connectors": len(state.connectors),
        "tasks": dict(sorted(Counter(task.state or "unknown" for task in tasks).items())),
        "plugins": _plugins(state.connectors),
        "failed": LateDocuments(failed, lambda failure: _failed(*failure)),
        "notes": list(state.notes),
    }


def _plugins(connectors: Sequence[Connector]) -> list[docs.PluginDocument]:
    """The plugins in use: class, version on a worker, and number of connectors."""
    counts = Counter(
        (connector.plugin.rpartition(".")[2], connector.version) for connector in connectors if connector.plugin
    )
    return [
        {"class": name, "version": version or None, "connectors": number}
        for (name, version), number in sorted(counts.items())
    ]


_EXPIRED = frozenset({FailureCause.INVALID_EPOCH, FailureCause.FENCED, FailureCause.TIMEOUT})


def _failed(connector: Connector, task: Task | None) -> docs.ConnectFailureDocument:
    """A failed task, or connector where ``task`` is None. ``error`` is the end of its trace."""
    failure = task or connector
    return {
        "connector": connector.name,
        "task": task.task if task else None,
        "worker": failure.worker,
        "cause": task.cause if task else None,
        "error": failure.error,
        "hint": interval_hint(connector) if task is not None and task.cause in _EXPIRED else None,
    }


def query_document(key: QueryKey, query: StreamingQuery, lag: Lag | None, now: float) -> docs.QueryDocument:
    """A streaming query; ``state`` is None without a recent report, ``lag_offsets`` where it is not known."""
    return document_of(
        docs.QueryDocument,
        query,
        **key._asdict(),
        ended_by=query.ends[-1].reason if query.state is QueryState.FAILED and query.ends else None,
        seconds=None if query.last_progress is None else max(0.0, now - query.last_progress),
        uncommitted_batches=query.uncommitted,
        lag_offsets=lag.lag if lag else None,
        blocked_offsets=lag.blocked if lag else None,
    )


def audit_document(result: AuditResult, now: float) -> docs.AuditDocument:
    """The last run of an audit, each finding with the worst of its examples."""
    return document_of(
        docs.AuditDocument,
        result,
        topics=sorted(result.topics),
        finished_timestamp=result.finished_at,
        seconds_ago=max(0.0, now - result.finished_at),
        findings=LateDocuments(result.findings, _finding_document),
    )


def _finding_document(finding: Finding) -> docs.AuditFindingDocument:
    example = finding.examples[0] if finding.examples else {}
    place = {key: example.get(key) for key in ("partition", "offset")}
    return document_of(docs.AuditFindingDocument, finding, **place)
