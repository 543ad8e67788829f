"""The state machine's events by application: what is counted, what is recent, and the limits of both, as samples.

No I/O; the present is an argument.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from exporter import catalogue
from exporter.applications.applications import Application, Grouping
from exporter.core.derived import Derived
from exporter.core.shard import WHOLE, Shard
from exporter.flink.jobs import Jobs
from exporter.model import Sample
from exporter.transactions.counting.application_counters import ApplicationCounters, ApplicationCounts
from exporter.transactions.counting.id_changes import NewIds
from exporter.transactions.counting.new_applications import NewApplications
from exporter.transactions.counting.partition_lists import PartitionLists
from exporter.transactions.counting.recent_fences import RecentFences
from exporter.transactions.counting.task_commits import CommitsOfTasks
from exporter.transactions.counting.unclean_ids import UncleanHistory
from exporter.transactions.facts import CommitDurations, OffsetPartitions, TaskCommits, UncleanEnd
from exporter.transactions.machine.entries import Appeared, Ended, Entry, Event, Initialised, decode_section
from exporter.transactions.suggested_timeout import QUANTILE
from exporter.words import Outcome

HOUR = 3600.0
MOST_FREE_NAMES = 10_000
"""Largest number of applications that ``free_names`` looks at."""
_COMMITTED = Outcome.COMMITTED  # each access to a member of an enum is a call


@dataclass(frozen=True, slots=True)
class Caps:
    """The most series of each kind: applications, ids with recent fences, unclean ends."""

    applications: int = 500
    fenced_ids: int = 20
    unclean_ends: int = 20


class Aggregates:
    """Takes the events of every partition of the log.

    Only the applications of ``shard`` are counted; commits of Connect tasks are counted for all, and which
    applications are new is judged by all of them.
    """

    def __init__(self, grouping: Grouping, caps: Caps, shard: Shard = WHOLE) -> None:
        self._grouping = grouping
        self._caps = caps
        self._shard = shard
        self._by_name: dict[str, ApplicationCounters] = {}
        self._folded: dict[str, int] = {}  # applications in the overflow with their number of ids
        self._others: dict[str, int] = {}  # applications of other shards with their number of ids
        self.unclean = UncleanHistory(caps.unclean_ends)
        self._seen: dict[str, int] = {}
        self._lists = PartitionLists()
        self.flink = Jobs()
        self._fences = RecentFences(self.flink)
        self.new_ids = NewIds(grouping)
        self._tasks = CommitsOfTasks()
        self._counted = Derived[Mapping[str, ApplicationCounts]](dict)
        self._saved: Mapping[str, ApplicationCounts] = {}
        self._ids_known = True
        self.new_applications = NewApplications()
        self.ids = defaultdict[int, Counter[str]](Counter)  # by partition of the log and application, of all shards
        self.id_changes = 0  # how often ``ids`` changed

    @property
    def applications(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def take(self, event: Event, *, new: bool) -> None:
        """Process an event. Only ``new`` events are counted. Others were counted before, or are from before the
        counters began: only their instants are used.
        """
        if isinstance(event, Ended):
            self._ended(event, new=new)
        elif isinstance(event, Initialised):
            entry = event.entry
            self.new_ids.initialised(entry)
            self.flink.initialised(entry.transactional_id, entry.application, entry.record_ms / 1000)
            own = self._by_name.get(event.entry.application)
            if own is not None and new:
                own.initialised()
        elif isinstance(event, Appeared):
            self._appears(event.entry)
        else:
            self._forgotten(event.entry)

    def _appears(self, entry: Entry) -> None:
        known, others = self._known, len(self._others)
        entry.application = self.group(entry.transactional_id)
        self.flink.appeared(entry.transactional_id, entry.application)
        self._count_id(entry, 1)
        instant = entry.record_ms / 1000
        if not self.new_applications.is_new(instant):
            return
        if entry.application != self._shard.overflow:  # ids of many applications
            self.new_ids.appeared(entry)
        if self._known > known:
            self.new_applications.appeared(instant, of_shard=len(self._others) == others)

    @property
    def _known(self) -> int:
        return len(self._by_name) + len(self._folded) + len(self._others)

    def group(self, transactional_id: str) -> str:
        """Return the application of a new id: its own, or the overflow when this shard has too many."""
        if self._grouping.learn(transactional_id):
            for name, known in self._by_name.items():
                if self._grouping.may_describe(name, known.example):
                    better = self._grouping.of(known.example)
                    if better.name == name:
                        known.describe(better)
        if self._grouping.is_connect_task(transactional_id):
            self._tasks.appeared(transactional_id)
        application = self._grouping.of(transactional_id)
        if not self._shard.holds(application.name):
            self._others[application.name] = self._others.get(application.name, 0) + 1
            return application.name
        own = self._by_name.get(application.name)
        if own is None:
            if len(self._by_name) >= self._caps.applications:
                self._folded[application.name] = self._folded.get(application.name, 0) + 1
                application = Application(self._shard.overflow, "other")
            own = self._by_name.setdefault(application.name, ApplicationCounters(application, transactional_id))
        own.ids += 1
        return own.application.name  # the shared object: thousands of ids have it

    def _ended(self, transaction: Ended, *, new: bool) -> None:
        """Every third record ends a transaction: what most of them do not need is looked up here, and not called."""
        entry, producer_id, producer_epoch, _, outcome, begun_ms, prepared_ms, completed_ms, _, _, section, _ = (
            transaction
        )
        application = entry.application
        if application in self.flink.applications:
            self._ended_of_flink(transaction)
        if section not in self._lists.known:
            self._lists.learn(transaction)
        if new and outcome is _COMMITTED and entry.transactional_id in self._tasks.counts:
            self._tasks.committed(entry.transactional_id)
        own = self._by_name.get(application)
        if own is None:  # another shard's
            return
        if section:
            own.named += 1
            if section in self._lists.offsets:
                own.offset_partitions.update(self._lists.offsets[section])
        if new:
            own.count(outcome, begun_ms, prepared_ms, completed_ms)
        own.date(outcome, completed_ms)
        if outcome is _COMMITTED or application == catalogue.CANARY:  # the canary is fenced on purpose
            return
        transactional_id, ended = entry.transactional_id, completed_ms / 1000
        if outcome in catalogue.UNCLEAN_OUTCOMES:
            who = (transactional_id, application, producer_id, producer_epoch)
            self.unclean.note(UncleanEnd(*who, outcome.value, ended, _seconds(begun_ms)))
        if outcome is Outcome.FENCED:
            self._fences.note(transactional_id, application, ended)

    def _ended_of_flink(self, transaction: Ended) -> None:
        entry, begun, ended = transaction.entry, _seconds(transaction.begun_ms), transaction.completed_ms / 1000
        who = (entry.transactional_id, entry.application)
        loss = self.flink.ended(*who, transaction.outcome, transaction.producer_id, begun, ended)
        if loss is not None:
            partitions = frozenset(decode_section(transaction.section, transaction.layout))
            self.flink.replace(loss, loss._replace(partitions=partitions))

    def _forgotten(self, entry: Entry) -> None:
        self._tasks.forget(entry.transactional_id)
        self._count_id(entry, -1)
        own = self._by_name.get(entry.application)
        if own is None:
            self._forget_other(entry.application)
            return
        own.ids -= 1
        if entry.application == self._shard.overflow:
            self._forget_folded(self._grouping.of(entry.transactional_id).name)
        if own.ids <= 0 and self._ids_known:
            self._drop(entry.application)

    def _count_id(self, entry: Entry, by: int) -> None:
        found = self.ids[entry.log_partition]
        found[entry.application] += by
        if not found[entry.application]:
            del found[entry.application]
        self.id_changes += 1

    def _forget_other(self, name: str) -> None:
        if name in self._others:
            self._others[name] -= 1
            if self._others[name] <= 0 and self._ids_known:
                del self._others[name]
                self.flink.applications.discard(name)

    def _forget_folded(self, name: str) -> None:
        """An id of the overflow expired. Flink makes new names for years: those without an id are no longer counted."""
        if (left := self._folded.get(name, 0) - 1) > 0:
            self._folded[name] = left
        else:
            self._folded.pop(name, None)

    def _drop(self, name: str) -> None:
        del self._by_name[name]
        self._seen.pop(name, None)
        self.flink.applications.discard(name)
        if name == self._shard.overflow:
            self._folded.clear()

    @property
    def topics(self) -> AbstractSet[str]:
        """All topics that finished transactions wrote to."""
        return self._lists.topics

    @property
    def offset_partitions(self) -> Mapping[str, OffsetPartitions]:
        """By application, the partitions of ``__consumer_offsets`` that its transactions named since the first read."""
        return {
            name: OffsetPartitions(own.named, frozenset(own.offset_partitions)) for name, own in self._by_name.items()
        }

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
        """Continue from saved counters. Until ``ids_are_known``, an application without ids is kept.

        Raises ValueError or TypeError for a document that ``saved`` did not write, and then restores nothing.
        """
        applications = {
            name: ApplicationCounters.restored(name, application)
            for name, application in saved.get("applications", {}).items()
        }
        tasks = {str(task): int(count) for task, count in saved.get("tasks", {}).items()}
        self._by_name |= applications
        self._tasks.counts |= tasks
        self._ids_known = False

    def ids_are_known(self) -> None:
        """All ids of the log are known: drop applications without one."""
        self._ids_known = True
        for name in [name for name, own in self._by_name.items() if own.ids <= 0]:
            self._drop(name)

    # --- Samples ---

    def counted(self) -> Mapping[str, ApplicationCounts]:
        """The counts, by application. Nothing in it changes; it is the same object until something happens."""
        return self._counted(tuple([(name, own.counted()) for name, own in self._by_name.items()]))

    def dated(self) -> Mapping[str, Mapping[Outcome, float]]:
        """When the last transactions of each application finished. Nothing in it changes."""
        return {name: own.dated() for name, own in self._by_name.items()}

    @property
    def described(self) -> tuple[Application, ...]:
        """The applications that are counted."""
        return tuple([own.application for own in self._by_name.values()])

    @property
    def seen(self) -> Mapping[str, int]:
        """By application its ids with a record in the last hour, as of the last census. Another mapping after each."""
        return self._seen

    def recent(self, cluster: str, log_now: float) -> Iterator[Sample]:
        """Gauges that change with time, about the last hour, and what caps leave out. ``log_now`` is log time in Unix
        seconds.
        """
        if (recent := self.new_applications.recent(log_now, of_shard=True)) is not None:
            yield catalogue.RECENT_APPLICATIONS(float(recent), cluster)
        for transactional_id, application, fences in self._fences.worst(log_now, self._caps.fenced_ids, self._by_name):
            yield catalogue.RECENT_PRODUCER_FENCES(float(fences), cluster, application, transactional_id)
        for end in self.unclean.latest(log_now):
            labels = (end.transactional_id, str(end.producer_id), str(end.producer_epoch), end.outcome)
            yield catalogue.LAST_UNCLEAN_END_TIMESTAMP_SECONDS(end.ended, cluster, end.application, *labels)
        if self._folded:
            outcomes = len(catalogue.OUTCOMES)
            yield catalogue.SERIES_DROPPED(float(len(self._folded) * outcomes), catalogue.TRANSACTIONS_TOTAL.name)

    @property
    def task_commits(self) -> TaskCommits:
        """The transactions that Connect's source tasks committed, whatever application their ids are counted under."""
        return TaskCommits(dict(self._tasks.counts), self._grouping.connect_groups)

    def free_names(self) -> tuple[str, ...]:
        """Applications of all shards that neither a pattern of the settings nor the form of a framework names."""
        examples = {name: own.example for name, own in self._by_name.items() if name != self._shard.overflow}
        for name in (*self._folded, *self._others):
            examples.setdefault(name, name)
        some = islice(examples.items(), MOST_FREE_NAMES)
        return tuple(name for name, example in some if self._grouping.names_freely(example))

    @property
    def uncounted(self) -> bool:
        """Return whether an application appeared since the last census."""
        return not self._by_name.keys() <= self._seen.keys()

    def census(self, unseen: Mapping[str, int]) -> None:
        """Take in the number of ids of each application without a record in the last hour."""
        self._seen = {name: own.ids - unseen.get(name, 0) for name, own in self._by_name.items()}


def _seconds(ms: int) -> float | None:
    return ms / 1000 if ms >= 0 else None


def _durations(counts: Sequence[int]) -> CommitDurations:
    """From the counts of the buckets of ``transaction_open_seconds``, that above the last bound included."""
    total = sum(counts)
    reached = zip(catalogue.TRANSACTION_OPEN_SECONDS.buckets, accumulate(counts), strict=False)
    return CommitDurations(total, next((bound for bound, count in reached if count >= QUANTILE * total), None))
