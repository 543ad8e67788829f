"""What the coordinators and the cluster say: identity, and the internal topics that exactly-once rests on.

And, where the transaction log cannot be read, the open transactions by polling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from exporter import catalogue
from exporter.kafka.client import AskError
from exporter.kafka.requests.coordinators import ask_coordinators
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, Metadata, PartitionMetadata
from exporter.model import (
    ClusterIdentity,
    Deadline,
    Fact,
    Facts,
    Fault,
    KnownIds,
    OpenTransactions,
    Reason,
    Sample,
    Stalls,
)
from exporter.sources.cluster import Cluster
from exporter.transactions.open_samples import open_transaction_samples

MIN_ISR = "min.insync.replicas"
CONFIG_INTERVAL = 300.0
"""Seconds between two reads of what seldom changes: minimum ISR, finalised features."""
TAKE_OVER_SECONDS = 1.0
"""From saying that polled transactions will be exposed to doing so: the tail has then had its chance to say no."""
CONFIRM_INTERVAL = 30.0
"""Seconds between two rounds to the coordinators while the tail of the log serves the open transactions."""


@dataclass(frozen=True, slots=True)
class TransactionsSettings:
    """``open_transactions`` is how many are shown by id, beside the blockers.

    ``tail_grace`` is how many seconds after the start polled transactions become samples at the earliest: most tails
    have caught up with the log by then, and serve them.
    """

    interval: float = 5.0
    open_transactions: int = 20
    tail_grace: float = 4.0
    timeout: float = 10.0


class TransactionsSource:
    """Source ``transactions`` of one cluster."""

    name = "transactions"

    def __init__(self, cluster: Cluster, settings: TransactionsSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self.pace = self.interval = settings.interval
        self.timeout = settings.timeout
        self._min_isr: dict[str, int] = {}
        self._version: int | None = None
        self._configured_at: float | None = None
        self._config_faults: tuple[Fault, ...] = ()
        self._confirmed_at: float | None = None
        # Both begin at once, and the same series must not come from both: the tail gets time to catch up first.
        self._wait_until = cluster.clock.monotonic() + settings.tail_grace
        self._takes_over = False
        self._confirm_faults: tuple[Fault, ...] = ()

    @property
    def target(self) -> str:
        return self._cluster.target

    @property
    def cluster(self) -> str:
        return self._cluster.name

    def close(self) -> None:
        """Nothing is held."""

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        try:
            metadata = self._cluster.metadata(deadline, (TRANSACTION_STATE, CONSUMER_OFFSETS))
        except AskError as error:
            yield error.fault
            return
        self._configure(metadata, deadline)
        yield from self._config_faults
        yield from self._cluster.client.stale_brokers(deadline)
        yield from self._identity(metadata)
        yield from self._internal_topics(metadata)
        yield from self._unavailable(metadata, facts.get(KnownIds))
        yield from self._open(deadline, facts)

    # --- The cluster ---

    def _configure(self, metadata: Metadata, deadline: Deadline) -> None:
        now = self._cluster.clock.monotonic()
        interval = CONFIRM_INTERVAL if self._config_faults else CONFIG_INTERVAL
        fresh = self._configured_at is not None and now - self._configured_at < interval
        known = all(topic in self._min_isr for topic in metadata.topics)
        if fresh and (known or self._config_faults):
            return
        faults = []
        for topic in metadata.topics:
            answer = self._cluster.client.config("topic", topic, (MIN_ISR,), deadline)
            if isinstance(answer, Fault):
                faults.append(answer)
            elif answer.get(MIN_ISR, "").isdigit():
                self._min_isr[topic] = int(answer[MIN_ISR])
        try:
            self._version = self._cluster.client.features(deadline).get("transaction.version")
        except AskError as error:
            faults.append(error.fault)
        self._config_faults = tuple(dict.fromkeys(faults))
        self._configured_at = now

    def _identity(self, metadata: Metadata) -> Iterator[Sample | Fact]:
        servers = self._cluster.properties.bootstrap_servers
        version = "" if self._version is None else str(self._version)
        if self._cluster.shard.first:
            yield catalogue.CLUSTER_INFO(1.0, self.cluster, metadata.cluster_id, servers, version)
        yield ClusterIdentity(metadata.cluster_id, servers, self._version, len(metadata.brokers))

    def _internal_topics(self, metadata: Metadata) -> Iterator[Sample | Fault]:
        for topic in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            fault = metadata.errors.get(topic)
            if fault is not None and fault.reason is not Reason.UNKNOWN_TOPIC:
                yield fault
            if (partitions := metadata.topics.get(topic)) is None or not self._cluster.shard.first:
                continue
            values = {
                "total": len(partitions),
                "offline": sum(each.leader is None for each in partitions.values()),
                "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions.values()),
            }
            if (minimum := self._min_isr.get(topic)) is not None:
                values["under_min_isr"] = sum(len(each.isr) < minimum for each in partitions.values())
            for condition, count in values.items():
                yield catalogue.INTERNAL_TOPIC_PARTITIONS(float(count), self.cluster, topic, condition)

    def _unavailable(self, metadata: Metadata, known: KnownIds | None) -> Iterator[Sample]:
        partitions = metadata.topics.get(TRANSACTION_STATE)
        minimum = self._min_isr.get(TRANSACTION_STATE)
        if known is None or partitions is None or minimum is None:
            return
        counts: dict[str, int] = {}
        for number, applications in known.by_partition.items():
            lost = _cannot_write(partitions.get(number), minimum)
            for application, ids in applications.items():
                counts[application] = counts.get(application, 0) + (ids if lost else 0)
        for application, ids in counts.items():
            yield catalogue.TRANSACTIONAL_IDS_UNAVAILABLE(float(ids), self.cluster, application)

    # --- The open transactions ---

    def _open(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        clock = self._cluster.clock
        self.pace = self.interval
        if any(each.origin != self.name for each in facts.all(OpenTransactions)):
            self._takes_over = False
            # The tail serves them. Asking the coordinators now and then only proves that they can be asked.
            # While something is missing they are asked at every read, to notice at once when it is mended.
            due = self._confirmed_at is None or clock.monotonic() - self._confirmed_at >= CONFIRM_INTERVAL
            if not due and not self._confirm_faults:
                return
            self._confirmed_at = clock.monotonic()
            self._confirm_faults = self._ask(deadline)[1]
            yield from self._confirm_faults
            return
        self._confirmed_at = None
        opened, faults = self._ask(deadline)
        yield from faults
        if opened is None:
            return
        if not self._takes_over:
            # Said first and done with the next read: a tail that just caught up is heard before, or hears of it.
            self._takes_over = clock.monotonic() >= self._wait_until
            if self._takes_over:
                self.pace = min(self.interval, TAKE_OVER_SECONDS)
            yield replace(opened, exposes=self._takes_over)
            return
        yield opened
        most = self._settings.open_transactions
        known = facts.get(KnownIds)
        applications = {each for group in known.by_partition.values() for each in group} if known else set()
        own = [each for each in opened.transactions if self._cluster.shard.tells_of(each.application)]
        yield from open_transaction_samples(self.cluster, own, applications, facts.get(Stalls), most, clock.wall())

    def _ask(self, deadline: Deadline) -> tuple[OpenTransactions | None, tuple[Fault, ...]]:
        grouping = self._cluster.grouping
        try:
            asked = ask_coordinators(self._cluster.client, deadline, lambda each: grouping.of(each).name)
        except AskError as error:
            return None, (error.fault,)
        missing = tuple(fault.detail for fault in asked.faults)
        return OpenTransactions(self.name, asked.transactions, not missing, missing), asked.faults


def _cannot_write(partition: PartitionMetadata | None, minimum: int) -> bool:
    """The coordinator writes with acks=all: without a leader or enough in-sync replicas no transaction moves."""
    return partition is None or partition.leader is None or len(partition.isr) < minimum
