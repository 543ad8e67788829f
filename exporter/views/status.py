"""The status document: pure functions over the runner's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.audit_results.result import AuditResults
from exporter.audit_results.torn_markers import torn_markers
from exporter.cluster import ClusterIdentity
from exporter.connect.facts import ConnectState
from exporter.core.documents import LateDocuments, document_of
from exporter.core.durations import instant
from exporter.core.runner import GroupState
from exporter.core.source_state import SourceState
from exporter.core.thresholds import Owners
from exporter.flink.facts import FlinkTransactions
from exporter.lso.facts import Stalls, StallWatch
from exporter.model import IgnoredSubject, IgnoredSubjects
from exporter.posture.check import CheckResult
from exporter.posture.evidence import Posture
from exporter.spark.queries import SparkView
from exporter.transactions.counting.last_hour import LastHour
from exporter.transactions.facts import CoordinatorTime, ExpiredIds, OpenTransaction, OpenTransactions, UncleanEnds
from exporter.views import documents as docs
from exporter.views.pipelines import audit_document, connect_document, query_document
from exporter.views.stalls import Links, StallContext
from exporter.views.transactions import (
    open_transaction_document,
    unclean_end_document,
    unclean_id_document,
)
from exporter.words import AuditVerdict, Outcome, QueryState


def last_hour_document(noted: LastHour | None) -> docs.LastHourDocument | None:
    """How transactions ended in the last hour: None where the transaction log is not read.

    Lists by minute have ``minutes`` numbers, the oldest first; the last minute is not over. ``stopped_minutes`` is for
    how long an application that used to commit has not, else None.
    """
    view = noted.view() if noted is not None else None
    if view is None:
        return None
    applications: list[docs.ApplicationHourDocument] = [
        {
            "application": name,
            "outcomes": {outcome: minutes.total(outcome) for outcome in Outcome},
            "committed_per_minute": list(minutes.counts[Outcome.COMMITTED]),
            "stopped_minutes": minutes.stopped(),
        }
        for name, minutes in view.applications.items()
    ]
    return {
        "minutes": len(view.together.counts[Outcome.COMMITTED]),
        "outcomes_per_minute": {outcome: list(view.together.counts[outcome]) for outcome in Outcome},
        "applications": sorted(applications, key=_most_trouble),
        "applications_left_out": view.left_out,
        "fence_storms": [document_of(docs.FenceStormDocument, storm) for storm in view.storms],
    }


def _most_trouble(application: docs.ApplicationHourDocument) -> tuple[int, int, str]:
    """Most ends that are no commit first, then most commits."""
    outcomes = application["outcomes"]
    committed = outcomes[Outcome.COMMITTED]
    return committed - sum(outcomes.values()), -committed, application["application"]


def posture_document(posture: Posture | None) -> docs.PostureDocument | None:
    """The checks that failed or could not be made, and the number of each verdict; None before they were made."""
    if posture is None:
        return None
    return {
        "verdicts": {result: sum(check.verdict is result for check in posture.checks) for result in CheckResult},
        "failed": [
            document_of(docs.CheckDocument, check) for check in posture.checks if check.verdict is CheckResult.FAILED
        ],
        "unknown": [
            document_of(docs.CheckDocument, check) for check in posture.checks if check.verdict is CheckResult.UNKNOWN
        ],
    }


class ClusterSettings(NamedTuple):
    """Settings of a cluster: its name ("" for none), its bootstrap servers, and what its stalls are shown with."""

    name: str
    bootstrap_servers: str
    owners: Owners = Owners()
    links: Links = Links()


def document(
    groups: Sequence[GroupState],
    settings: Mapping[str, ClusterSettings],
    *,
    now: float,
    ready: bool,
    version: str,
) -> docs.StatusDocument:
    """The document of ``/api/v1/status``. ``settings`` are by group key, ``now`` is Unix seconds.

    Each stalled partition and each open transaction in it is made when it is looked at.

    Instants are RFC 3339 in UTC, and ``*_timestamp`` beside them Unix seconds. An empty list means none only where
    ``known`` is true.
    """
    return {
        "version": version,
        "generated_at": instant(now),
        "generated_at_timestamp": now,
        "ready": ready,
        "clusters": [_cluster(group, settings.get(group.key, ClusterSettings("", "")), now) for group in groups],
    }


def _cluster(group: GroupState, settings: ClusterSettings, now: float) -> docs.ClusterDocument:
    identity = group.facts.get(ClusterIdentity)
    stalls = group.facts.get(Stalls)
    opened = group.facts.get(OpenTransactions)
    ends = group.facts.get(UncleanEnds)
    expired = group.facts.get(ExpiredIds)
    watch = group.facts.get(StallWatch)
    spark = group.facts.get(SparkView) or SparkView({}, {})
    audits = group.facts.get(AuditResults)
    torn = torn_markers(audits)
    named = next((source.cluster for source in group.sources if source.cluster), "")
    bootstrap_servers = settings.bootstrap_servers or (identity.bootstrap_servers if identity else "")
    transactions = sorted(opened.transactions if opened else (), key=_age_order)
    time = group.facts.get(CoordinatorTime) or CoordinatorTime()
    theirs = time.now(now)
    flink = group.facts.get(FlinkTransactions) or FlinkTransactions({})
    ignored = _ignored(group)
    reasons = {subject.subject: subject.reason for subject in ignored if subject.kind == "topic"}
    names = (settings.name or named, bootstrap_servers)
    context = StallContext.of(group, names, now, reasons, settings.owners, settings.links)

    def open_transaction(transaction: OpenTransaction) -> docs.OpenTransactionDocument:
        return open_transaction_document(transaction, theirs, flink.by_producer.get(transaction.producer_id))

    return {
        "name": names[0],
        "cluster_id": identity.cluster_id if identity else None,
        "bootstrap_servers": bootstrap_servers,
        "transaction_version": identity.transaction_version if identity else None,
        "brokers": identity.brokers if identity else None,
        "known": {
            "stalled_partitions": stalls is not None,
            "open_transactions": opened is not None and opened.complete,
            "unclean_ends": ends is not None,
            "stalls_watched_seconds": max(0.0, now - watch.since) if watch is not None else None,
            "stall_after_seconds": watch.stall_after if watch is not None else None,
        },
        "missing": list(opened.missing) if opened else [],
        "clock_distance_seconds": time.distance,
        "sources": [_source(state, now) for state in group.sources],
        "stalled_partitions": LateDocuments(stalls.stalls if stalls else (), context.document),
        "open_transactions": LateDocuments(transactions, open_transaction),
        "unclean_ends": [unclean_end_document(end, theirs) for end in (ends.ends if ends else ())],
        "torn_markers": None
        if torn is None
        else [
            document_of(
                docs.TornMarkerDocument, marker, completed_timestamp=marker.completed, audited_timestamp=marker.audited
            )
            for marker in torn
        ],
        "unclean_ids": [unclean_id_document(unclean, theirs) for unclean in (ends.ids if ends else ())],
        "unclean_ends_of_other_ids": ends.of_other_ids if ends else 0,
        "expired_ids": [document_of(docs.ExpiredIdDocument, found) for found in (expired.ids if expired else ())],
        "connect": [
            connect_document(state) for state in sorted(group.facts.all(ConnectState), key=lambda connect: connect.name)
        ],
        "spark": LateDocuments(
            sorted(spark.queries.items(), key=lambda query: query[1].state is not QueryState.FAILED),
            lambda query: query_document(*query, spark.lags.get(query[0]), now),
        ),
        "audits": LateDocuments(
            sorted(audits.results if audits else (), key=lambda result: result.verdict is not AuditVerdict.FINDINGS),
            lambda result: audit_document(result, now),
        ),
        "last_hour": last_hour_document(group.facts.get(LastHour)),
        "posture": posture_document(group.facts.get(Posture)),
        "ignored": [document_of(docs.IgnoredDocument, subject) for subject in ignored],
    }


def _ignored(group: GroupState) -> list[IgnoredSubject]:
    """Return the subjects that the settings ignore, and the sources that may be down."""
    found = {subject for fact in group.facts.all(IgnoredSubjects) for subject in fact.subjects}
    sources = (
        IgnoredSubject("source", f"{state.source}/{state.target}", state.ignored)
        for state in group.sources
        if state.ignored is not None
    )
    return sorted((*found, *sources))


def _source(state: SourceState, now: float) -> docs.SourceDocument:
    return document_of(
        docs.SourceDocument,
        state,
        last_success_seconds_ago=None if state.last_success is None else max(0.0, now - state.last_success),
        duration_seconds=state.duration,
        faults=[document_of(docs.FaultDocument, fault) for fault in state.faults],
    )


def _age_order(transaction: OpenTransaction) -> tuple[float, str]:
    """Sort key: oldest first; one without a known start comes last."""
    return (float("inf") if transaction.started is None else transaction.started), transaction.transactional_id
