"""Which applications the transactional.ids of the log are of, how many ids each has, and which are new. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import islice

from exporter.applications.applications import Application, Grouping
from exporter.core.shard import Shard
from exporter.transactions.counting.application_counters import ApplicationCounters
from exporter.transactions.counting.id_changes import NewIds
from exporter.transactions.counting.new_applications import NewApplications
from exporter.transactions.machine.entries import Entry

MOST_FREE_NAMES = 10_000
"""Largest number of applications that ``free_names`` looks at."""


class KnownApplications:
    """The applications that have an id, of all shards. ``by_name`` has those of this shard that are counted: at
    most ``most``, and one for all others.
    """

    def __init__(self, grouping: Grouping, most: int, shard: Shard) -> None:
        self._grouping = grouping
        self._most = most
        self._shard = shard
        self.by_name: dict[str, ApplicationCounters] = {}
        self.folded: dict[str, int] = {}  # applications in the overflow with their number of ids
        self._others: dict[str, int] = {}  # applications of other shards with their number of ids
        self._ids_known = True
        self.new = NewApplications()
        self.new_ids = NewIds(grouping)
        self.ids = defaultdict[int, Counter[str]](Counter)  # by partition of the log and application, of all shards
        self.id_changes = 0  # how often ``ids`` changed
        self.seen: dict[str, int] = {}
        """By application its ids with a record in the last hour, as of the last census. Another mapping after each."""

    def appeared(self, entry: Entry) -> None:
        """Note a new id, and set its application."""
        before, others = self._number, len(self._others)
        entry.application = self.group(entry.transactional_id)
        self._count_id(entry, 1)
        instant = entry.record_ms / 1000
        if not self.new.is_new(instant):
            return
        if entry.application != self._shard.overflow:  # ids of many applications
            self.new_ids.appeared(entry)
        if self._number > before:
            self.new.appeared(instant, of_shard=len(self._others) == others)

    @property
    def _number(self) -> int:
        return len(self.by_name) + len(self.folded) + len(self._others)

    def group(self, transactional_id: str) -> str:
        """Return the application of a new id: its own, or the overflow when this shard has too many."""
        if self._grouping.learn(transactional_id):
            for name, known in self.by_name.items():
                if self._grouping.may_describe(name, known.example):
                    better = self._grouping.of(known.example)
                    if better.name == name:
                        known.describe(better)
        application = self._grouping.of(transactional_id)
        if not self._shard.holds(application.name):
            self._others[application.name] = self._others.get(application.name, 0) + 1
            return application.name
        own = self.by_name.get(application.name)
        if own is None:
            if len(self.by_name) >= self._most:
                self.folded[application.name] = self.folded.get(application.name, 0) + 1
                application = Application(self._shard.overflow, "other")
            own = self.by_name.setdefault(application.name, ApplicationCounters(application, transactional_id))
        own.ids += 1
        return own.application.name  # the shared object: thousands of ids have it

    def forgotten(self, entry: Entry) -> bool:
        """Note that an id expired. Returns whether its application is dropped with it."""
        self._count_id(entry, -1)
        name = entry.application
        own = self.by_name.get(name)
        if own is None:
            return self._forget_other(name)
        own.ids -= 1
        if name == self._shard.overflow:
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

    def _forget_other(self, name: str) -> bool:
        if name not in self._others:
            return False
        self._others[name] -= 1
        if dropped := self._others[name] <= 0 and self._ids_known:
            del self._others[name]
        return dropped

    def _forget_folded(self, name: str) -> None:
        """An id of the overflow expired. Flink makes new names for years: those without an id are no longer counted."""
        if (left := self.folded.get(name, 0) - 1) > 0:
            self.folded[name] = left
        else:
            self.folded.pop(name, None)

    def _drop(self, name: str) -> None:
        del self.by_name[name]
        self.seen.pop(name, None)
        if name == self._shard.overflow:
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

    def free_names(self) -> tuple[str, ...]:
        """Applications of all shards that neither a pattern of the settings nor the form of a framework names."""
        examples = {name: own.example for name, own in self.by_name.items() if name != self._shard.overflow}
        for name in (*self.folded, *self._others):
            examples.setdefault(name, name)
        some = islice(examples.items(), MOST_FREE_NAMES)
        return tuple(name for name, example in some if self._grouping.names_freely(example))
