"""The state machine's events by application: what is counted, what is recent, and the limits of both, as samples.

No I/O; the present is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import Any

from exporter import catalogue
from exporter.applications.applications import Grouping
from exporter.core.derived import Derived
from exporter.flink.jobs import Jobs
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS
from exporter.model import Sample, TopicPartition
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.application_counters import ApplicationCounters, ApplicationCounts
from exporter.transactions.counting.id_changes import RecentInits, RecentlyExpired
from exporter.transactions.counting.known_applications import KnownApplications
from exporter.transactions.facts import CommitDurations, OffsetPartitions, RepeatedInits, TaskCommits
from exporter.transactions.machine.entries import Entry, Event, Expired, Initialised
from exporter.transactions.outcome import QUANTILE
from exporter.transactions.recent import RecentTransactions
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome


class CommitsOfTasks:
    """The counts of all tasks, whatever application their ids are counted under."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._changed: set[str] = set()

    def appeared(self, task: str) -> None:
        """Begin to count the commits of a task."""
        self.counts.setdefault(task, 0)

    def committed(self, task: str) -> None:
        """Count a commit of a known task."""
        self.counts[task] += 1
        self._changed.add(task)

    def forget(self, task: str) -> None:
        """Drop a task whose id expired."""
        if self.counts.pop(task, None) is not None:
            self._changed.add(task)

    def saved(self, *, everything: bool) -> Mapping[str, int | None]:
        """The counts to save: all, or those that changed since the last call; None for a task that is gone."""
        tasks = self.counts if everything else self._changed
        found = {task: self.counts.get(task) for task in tasks}
        self._changed.clear()
        return found


MOST_LISTS = 10_000
MOST_NAMES = 100_000
"""Partitions of the known lists together; a full cache is cleared. A list may have thousands of partitions."""


class PartitionLists:
    """Looks at each list once, as the same lists recur often."""

    __slots__ = ("_names", "known", "topics")

    def __init__(self) -> None:
        self.known: set[tuple[ApplicationCounters | None, frozenset[TopicPartition]]] = set()
        """The lists that are noted, each of an application: as an object, because one that went may come back."""
        self._names = 0
        self.topics: set[str] = set()
        """All that finished transactions wrote to."""

    def learn(self, partitions: frozenset[TopicPartition], application: ApplicationCounters | None) -> None:
        """Note the partitions of a list that is not known of this application."""
        if len(self.known) >= MOST_LISTS or self._names >= MOST_NAMES:
            self.known.clear()
            self._names = 0
        self.known.add((application, partitions))
        self._names += len(partitions)
        topics = {partition.topic for partition in partitions}
        self.topics |= topics
        if application is not None:
            application.topics |= topics
            application.offset_partitions.update(
                partition.partition for partition in partitions if partition.topic == CONSUMER_OFFSETS
            )


HOUR = 3600.0
_WITHOUT_INPUT = frozenset({"connect_leader", "connect_task", "canary", "flink"})
"""Kinds of applications that read no topic, or resume from checkpoints of their own."""
_COMMITTED = Outcome.COMMITTED  # each access to a member of an enum is a call


