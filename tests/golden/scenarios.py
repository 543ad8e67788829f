"""Samples of sources in a few situations, for whole /metrics pages. Instants are fixed; every family occurs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from exporter import catalogue as c
from exporter.core.runner import Group
from exporter.model import Deadline, Distribution, Fact, Facts, Fault, IgnoredSource, Reason, Sample
from exporter.transactions.source.txnlog import NOT_GRANTED
from exporter.words import TransactionState

WALL = 1_795_255_200.0  # 2026-11-21 10:00:00 UTC


@dataclass(frozen=True)
class GivenItems:
    """A source that yields given items."""

    name: str
    cluster: str
    said: tuple[Sample | Fault | Fact, ...]
    pace: float = 3600.0
    interval: float = 3600.0
    timeout: float = 10.0

    @property
    def target(self) -> str:
        return self.cluster

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        yield from self.said

    def close(self) -> None:
        """The source holds no resources."""


def lso(cluster: str) -> Iterator[Sample]:
    for topic, lag in (("orders", 0), ("payments", 42), ("__consumer_offsets", 0)):
        yield c.TOPIC_LSO_LAG_OFFSETS(lag, cluster, topic)
        yield c.STALLED_PARTITIONS(float(lag > 0), cluster, topic)
        yield c.HANGING_TRANSACTIONS(0, cluster, topic)
        yield c.TOPIC_WITHHELD_RECORD_AGE_SECONDS(412.25 * (lag > 0), cluster, topic)


def torn(cluster: str) -> Iterator[Sample]:
    yield c.AUDIT_FINDINGS(1, cluster, "kafka-1:9092", c.MARKERS_AUDIT, "payments", "torn_commit")


def stalled(cluster: str) -> Iterator[Sample]:
    yield from lso(cluster)
    yield c.LSO_STALLED_SINCE_TIMESTAMP_SECONDS(WALL - 412.25, cluster, "payments", "7")
    yield c.LSO_LAG_OFFSETS(42, cluster, "payments", "7")
    yield c.LSO_STALLED_LEADER_ID(3, cluster, "payments", "7")
    yield c.LSO_BLOCKER_INFO(1, cluster, "pay", "payments", "7", "pay-3", "4711", "5", "1204981", "open")
    holder = (cluster, "pay", "pay-3", "4711", "open")
    yield c.LSO_HOLDER_PARTITIONS(1, *holder)
    for severity, seconds in (("warning", 300), ("critical", 900)):
        yield c.LSO_HOLDER_DUE_TIMESTAMP_SECONDS(WALL - 412.25 + seconds, *holder, severity)
        yield c.TOPIC_THRESHOLD_SECONDS(seconds, cluster, "payments", f"stall_{severity}")
    yield c.IGNORED_INFO(1, cluster, "topic", "test-1", "a playground")


def transactions(cluster: str) -> Iterator[Sample]:
    yield c.CLUSTER_INFO(1, cluster, "S6qi0JT5RqxOL6DBirsJtQ", "k1:9092,k2:9092", "2")
    for topic in c.INTERNAL_TOPICS:
        for condition in ("total", "offline", "under_replicated", "under_min_isr"):
            yield c.INTERNAL_TOPIC_PARTITIONS(50.0 * (condition == "total"), cluster, topic, condition)
    yield c.INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS(WALL - 90, cluster, "__transaction_state", "under_min_isr")
    yield c.TRANSACTIONAL_IDS_UNAVAILABLE(0, cluster, "pay")
    yield c.CLOCK_DISTANCE_SECONDS(-0.125, cluster)
    yield c.COORDINATOR_CLOCK_SKEW_SECONDS(-0.125, cluster, "1")


def txnlog(cluster: str) -> Iterator[Sample]:
    yield c.TRANSACTION_LOG_TAIL_LAG_RECORDS(0, cluster)
    yield c.TRANSACTION_LOG_UNDECODABLE_RECORDS_TOTAL(0, cluster)
    yield c.TRANSACTION_LOG_LOST_RECORDS_TOTAL(3, cluster)
    for application in ("pay", c.OVERFLOW, 'we"ird\\app\nwith all of it'):
        yield c.APPLICATION_INFO(1, cluster, application, "producer", "", "")
        for outcome in c.OUTCOMES:
            yield c.TRANSACTIONS_TOTAL(float(len(outcome)), cluster, application, outcome)
        steps = tuple((bound, float(place)) for place, bound in enumerate(c.TRANSACTION_OPEN_SECONDS.buckets))
        yield c.TRANSACTION_OPEN_SECONDS(Distribution(steps, 11.0, 4711.5), cluster, application, "committed")
        steps = tuple((bound, float(place)) for place, bound in enumerate(c.TRANSACTION_COMPLETION_SECONDS.buckets))
        yield c.TRANSACTION_COMPLETION_SECONDS(Distribution(steps, 10.0, 0.25), cluster, application)
        for state in TransactionState.values():
            yield c.TRANSACTIONS_OPEN(1, cluster, application, state)
        yield c.OVERDUE_TRANSACTIONS(0, cluster, application)
        yield c.OLDEST_OPEN_TRANSACTION_START_TIMESTAMP_SECONDS(WALL - 500.125, cluster, application)
        yield c.OLDEST_COMPLETION_START_TIMESTAMP_SECONDS(WALL - 1, cluster, application)
        yield c.LAST_TRANSACTION_TIMESTAMP_SECONDS(WALL - 2, cluster, application, "committed")
        yield c.PRODUCER_FENCES_TOTAL(2, cluster, application)
        yield c.PRODUCER_INITS_TOTAL(5, cluster, application)
        yield c.TRANSACTIONAL_IDS(20_000, cluster, application)
        yield c.APPLICATION_THRESHOLD_SECONDS(float("inf"), cluster, application, "silent_critical")
        yield c.APPLICATION_THRESHOLD_RATIO(0.05, cluster, application, "unclean")
    who = (cluster, "pay", "pay-3", "4711", "5")
    yield c.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS(WALL - 500.125, *who, "ongoing")
    yield c.OPEN_TRANSACTION_TIMEOUT_SECONDS(900, *who, "ongoing")
    yield c.RECENT_PRODUCER_FENCES(2, cluster, "pay", "pay-3")
    yield c.EXPIRED_TRANSACTIONAL_IDS(1, cluster, "pay")
    yield c.LAST_UNCLEAN_END_TIMESTAMP_SECONDS(WALL - 30, *who, "fenced")
    yield c.RECENT_APPLICATIONS(3, cluster)
    job = (cluster, "sums")
    yield c.FLINK_CHECKPOINT_INTERVAL_SECONDS(60, *job, "sums")
    yield c.FLINK_LAST_CLEAN_UP_TIMESTAMP_SECONDS(WALL - 900, *job, "sums")
    yield c.FLINK_AT_RISK_DEADLINE_TIMESTAMP_SECONDS(WALL + 500, *job, "sums-0-17", "4712", "proven")
    yield c.FLINK_LOSS_TIMESTAMP_SECONDS(WALL - 30, *job, "sums-1-16", "4713", "16", "not known")
    yield c.FLINK_LOSS_INFO(1, *job, "sums-1-16", "4713", "totals", "0", "42", "99")
    yield c.SERIES_DROPPED(19_980, c.OPEN_TRANSACTION_START_TIMESTAMP_SECONDS.name)


def groups(cluster: str) -> Iterator[Sample]:
    yield c.GROUP_READ_COMMITTED_LAG_OFFSETS(7, cluster, "billing", "payments")
    yield c.GROUP_READ_COMMITTED_LAG_RECORDS(6, cluster, "billing", "payments")
    yield c.GROUP_BLOCKED_OFFSETS(42, cluster, "billing", "payments")
    yield c.GROUP_UNSTABLE_OFFSET_PARTITIONS(1, cluster, "billing", "payments")
    yield c.LSO_HOLDER_GROUP_MEMBERS(0, cluster, "4002", "billing")
    yield c.GROUP_MEMBERS(3, cluster, "workers", "share")
    yield c.GROUP_THRESHOLD_OFFSETS(1000, cluster, "billing", "lag_warning")
    yield c.SERIES_DROPPED(12, c.GROUP_READ_COMMITTED_LAG_OFFSETS.name)


def group(cluster: str, **said: Iterable[Sample | Fault | Fact]) -> Group:
    return Group(cluster, tuple(GivenItems(name, cluster, tuple(items)) for name, items in said.items()))


def all_of(cluster: str) -> Group:
    return group(
        cluster, lso=lso(cluster), transactions=transactions(cluster), txnlog=txnlog(cluster), groups=groups(cluster)
    )


REFUSED = Fault(Reason.AUTHORIZATION, "READ on Topic:__transaction_state is missing")
GONE = Fault(Reason.UNREACHABLE, "no broker answers")

SCENARIOS = {
    "healthy": [all_of("prod")],
    "stalled": [group("prod", lso=stalled("prod"), transactions=transactions("prod"), markers=torn("prod"))],
    "refused": [
        group(
            "prod",
            lso=lso("prod"),
            transactions=transactions("prod"),
            txnlog=[REFUSED, IgnoredSource(NOT_GRANTED)],
        )
    ],
    "one_of_two_clusters_gone": [group("prod", lso=lso("prod")), group("dr", lso=[GONE], txnlog=[GONE, GONE])],
    "one_broker_of_five_down": [group("prod", lso=[*lso("prod"), Fault(Reason.TIMEOUT, "broker 3 did not answer")])],
}
