"""The cluster's identity, its internal topics, and the open transactions.

Open transactions are taken from the tail of the log while it has them, otherwise from the coordinators by polling. This
is the only source that publishes them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from exporter import catalogue
from exporter.cluster.cluster import Cluster, KafkaSource
from exporter.cluster.facts import ClusterIdentity
from exporter.core.kept import KeptValue
from exporter.kafka.client import AskError
from exporter.kafka.requests.coordinators import ask_coordinators
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, TRANSACTION_STATE, Metadata, PartitionMetadata
from exporter.kafka.requests.transactions import OPEN_STATES, Description, describe_transactions
from exporter.lso.facts import Stalls
from exporter.model import Deadline, Fact, Facts, Fault, Reason, Sample, SampleBatch
from exporter.transactions.clock import CoordinatorClock, coordinator_time
from exporter.transactions.counting.open_samples import blocking_producers, first_overdue, open_transaction_samples
from exporter.transactions.facts import (
    KnownIds,
    LoggedTransactions,
    OpenTransaction,
    OpenTransactions,
    TransactionsElsewhere,
)
from exporter.transactions.outcome import is_overdue
from exporter.transactions.source.polled_outcomes import PolledOutcomes, Where

MIN_ISR = "min.insync.replicas"
CONFIG_INTERVAL = 300.0
"""Seconds between two reads of rarely changing values: minimum ISR, finalized features."""
PACE = 1.0
"""Seconds between two reads of the tail's facts."""
OPEN_PER_SECOND = 500
"""Open transactions that may be turned into samples in a second, which limits the CPU time."""
MOST_DESCRIBED = 500
"""Largest number of overdue transactions that are confirmed with their coordinators."""
DESCRIBE_SECONDS = 2.0
SAME_START = 0.01
"""Seconds by which two starts of one transaction may differ after rounding."""
CONFIRM_INTERVAL = 30.0
"""Seconds between two polls of the coordinators while the tail of the log has the open transactions."""


NO_SAMPLES = SampleBatch(())


@dataclass(frozen=True, slots=True)
class TransactionsSettings:
    """``open_transactions`` is how many are shown by id, beside the blockers.

    ``outcomes`` is where they come from, as in the settings; ``applications`` is how many are counted by polling.
    """

    interval: float = 5.0
    open_transactions: int = 20
    timeout: float = 10.0
    outcomes: Where = "auto"
    applications: int = 500