class Aggregates:
    """Takes the events of every partition of the log. ``caps`` has the most series of each kind."""

    def __init__(self, grouping: Grouping, caps: TransactionsConfig) -> None:
        self._grouping = grouping
        self._caps = caps
        self.flink = Jobs()
        self.applications = KnownApplications(grouping, caps.applications, self.flink)
        self._by_name = self.applications.by_name  # for the path of every record
        self.ends = RecentTransactions(caps.unclean_ends)
        self.expired = RecentlyExpired(lambda transactional_id: grouping.of(transactional_id).name)
        self._lists = PartitionLists()
        self._inits = RecentInits()
        self._tasks = CommitsOfTasks()
        self._counted = Derived[Mapping[str, ApplicationCounts]](dict)
        self._saved: Mapping[str, ApplicationCounts] = {}

    def take(self, event: Event, *, new: bool) -> None:
        """Process an event. Only ``new`` events are counted. Others were counted before, or are from before the
        counters began: only their instants are used.
        """
        if isinstance(event, Transaction):
            self._ended(event, new=new)
        elif isinstance(event, Initialised):
            entry = event.entry
            self.expired.initialised(entry.transactional_id)
            self.applications.new_ids.initialised(entry)
            self.flink.initialised(entry.transactional_id, entry.application, entry.record_ms / 1000)
            own = self._by_name.get(event.entry.application)
            if own is not None and new:
                own.initialised()
                if entry.application != catalogue.CANARY and entry.application not in self.flink.applications:
                    self._inits.note(entry, own.transactions)
        elif isinstance(event, Expired):
            self.expired.note(event.transactional_id, event.expired_ms / 1000)
        else:
            self._tasks.forget(event.entry.transactional_id)
            if self.applications.forgotten(event.entry):
                self.flink.applications.discard(event.entry.application)

    def appeared(self, entry: Entry) -> None:
        """Take in a new id, and set its application."""
        self.applications.appeared(entry)
        if self._grouping.is_connect_task(entry.transactional_id):
            self._tasks.appeared(entry.transactional_id)
        self.flink.appeared(entry.transactional_id, entry.application)

    def _ended(self, transaction: Transaction, *, new: bool) -> None:
        """Every third record ends a transaction: what most of them do not need is looked up here, and not called."""
        application, outcome, partitions = transaction.application, transaction.outcome, transaction.partitions
        completed_ms = transaction.completed_ms
        if outcome is None or completed_ms is None:
            return  # only the decision is known
        if application in self.flink.applications:
            self.flink.ended(transaction)
        if new and outcome is _COMMITTED and transaction.transactional_id in self._tasks.counts:
            self._tasks.committed(transaction.transactional_id)
        own = self._by_name.get(application)
        if partitions:
            self.ends.ended.take(transaction)
            if (own, partitions) not in self._lists.known:
                self._lists.learn(partitions, own)
        if own is None:
            return
        if partitions:
            own.named += 1
        if new:
            own.count(outcome, transaction.begun_ms, transaction.prepared_ms, completed_ms)
        own.date(outcome, completed_ms)
        # The canary is fenced on purpose.
        if outcome in catalogue.UNCLEAN_OUTCOMES and application != catalogue.CANARY:
            self.ends.unclean.take(transaction if new else transaction._replace(again=True))

    @property
    def topics(self) -> AbstractSet[str]:
        """All topics that finished transactions wrote to."""
        return self._lists.topics

    @property
    def offset_partitions(self) -> Mapping[str, OffsetPartitions]:
        """By application that may commit offsets, what its transactions named since the first read."""
        return {
            name: OffsetPartitions(own.named, frozenset(own.offset_partitions), frozenset(own.topics))
            for name, own in self._by_name.items()
            if own.application.kind not in _WITHOUT_INPUT
        }

    def pauses(self) -> Mapping[str, float]:
        """The longest pause of each application between two of its transactions, in seconds, since they are counted."""
        return {name: own.longest_pause_ms / 1000 for name, own in self._by_name.items() if own.longest_pause_ms}

    def repeated_inits(self, log_now: float) -> Mapping[str, RepeatedInits]:
        """The applications that initialise their producers again and again, in the last minutes of the log."""
        return self._inits.repeated(log_now, {name: own.transactions for name, own in self._by_name.items()})

    def durations(self) -> Mapping[str, CommitDurations]:
        """By application, how long its committed transactions were open."""
        found = {name: own.open_seconds.get(_COMMITTED) for name, own in self._by_name.items()}
        return {name: _durations(histogram.counted()[0]) for name, histogram in found.items() if histogram is not None}

    # --- Over a restart ---

    def saved(self, *, everything: bool) -> dict[str, Any]:
        """The counters, or those that changed since the last call; None for an application or a task that is gone."""
        applications: dict[str, ApplicationCounts | None] = dict(counted := self.counted())
        if not everything:
            applications = {
                name: counters for name, counters in counted.items() if self._saved.get(name) is not counters
            }
            applications |= dict.fromkeys(self._saved.keys() - counted.keys())
        self._saved = counted
        found = {"applications": applications, "tasks": self._tasks.saved(everything=everything)}
        return {kind: counters for kind, counters in found.items() if counters or everything}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from saved counters, as ``KnownApplications.restore`` does.

        Raises ValueError or TypeError for a document that ``saved`` did not write, and then restores nothing.
        """
        applications = {
            name: ApplicationCounters.restored(name, application)
            for name, application in saved.get("applications", {}).items()
        }
        tasks = {str(task): int(count) for task, count in saved.get("tasks", {}).items()}
        self.applications.restore(applications)
        self._tasks.counts |= tasks

    def ids_are_known(self) -> None:
        """All ids of the log are known: drop applications without one."""
        self.flink.applications.difference_update(self.applications.ids_are_known())

    # --- Samples ---

    def counted(self) -> Mapping[str, ApplicationCounts]:
        """The counts, by application. Nothing in it changes; it is the same object until something happens."""
        self.applications.describe_jobs()
        return self._counted(tuple([(name, own.counted()) for name, own in self._by_name.items()]))

    def dated(self) -> Mapping[str, Mapping[Outcome, float]]:
        """When the last transactions of each application finished. Nothing in it changes."""
        return {name: own.dated() for name, own in self._by_name.items()}

    def recent(self, cluster: str, log_now: float) -> Iterator[Sample]:
        """Gauges that change with time, about the last hour, and what caps leave out. ``log_now`` is log time in Unix
        seconds.
        """
        if (recent := self.applications.new.recent(log_now)) is not None:
            yield catalogue.RECENT_APPLICATIONS(float(recent), cluster)
        for transactional_id, application, fences in self._fenced_most(log_now):
            yield catalogue.RECENT_PRODUCER_FENCES(float(fences), cluster, application, transactional_id)
        for application, ids in self.expired.by_application(log_now).most_common(self._caps.applications):
            yield catalogue.EXPIRED_TRANSACTIONAL_IDS(float(ids), cluster, application)
        for end in self.ends.latest(log_now):
            labels = (end.transactional_id, str(end.producer_id), str(end.producer_epoch), end.outcome_word)
            yield catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS(end.ended, cluster, end.application, *labels)
        if folded := self.applications.folded:
            outcomes = len(catalogue.OUTCOMES)
            yield catalogue.SERIES_DROPPED(float(len(folded) * outcomes), catalogue.TRANSACTIONS_TOTAL.name)

    def _fenced_most(self, log_now: float) -> list[tuple[str, str, int]]:
        """The ids with the most fences: id, application, fences.

        A Flink job that starts fences the ids of its earlier start. It is a storm only when it starts and does not
        commit. Of Flink only applications that are counted.
        """
        fences = self.ends.fences(log_now).items()
        found = [(*who, number) for who, number in fences if not self.flink.is_job(who[0])]
        for job in self.flink:
            restarts = job.restarts_without_commit(log_now)
            if restarts and job.application in self._by_name:
                found.append((f"{job.prefix}-*", job.application, restarts))
        return sorted(found, key=lambda row: (-row[2], row[0]))[: self._caps.fenced_ids]

    @property
    def task_commits(self) -> TaskCommits:
        """The transactions that Connect's source tasks committed, whatever application their ids are counted under."""
        return TaskCommits(dict(self._tasks.counts), self._grouping.connect_groups)


def _durations(counts: Sequence[int]) -> CommitDurations:
    """From the counts of the buckets of ``transaction_open_seconds``, that above the last bound included."""
    total = sum(counts)
    reached = zip(catalogue.TRANSACTION_OPEN_SECONDS.buckets, accumulate(counts), strict=False)
    return CommitDurations(total, next((bound for bound, count in reached if count >= QUANTILE * total), None))
