"""Runs the workers of all sources, in groups that share facts.

One thread per source: a source that hangs delays no other, and no source is read twice at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from exporter.core.fact_store import FactStore, Key
from exporter.core.source_state import SourceState
from exporter.core.worker import SnapshotSink, Worker
from exporter.model import Clock, Deadline, Facts, Source

WATCH_INTERVAL = 0.5


class Group(NamedTuple):
    """Sources that share facts: those of one configured cluster. ``key`` is unique and lasts as long as the group.

    The facts of a ``common`` group are seen by all groups: they name their cluster.

    ``release`` closes the connections that the sources share, so that blocked reads return. It is called once, after
    the sources got the signal to stop and before their threads are joined.
    """

    key: str
    sources: tuple[Source, ...]
    release: Callable[[], None] = lambda: None
    common: bool = False


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group as the status page shows it."""

    key: str
    facts: Facts
    sources: tuple[SourceState, ...]


class Runner:
    """All workers. Groups can be added and removed while it runs; the others keep their threads and their counters."""

    def __init__(self, groups: Iterable[Group], sink: SnapshotSink, clock: Clock | None = None) -> None:
        self._sink = sink
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._members: dict[str, _Member] = {}
        self._common = FactStore()
        self._stopping = threading.Event()
        self._running = False
        self._watch = threading.Thread(target=self._keep_watching, name="watch", daemon=True)
        for group in groups:
            self.add(group)

    def start(self) -> None:
        """Start every worker."""
        with self._lock:
            self._running = True
        for worker in self._workers():
            worker.start()
        self._watch.start()

    def add(self, group: Group) -> None:
        """Add a group, and start it if the runner runs."""
        fact_store = self._common if group.common else FactStore(self._common)
        names: Counter[str] = Counter()
        workers = []
        for source in group.sources:
            number = names[source.name]
            names[source.name] += 1
            workers.append(Worker((group.key, source.name, str(number)), source, fact_store, self._sink, self._clock))
        with self._lock:
            if group.key in self._members:
                raise ValueError(f"there is a group {group.key} already")
            self._members[group.key] = _Member(group, fact_store, tuple(workers))
            running = self._running
        if running:
            for worker in workers:
                worker.start()

    def remove(self, key: str, deadline: Deadline) -> list[Key]:
        """Stop a group and drop its samples. Returns the keys of sources whose read still hangs; they can publish no
        more.
        """
        with self._lock:
            member = self._members.pop(key)
        hanging = _stop_all([member], deadline)
        self._sink.drop([key for worker in member.workers for key in worker.keys])
        for worker in member.workers:
            member.fact_store.drop(worker.key)
        return hanging

    def stop(self, deadline: Deadline) -> list[Key]:
        """Stop every worker. Returns the keys whose read still hangs at the deadline: their threads are daemons."""
        self._stopping.set()
        with self._lock:
            self._running = False
            members = list(self._members.values())
        return _stop_all(members, deadline)

    def ready(self) -> bool:
        """Return whether every source has answered or failed once."""
        return all(worker.state.up is not None for worker in self._workers())

    def states(self) -> tuple[GroupState, ...]:
        """The state of reading and the facts, by group."""
        now = self._clock.monotonic()
        with self._lock:
            members = list(self._members.items())
        return tuple(
            GroupState(key, member.fact_store.facts(now), tuple(worker.state for worker in member.workers))
            for key, member in members
        )

    def source_states(self, keys: Iterable[str]) -> tuple[SourceState, ...]:
        """The state of reading of all sources of these groups."""
        with self._lock:
            members = [self._members[key] for key in keys if key in self._members]
        return tuple(worker.state for member in members for worker in member.workers)

    def _workers(self) -> list[Worker]:
        with self._lock:
            return [worker for member in self._members.values() for worker in member.workers]

    def _keep_watching(self) -> None:
        while not self._stopping.wait(WATCH_INTERVAL):
            for worker in self._workers():
                worker.note_overrun(self._clock.monotonic())


class _Member(NamedTuple):
    group: Group
    fact_store: FactStore
    workers: tuple[Worker, ...]


def _stop_all(members: Collection[_Member], deadline: Deadline) -> list[Key]:
    """Stop all workers, release what their reads wait for, and join them. Returns the keys of those that still hang."""
    for member in members:
        for worker in member.workers:
            worker.stop()
    releases = [threading.Thread(target=member.group.release, daemon=True) for member in members]
    for release in releases:
        release.start()
    workers = [worker for member in members for worker in member.workers]
    hanging = [worker.key for worker in workers if not worker.join(deadline.remaining())]
    for release in releases:
        release.join(deadline.remaining())
    return hanging