class TransactionsSource(KafkaSource):
    """Source ``transactions`` of one cluster."""

    name = "transactions"

    def __init__(self, cluster: Cluster, settings: TransactionsSettings) -> None:
        super().__init__(cluster)
        self._settings = settings
        self.interval = settings.interval
        self.pace = min(PACE, settings.interval)
        self.timeout = settings.timeout
        self._min_isr: dict[str, int] = {}
        self._version: int | None = None
        self._configured_at: float | None = None
        self._config_faults: tuple[Fault, ...] = ()
        self._looked_at: float | None = None
        self._seen: tuple[Sample | SampleBatch | Fault | Fact, ...] = ()
        self._polled_at: float | None = None
        self._polled: OpenTransactions | None = None
        self._poll_faults: tuple[Fault, ...] = ()
        self._is_part = False  # of the last poll: whether it left out what was described before
        self._describable: frozenset[str] = frozenset()  # open ids that their coordinators described lately
        self._all_described_at = float("-inf")
        self._clock = CoordinatorClock()
        self._broken_since: dict[tuple[str, str], dict[int, float]] = {}  # monotonic
        self._wall_at_zero = 0.0  # of the monotonic clock
        self._described: frozenset[OpenTransaction] = frozenset()  # the overdue transactions of the last request
        self._described_at = float("-inf")
        self._ended: frozenset[OpenTransaction] = frozenset()  # of these, not open at the coordinator
        self._of_lost = KeptValue(NO_SAMPLES)  # how many ids have no coordinator that can write
        self._made = NO_SAMPLES  # of the open transactions
        self._made_at = float("-inf")
        self._made_of: tuple[object, ...] = ()
        self._none_overdue_before = -math.inf  # Unix seconds of the coordinators' clock
        self._stalls: Stalls | None = None
        self._blockers: frozenset[int | None] = frozenset()
        self._elsewhere = False  # whether transactions were listed without a log, since this process began
        self._outcomes = PolledOutcomes(cluster, settings.outcomes, settings.applications)

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        now = self._cluster.clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= self.interval - self.pace / 2:
            self._looked_at = now
            self._seen = tuple(self._look(deadline, facts))
        found = (*self._seen, *self._open(deadline, facts))
        yield from dict.fromkeys(each for each in found if isinstance(each, Fault))
        yield from (each for each in found if not isinstance(each, Fault))

    def _look(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        try:
            metadata = self._cluster.metadata(deadline, (TRANSACTION_STATE, CONSUMER_OFFSETS))
        except AskError as error:
            yield error.fault
            return
        self._configure(metadata, deadline)
        yield from self._config_faults
        yield from self._cluster.client.stale_brokers(deadline)
        # By the brokers' answers to that: an upgrade of the feature is seen at once.
        self._version = self._cluster.client.finalized_features.get("transaction.version")
        yield from self._identity(metadata)
        yield from self._internal_topics(metadata)
        if (known := facts.get(KnownIds)) is not None:
            yield self._unavailable(metadata, known)

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
            yield from self._broken(topic, partitions)

    def _broken(self, topic: str, partitions: Mapping[int, PartitionMetadata]) -> Iterator[Sample]:
        """The partition that has been longest in a condition: two partitions in turn do not add up to one long gap."""
        clock = self._cluster.clock
        now = clock.monotonic()
        # Our wall clock may be set while a partition is broken: it is dated by what that shows then.
        if abs(clock.wall() - now - self._wall_at_zero) >= 1.0:
            self._wall_at_zero = clock.wall() - now
        minimum = self._min_isr.get(topic, 0)
        broken = {
            "offline": {number for number, each in partitions.items() if each.leader is None},
            "under_min_isr": {number for number, each in partitions.items() if len(each.isr) < minimum},
        }
        for condition, numbers in broken.items():
            before = self._broken_since.get((topic, condition), {})
            since = {number: before.get(number, now) for number in numbers}
            self._broken_since[topic, condition] = since
            if since:
                instant = self._wall_at_zero + min(since.values())
                yield catalogue.INTERNAL_TOPIC_BROKEN_SINCE_TIMESTAMP_SECONDS(instant, self.cluster, topic, condition)

    def _unavailable(self, metadata: Metadata, known: KnownIds) -> SampleBatch:
        partitions = metadata.topics.get(TRANSACTION_STATE)
        minimum = self._min_isr.get(TRANSACTION_STATE)
        if partitions is None or minimum is None:
            return NO_SAMPLES
        lost = frozenset(number for number in known.by_partition if _cannot_write(partitions.get(number), minimum))
        return self._of_lost.of(
            (self.cluster, known.by_partition, lost),
            lambda before: SampleBatch.of(unavailable_ids(self.cluster, known, lost), before),
        )

    # --- The open transactions ---

    def _open(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        """The open transactions and the coordinators' time, from the tail where it has them, otherwise from a poll."""
        logged = facts.get(LoggedTransactions)
        if self._outcomes.begins(facts):
            self._polled_at = None
        # While the tail has them, a poll now and then only checks that the coordinators answer. While an answer is
        # missing they are polled at every interval, so that the recovery is seen at once.
        seldom = logged is not None and not self._poll_faults
        if self._is_part and not seldom:
            self._polled_at = None
        self._poll(deadline, CONFIRM_INTERVAL if seldom else self.interval, whole=not seldom)
        yield from self._poll_faults
        if self._elsewhere:
            yield TransactionsElsewhere()
        yield from self._outcomes.read(deadline)
        known = facts.get(KnownIds)
        if logged is not None:
            opened, bounds, applications = logged.opened, logged.clock, logged.applications
        elif self._polled is not None:
            opened, bounds = self._polled, self._clock.bounds(self._cluster.clock.monotonic())
            counted = known.by_partition.values() if known is not None else ()
            applications = frozenset(application for group in counted for application in group)
        else:
            return
        clock = self._cluster.clock
        monotonic, wall = clock.monotonic(), clock.wall()
        time = coordinator_time(bounds, monotonic, wall)
        yield opened
        yield time
        if time.ahead is not None and self._cluster.shard.first:
            yield catalogue.CLOCK_DISTANCE_SECONDS(time.ahead, self.cluster)
        as_of = wall if opened.as_of is None else wall - (monotonic - opened.as_of)
        yield self._samples(opened, applications, facts.get(Stalls), time.earliest(as_of), deadline)

    def _samples(
        self,
        opened: OpenTransactions,
        applications: AbstractSet[str],
        stalls: Stalls | None,
        now: float | None,
        deadline: Deadline,
    ) -> SampleBatch:
        """The samples, made again after a change: at every read while few are open, at most every ``interval`` for
        thousands.
        """
        monotonic = self._cluster.clock.monotonic()
        if monotonic - self._made_at < min(self.interval - PACE / 2, len(opened.transactions) / OPEN_PER_SECOND):
            return self._made
        self._made_at = monotonic
        # Without a bound of their clock no transaction is known to be late.
        late = -math.inf if now is None else now
        if stalls is not self._stalls:
            self._stalls, self._blockers = stalls, blocking_producers(stalls)
        basis = (self.cluster, opened.transactions, applications, self._blockers)
        if basis == self._made_of and late < self._none_overdue_before:
            return self._made
        own = [each for each in opened.transactions if self._cluster.shard.tells_of(each.application)]
        # Samples with an overdue transaction are made again at each read: its coordinator is asked, and the bound of
        # the clock may go back.
        first = first_overdue(own)
        self._made_of, self._none_overdue_before = basis, first if late < first else -math.inf
        if late >= first and (ended := self._not_open([each for each in own if is_overdue(each, late)], deadline)):
            own = [each for each in own if each not in ended]
        most = self._settings.open_transactions
        samples = open_transaction_samples(self.cluster, own, applications, stalls, most, late)
        self._made = SampleBatch.of(samples, self._made)
        return self._made

    def _not_open(self, overdue: Sequence[OpenTransaction], deadline: Deadline) -> frozenset[OpenTransaction]:
        """Those of them that the coordinator reports as not open. No answer proves nothing.

        A record whose append failed for the coordinator (NOT_ENOUGH_REPLICAS_AFTER_APPEND, a timeout) may still be
        replicated: the log then has a transaction open that the coordinator never began and does not end.
        """
        doubtful = frozenset(overdue[:MOST_DESCRIBED])
        now = self._cluster.clock.monotonic()
        if doubtful and (doubtful - self._described or now - self._described_at >= self.interval):
            self._described, self._described_at = doubtful, now
            until = deadline.within(DESCRIBE_SECONDS)
            try:
                metadata = self._cluster.metadata(until, (TRANSACTION_STATE,))
            except AskError:
                return self._ended & doubtful
            ids = [each.transactional_id for each in doubtful]
            client = self._cluster.client
            said = describe_transactions(client, metadata, ids, until, anywhere=self._elsewhere).values
            asked = frozenset(each for each in doubtful if each.transactional_id in said)
            ended = frozenset(each for each in asked if not _is_open(each, said[each.transactional_id]))
            self._ended = (self._ended & doubtful - asked) | ended
        return self._ended & doubtful

    def _poll(self, deadline: Deadline, interval: float, *, whole: bool) -> None:
        """Ask the coordinators when it is due. If not ``whole``, ids that were described lately are left out."""
        now = self._cluster.clock.monotonic()
        if self._polled_at is not None and now - self._polled_at < interval - self.pace / 2:
            return
        self._polled_at = now
        if whole or now - self._all_described_at >= CONFIG_INTERVAL:
            self._describable = frozenset()
        grouping = self._cluster.grouping
        known = self._describable
        self._is_part = bool(known)
        outcomes = self._outcomes
        try:
            asked = ask_coordinators(
                self._cluster.client,
                deadline,
                lambda each: grouping.of(each).name,
                states=outcomes.states,
                known=known,
                also=lambda rows: outcomes.choose(rows, now),
            )
        except AskError as error:
            self._polled, self._poll_faults, self._describable = None, (error.fault,), frozenset()
            outcomes.interrupted()
            return
        self._elsewhere = asked.elsewhere or (self._elsewhere and not asked.ids)
        outcomes.take(asked, now)
        if not known:
            self._all_described_at = now
        listed = {transactional_id for transactional_id, _ in asked.ids}
        self._describable = (known & listed) | {each.transactional_id for each in asked.transactions}
        received = self._cluster.clock.monotonic()
        for each in asked.transactions:
            if each.started is not None:
                self._clock.stamped(each.started, received, live=False)
        missing = tuple(fault.detail for fault in asked.faults)
        polled = OpenTransactions(self.name, asked.transactions, not missing, missing, now)
        self._polled = None if self._is_part else polled
        self._poll_faults = asked.faults


def _is_open(known: OpenTransaction, said: Description) -> bool:
    """Whether the coordinator describes this transaction as open, and no later one of its id."""
    later = None not in {known.started, said.started} and (said.started or 0.0) > (known.started or 0.0) + SAME_START
    return said.state in OPEN_STATES and not later


def unavailable_ids(cluster: str, known: KnownIds, lost: Container[int]) -> Iterator[Sample]:
    """For each application, how many of its ids are on these partitions of the log."""
    counts: Counter[str] = Counter()
    for number, applications in known.by_partition.items():
        counts.update(applications if number in lost else dict.fromkeys(applications, 0))
    for application, ids in counts.items():
        yield catalogue.TRANSACTIONAL_IDS_UNAVAILABLE(float(ids), cluster, application)


def _cannot_write(partition: PartitionMetadata | None, minimum: int) -> bool:
    """The coordinator writes with acks=all: without a leader or enough in-sync replicas no transaction moves."""
    return partition is None or partition.leader is None or len(partition.isr) < minimum
