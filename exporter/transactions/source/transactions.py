"""The cluster's identity, its internal topics, and the open transactions.

Open transactions are taken from the tail of the log while it has them, otherwise from the coordinators by polling. This
is the only source that publishes them.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter import catalogue
from exporter.cluster import Cluster, ClusterIdentity, KafkaSource
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE
from exporter.lso.facts import Stalls
from exporter.model import Deadline, Fact, Facts, Fault, Sample, SampleBatch
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.facts import CoordinatorTime, KnownIds, LoggedTransactions, LogRefused, TransactionsElsewhere
from exporter.transactions.source.coordinator_poll import CoordinatorPoll
from exporter.transactions.source.internal_topics import InternalTopics
from exporter.transactions.source.open_series import OpenSeries

PACE = 1.0
"""Seconds between two reads of the tail's facts."""


class TransactionsSource(KafkaSource):
    """Source ``transactions`` of one cluster."""

    name = "transactions"

    def __init__(self, cluster: Cluster, settings: TransactionsConfig) -> None:
        super().__init__(cluster, settings.interval)
        self.pace = min(PACE, settings.interval)
        self._read_at: float | None = None
        self._of_cluster: tuple[Sample | SampleBatch | Fault | Fact, ...] = ()  # by the last read of the cluster
        self._topics = InternalTopics(cluster)
        self._poll = CoordinatorPoll(cluster, self.name)
        self._series = OpenSeries(cluster, settings.open_transactions, self.interval)

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        now = self._cluster.clock.monotonic()
        if self._read_at is None or now - self._read_at >= self.interval - self.pace / 2:
            self._read_at = now
            self._of_cluster = tuple(self._read_cluster(deadline, facts))
        found = (*self._of_cluster, *self._open(deadline, facts))
        yield from dict.fromkeys(item for item in found if isinstance(item, Fault))
        yield from (item for item in found if not isinstance(item, Fault))

    def _read_cluster(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        """The cluster's identity, and its internal topics."""
        try:
            metadata = self._cluster.metadata(deadline, (TRANSACTION_STATE, CONSUMER_OFFSETS))
        except AskError as error:
            yield error.fault
            return
        yield from self._topics.configure(metadata, deadline)
        yield from self._cluster.client.stale_brokers(deadline)
        # By the brokers' answers to that: an upgrade of the feature is seen at once.
        level = self._cluster.client.finalized_features.get("transaction.version")
        servers = self._cluster.properties.bootstrap_servers
        version = "" if level is None else str(level)
        yield catalogue.CLUSTER_INFO(1.0, self.cluster, metadata.cluster_id, servers, version)
        yield ClusterIdentity(metadata.cluster_id, servers, level, len(metadata.brokers))
        yield from self._topics.samples(metadata)
        if (known := facts.get(KnownIds)) is not None:
            yield self._topics.unavailable(metadata, known)

    def _open(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        """The open transactions and the coordinators' time, from the tail where it has them, otherwise from a poll."""
        logged = facts.get(LoggedTransactions)
        self._poll.read(deadline, self.interval, self.pace, logged=logged is not None)
        yield from self._poll.faults
        if self._poll.elsewhere:
            yield TransactionsElsewhere()
        known = facts.get(KnownIds)
        if logged is not None:
            opened, time, applications = logged.opened, logged.clock, logged.applications
        elif self._poll.opened is not None:
            opened, time = self._poll.opened, self._poll.coordinator_time(self._cluster.clock.monotonic())
            if facts.get(LogRefused) is None:
                # The log will show the clocks: an answer does not say whose has stamped a start.
                opened, time = opened.without_clock(), CoordinatorTime()
            counted = known.by_partition.values() if known is not None else ()
            applications = frozenset(application for group in counted for application in group)
        else:
            return
        clock = self._cluster.clock
        monotonic, wall = clock.monotonic(), clock.wall()
        time = time.beside(wall - monotonic)
        yield opened
        yield time
        if time.distance is not None:
            yield catalogue.CLOCK_DISTANCE_SECONDS(time.distance, self.cluster)
        as_of = wall if opened.as_of is None else wall - (monotonic - opened.as_of)
        yield self._series.batch(opened, applications, facts.get(Stalls), time.earliest(as_of), deadline)
