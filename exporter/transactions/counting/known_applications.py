"""Which applications the transactional.ids of the log are of, how many ids each has, and which are new. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping

from exporter.applications.applications import Application, Grouping
from exporter.catalogue import OVERFLOW
from exporter.flink.jobs import Jobs
from exporter.transactions.counting.application_counters import ApplicationCounters
from exporter.transactions.counting.id_changes import NewIds
from exporter.transactions.machine.entries import Entry

HOUR = 3600.0
MOST_NEW = 10_000
"""Largest number of applications that are remembered."""


class NewApplications:
    """Applications are new from the instant on at which all were known."""

    def __init__(self) -> None:
        self._complete_since: float | None = None
        self._appeared: deque[float] = deque(maxlen=MOST_NEW)  # when

    def complete_since(self, instant: float) -> None:
        """Note that every application with an id by this instant is known."""
        if self._complete_since is None:
            self._complete_since = instant

    def is_new(self, instant: float) -> bool:
        """Return whether what appears at this instant is new."""
        return self._complete_since is not None and instant >= self._complete_since

    def appeared(self, instant: float) -> None:
        """Note a new application."""
        self._appeared.append(instant)

    def recent(self, log_now: float) -> int | None:
        """How many applications appeared in the last hour; None while those before are not all known."""
        while self._appeared and self._appeared[0] < log_now - HOUR:
            self._appeared.popleft()
        return None if self._complete_since is None else len(self._appeared)


class KnownApplications:
    """The applications that have an id. ``by_name`` has those that are counted: at most ``most``, and one for the
    others.
    """

    def __init__(self, grouping: Grouping, most: int, jobs: Jobs) -> None:
        self._grouping = grouping
        self._jobs = jobs
        self._most = most
        self.by_name: dict[str, ApplicationCounters] = {}
        self.folded: dict[str, int] = {}  # applications in the overflow with their number of ids
        self._ids_known = True
        self.new = NewApplications()
        self.new_ids = NewIds(grouping, jobs)
        self.ids = defaultdict[int, Counter[str]](Counter)  # by partition of the log and application
        self.id_changes = 0  # how often ``ids`` changed
        self.seen: dict[str, int] = {}
        """By application its ids with a record in the last hour, as of the last census. Another mapping after each."""

    def appeared(self, entry: Entry) -> None:
        """Note a new id, and set its application."""
        before = self._number
        entry.application = self.group(entry.transactional_id)
        self._count_id(entry, 1)
        instant = entry.record_ms / 1000
        if not self.new.is_new(instant):
            return
        if entry.application != OVERFLOW:  # ids of many applications
            self.new_ids.appeared(entry)
        if self._number > before:
            self.new.appeared(instant)

    def describe_jobs(self) -> None:
        """Set the kind of the applications that are known to be Flink jobs by what their transactions do."""
        for job in self._jobs:
            own = self.by_name.get(job.application)
            if own is not None and own.application.kind == "producer":
                own.describe(own.application._replace(kind="flink"))

    @property
    def _number(self) -> int:
        return len(self.by_name) + len(self.folded)

    def group(self, transactional_id: str) -> str:
        """Return the application of a new id: its own, or the overflow when there are too many."""
        if self._grouping.learn(transactional_id):
            for name, known in self.by_name.items():
                if self._grouping.may_describe(name, known.example):
                    better = self._grouping.of(known.example)
                    if better.name == name:
                        known.describe(better)
        application = self._grouping.of(transactional_id)
        own = self.by_name.get(application.name)
        if own is None:
            if len(self.by_name) >= self._most:
                self.folded[application.name] = self.folded.get(application.name, 0) + 1
                application = Application(OVERFLOW, "other")
            own = self.by_name.setdefault(application.name, ApplicationCounters(application, transactional_id))
        own.ids += 1
        return own.application.name  # the shared object: thousands of ids have it

    def forgotten(self, entry: Entry) -> bool:
        """Note that an id expired. Returns whether its application is dropped with it."""
        self._count_id(entry, -1)
        name = entry.application
        own = self.by_name[name]
        own.ids -= 1
        if name == OVERFLOW:
            self._forget_folded(self._grouping.of(entry.transactional_id).name)
        if own.ids <= 0 and self._ids_known:
            self._drop(name)
            return True
        return False

    def _count_id(self, entry: Entry, by: int) -> None:
        found = self.ids[entry.log_partition]
        found[entry.application] += by
        if not found[entry.application]:
            del found[entry.application]
        self.id_changes += 1

    def _forget_folded(self, name: str) -> None:
        """An id of the overflow expired. Flink makes new names for years: those without an id are no longer counted."""
        if (left := self.folded.get(name, 0) - 1) > 0:
            self.folded[name] = left
        else:
            self.folded.pop(name, None)

    def _drop(self, name: str) -> None:
        del self.by_name[name]
        self.seen.pop(name, None)
        if name == OVERFLOW:
            self.folded.clear()

    def restore(self, counted: Mapping[str, ApplicationCounters]) -> None:
        """Continue from saved counters. Until ``ids_are_known``, an application without ids is kept."""
        self.by_name |= counted
        self._ids_known = False

    def ids_are_known(self) -> list[str]:
        """All ids of the log are known: drop applications without one. Returns them."""
        self._ids_known = True
        dropped = [name for name, own in self.by_name.items() if own.ids <= 0]
        for name in dropped:
            self._drop(name)
        return dropped

    # --- The census ---

    @property
    def uncounted(self) -> bool:
        """Return whether an application appeared since the last census."""
        return not self.by_name.keys() <= self.seen.keys()

    def census(self, unseen: Mapping[str, int]) -> None:
        """Take in the number of ids of each application without a record in the last hour."""
        self.seen = {name: own.ids - unseen.get(name, 0) for name, own in self.by_name.items()}

    @property
    def described(self) -> tuple[Application, ...]:
        """The applications that are counted."""
        return tuple([own.application for own in self.by_name.values()])
