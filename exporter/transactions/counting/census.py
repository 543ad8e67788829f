"""Counts over all ids of the transaction log, at longer intervals than the log is read. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from exporter.applications.applications import Grouping
from exporter.core.derived import Derived
from exporter.model import Clock, Fact, TopicPartition
from exporter.transactions.counting.aggregates import HOUR, Aggregates
from exporter.transactions.facts import ApplicationTimeouts, ConnectTaskId, KnownIds, ReleaseTimes, TransactionUse
from exporter.transactions.known_log import KnownLog
from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.finished import UsedId
from exporter.transactions.machine.records import NO_TIMEOUT_MS
from exporter.transactions.machine.state_machine import StateMachine

CENSUS_INTERVAL = 60.0
"""Seconds between two counts of the ids of each application. A new application is counted at once."""
USE_INTERVAL = 60.0
"""Seconds between two reads of every id for the posture, for each started ``IDS_PER_INTERVAL``: with a million ids they
are eleven minutes apart.
"""
IDS_PER_INTERVAL = 100_000
MINUTE_MS = 60_000
"""The last hour begins with a whole minute: while the log is quiet, ids are counted once in each."""


class Census:
    """The counts of one cluster."""

    def __init__(self, clock: Clock, aggregates: Aggregates, grouping: Grouping) -> None:
        self._clock = clock
        self._aggregates = aggregates
        self._applications = aggregates.applications
        self._grouping = grouping
        self._counted_at: float | None = None
        self._known_ids = Derived(self._count_ids)
        self._counted = KnownIds({})
        self._ids = 0  # at the last count
        self._in_use = Derived(self._use_of)
        self._hour_ago_ms = 0
        self._use: TransactionUse | None = None
        self._topics = 0
        self._used_at = 0.0

    def read(self, log: KnownLog, log_now: float) -> Iterator[Fact]:
        """The known ids, and the use of transactions; counted again when due. ``log_now`` is log time, Unix seconds."""
        now, hour_ago = self._clock.monotonic(), MINUTE_MS * int((log_now - HOUR) // 60)
        if self._counted_at is None or now - self._counted_at >= CENSUS_INTERVAL or self._applications.uncounted:
            self._counted_at = now
            self._applications.census(log.unseen_since(hour_ago))
            self._counted = self._known_ids(self._applications.id_changes, tuple(self._applications.by_name))
        yield self._counted
        if self._use is None or now - self._used_at >= USE_INTERVAL * (1 + self._ids // IDS_PER_INTERVAL):
            self._used_at = now
            self._use = replace(
                self._transaction_use(log, hour_ago),
                new_applications=self._applications.new.recent(log_now),
                offset_partitions=self._aggregates.offset_partitions,
                durations=self._aggregates.durations(),
                pauses=self._aggregates.pauses(),
                repeated_inits=self._aggregates.repeated_inits(log_now),
                id_changes=self._applications.new_ids.changes(log.entries_of, log_now),
            )
        elif len(self._aggregates.topics) != self._topics:
            self._use = replace(self._use, topics=self._use.topics | self._aggregates.topics)
        self._topics = len(self._aggregates.topics)
        yield self._use

    def _transaction_use(self, log: KnownLog, since_ms: int) -> TransactionUse:
        """Return the use of transactions by the records; made again only when records came, or ids were last used
        before this instant.
        """
        self._hour_ago_ms = since_ms
        return self._in_use(log, log.changes, self._grouping.learned, log.unseen_since(since_ms))

    def _use_of(self, log: KnownLog, *_: object) -> TransactionUse:
        """By ``_hour_ago_ms``, which changes nothing while no id is unseen since then that was not before."""
        return transaction_use(log.machines.values(), self._aggregates.topics, self._grouping, self._hour_ago_ms)

    def _count_ids(self, _changes: int, applications: tuple[str, ...]) -> KnownIds:
        own, found = frozenset(applications), self._applications.ids
        self._ids = sum(counts.total() for counts in found.values())
        kept = {number: {name: ids for name, ids in counts.items() if name in own} for number, counts in found.items()}
        return KnownIds({number: own_ids for number, own_ids in kept.items() if own_ids})


def release_times(entries: Iterable[Entry]) -> ReleaseTimes:
    """When each partition was last released by a transaction, for the start of stalls that are older than this
    process.
    """
    ended: dict[TopicPartition, float] = {}
    for entry in entries:
        if entry.open or not entry.section:
            continue
        for partition in entry.partitions():
            ended[partition] = max(ended.get(partition, 0.0), entry.record_ms / 1000)
    return ReleaseTimes(ended)


def transaction_use(
    machines: Iterable[StateMachine], written: Iterable[str], grouping: Grouping, since_ms: int
) -> TransactionUse:
    """From the ids that wrote a transaction since then (Unix milliseconds), and the topics that were ever ``written``.

    Topics of finished transactions are in ``written``; only those of open ones are decoded here.
    """
    topics = set(written)
    used: Counter[UsedId] = Counter()
    connect_ids: dict[str, ConnectTaskId] = {}
    for machine in machines:
        lately = [entry for entry in machine.entries.values() if entry.record_ms >= since_ms]
        used.update([(own.application, own.client_version, own.timeout_ms, bool(own.section)) for own in lately])
        used.update(machine.finished.used_since(since_ms))
        for entry in machine.open.values():
            if entry.record_ms >= since_ms:
                topics.update([partition.topic for partition in entry.transaction().partitions])
        for entry in machine.known(grouping.is_connect_task) if grouping.connect_groups else ():
            timeout = entry.timeout_ms / 1000 if 0 <= entry.timeout_ms < NO_TIMEOUT_MS else None
            connect_ids[entry.transactional_id] = ConnectTaskId(entry.record_ms >= since_ms, timeout)
    clients: defaultdict[str, Counter[int]] = defaultdict(Counter)
    timeouts: defaultdict[str, set[float]] = defaultdict(set)
    two_phase: Counter[str] = Counter()
    for (application, version, timeout_ms, named), ids in used.items():
        if named and version >= 0:
            clients[application][version] += ids
        if timeout_ms == NO_TIMEOUT_MS:
            two_phase[application] += ids
        elif timeout_ms > 0:
            timeouts[application].add(timeout_ms / 1000)
    limits = {
        name: ApplicationTimeouts(min(timeouts[name], default=None), max(timeouts[name], default=None), two_phase[name])
        for name in timeouts.keys() | two_phase.keys()
    }
    return TransactionUse(frozenset(topics), dict(clients), connect_ids, grouping.connect_groups, timeouts=limits)
