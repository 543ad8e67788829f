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
from exporter.core.durations import seconds_of
from exporter.flink.jobs import Jobs
from exporter.model import Sample
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.application_counters import ApplicationCounters, ApplicationCounts
from exporter.transactions.counting.expired_ids import RecentlyExpired
from exporter.transactions.counting.known_applications import KnownApplications
from exporter.transactions.counting.partition_lists import PartitionLists
from exporter.transactions.counting.recent_fences import RecentFences
from exporter.transactions.counting.recent_inits import RecentInits
from exporter.transactions.counting.task_commits import CommitsOfTasks
from exporter.transactions.counting.unclean_ids import UncleanHistory
from exporter.transactions.facts import CommitDurations, OffsetPartitions, RepeatedInits, TaskCommits, UncleanEnd
from exporter.transactions.machine.entries import Appeared, Ended, Entry, Event, Expired, Initialised, decode_section
from exporter.transactions.suggested_timeout import QUANTILE
from exporter.words import Outcome

HOUR = 3600.0
UNDECIDED = "undecided"
"""In the place of an outcome that log time has yet to settle."""
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
        self.unclean = UncleanHistory(caps.unclean_ends)
        self.expired = RecentlyExpired(lambda transactional_id: grouping.of(transactional_id).name)
        self._lists = PartitionLists()
        self._fences = RecentFences(self.flink)
        self._inits = RecentInits()
        self._tasks = CommitsOfTasks()
        self._counted = Derived[Mapping[str, ApplicationCounts]](dict)
        self._saved: Mapping[str, ApplicationCounts] = {}

    def take(self, event: Event, *, new: bool) -> None:
        """Process an event. Only ``new`` events are counted. Others were counted before, or are from before the
        counters began: only their instants are used.
        """
        if isinstance(event, Ended):
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
        elif isinstance(event, Appeared):
            self._appeared(event.entry)
        elif isinstance(event, Expired):
            self.expired.note(event.transactional_id, event.expired_ms / 1000)
        else:
            self._tasks.forget(event.entry.transactional_id)
            if self.applications.forgotten(event.entry):
                self.flink.applications.discard(event.entry.application)

    def _appeared(self, entry: Entry) -> None:
        self.applications.appeared(entry)
        if self._grouping.is_connect_task(entry.transactional_id):
            self._tasks.appeared(entry.transactional_id)
        self.flink.appeared(entry.transactional_id, entry.application)

    def _ended(self, transaction: Ended, *, new: bool) -> None:
        """Every third record ends a transaction: what most of them do not need is looked up here, and not called."""
        (
            entry,
            _,
            _,
            _,
            outcome,
            begun_ms,
            prepared_ms,
            completed_ms,
            _,
            _,
            section,
            _,
            _,
        ) = transaction
        application = entry.application
        if application in self.flink.applications:
            self._ended_of_flink(transaction)
        if new and outcome is _COMMITTED and entry.transactional_id in self._tasks.counts:
            self._tasks.committed(entry.transactional_id)
        own = self._by_name.get(application)
        if (own, section) not in self._lists.known:
            self._lists.learn(transaction, own)
        if own is None:
            return
        if section:
            own.named += 1
        if new:
            own.count(outcome, begun_ms, prepared_ms, completed_ms)
        own.date(outcome, completed_ms)
        if outcome is _COMMITTED or application == catalogue.CANARY:  # the canary is fenced on purpose
            return
        if outcome in catalogue.UNCLEAN_OUTCOMES:
            self.unclean.note(unclean_end(transaction, outcome.value, again=not new))
        if outcome is Outcome.FENCED:
            self._fences.note(entry.transactional_id, application, completed_ms / 1000)

    def _ended_of_flink(self, transaction: Ended) -> None:
        entry, begun, ended = transaction.entry, seconds_of(transaction.begun_ms), transaction.completed_ms / 1000
        who = (entry.transactional_id, entry.application)
        loss = self.flink.ended(*who, transaction.outcome, transaction.producer_id, begun, ended)
        if loss is not None:
            partitions = frozenset(decode_section(transaction.section, transaction.layout))
            self.flink.replace(loss, loss._replace(partitions=partitions))

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
        for transactional_id, application, fences in self._fences.worst(log_now, self._caps.fenced_ids, self._by_name):
            yield catalogue.RECENT_PRODUCER_FENCES(float(fences), cluster, application, transactional_id)
        for application, ids in self.expired.by_application(log_now).most_common(self._caps.applications):
            yield catalogue.EXPIRED_TRANSACTIONAL_IDS(float(ids), cluster, application)
        for end in self.unclean.latest(log_now):
            labels = (end.transactional_id, str(end.producer_id), str(end.producer_epoch), end.outcome)
            yield catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS(end.ended, cluster, end.application, *labels)
        if folded := self.applications.folded:
            outcomes = len(catalogue.OUTCOMES)
            yield catalogue.SERIES_DROPPED(float(len(folded) * outcomes), catalogue.TRANSACTIONS_TOTAL.name)

    @property
    def task_commits(self) -> TaskCommits:
        """The transactions that Connect's source tasks committed, whatever application their ids are counted under."""
        return TaskCommits(dict(self._tasks.counts), self._grouping.connect_groups)


def unclean_end(transaction: Ended, outcome: str, *, again: bool = False) -> UncleanEnd:
    """The end of a transaction, as it is listed."""
    entry, ended = transaction.entry, transaction.completed_ms / 1000
    who = (entry.transactional_id, entry.application, transaction.producer_id, transaction.producer_epoch)
    return UncleanEnd(*who, outcome, ended, seconds_of(transaction.begun_ms), transaction.ahead_ms / 1000, again)


def _durations(counts: Sequence[int]) -> CommitDurations:
    """From the counts of the buckets of ``transaction_open_seconds``, that above the last bound included."""
    total = sum(counts)
    reached = zip(catalogue.TRANSACTION_OPEN_SECONDS.buckets, accumulate(counts), strict=False)
    return CommitDurations(total, next((bound for bound, count in reached if count >= QUANTILE * total), None))
