"""Reads every source at its own interval, and keeps the result of the last read.

One thread per source: a source that hangs delays no other, and no source is read twice at once. The one broad
``except`` of the project is in ``read_source``: whatever a source raises becomes a fault of that source.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from exporter.catalogue import (
    IGNORED_INFO,
    SOURCE_BLIND,
    SOURCE_FAULTS_TOTAL,
    SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
    SOURCE_READ_DURATION_SECONDS,
    SOURCE_UP,
)
from exporter.core.facts import FactStore, Key
from exporter.model import (
    Clock,
    Deadline,
    Distribution,
    Fact,
    Facts,
    Fault,
    IgnoredSource,
    Kind,
    Notes,
    Reason,
    Sample,
    Snapshot,
    Source,
)

log = logging.getLogger(__name__)

OVERRUN_GRACE = 1.0
"""Seconds after its deadline at which a read counts as hanging: sources check the deadline between calls."""

STOOD_GRACE = 5.0
"""Seconds after its deadline at which the result of a read is dropped as too old: the process was stopped (SIGSTOP, a
suspended machine), or had no processor.
"""

WATCH_INTERVAL = 0.5
DISTRIBUTIONS = frozenset({Kind.HISTOGRAM, Kind.SUMMARY})


class SnapshotSink(Protocol):
    """Receives snapshots: the exposition."""

    def swap(self, snapshots: Mapping[Key, Snapshot]) -> None: ...

    def drop(self, keys: Collection[Key]) -> None: ...


class Group(NamedTuple):
    """Sources that share facts: those of one configured cluster. ``key`` is unique and lasts as long as the group.

    ``release`` closes the connections that the sources share, so that blocked reads return. It is called once, after
    the sources got the signal to stop and before their threads are joined.
    """

    key: str
    sources: tuple[Source, ...]
    release: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class SourceState:
    """Result of the last read of one source. ``up`` is None before the first; instants are Unix seconds."""

    source: str
    target: str
    cluster: str
    up: bool | None = None
    blind: bool = False
    last_success: float | None = None
    duration: float | None = None
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: str | None = None
    """The reason in the settings for which it may be down, or None."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group as the status page shows it."""

    key: str
    facts: Facts
    sources: tuple[SourceState, ...]


# --- One read ---------------------------------------------------------------------------------------------------------


def log_traceback(error: Exception, source: Source) -> None:
    """Log a bug of a source with its traceback."""
    log.error("source %s of %s failed: this is a bug", source.name, source.target, exc_info=error)


def read_source(
    source: Source,
    deadline: Deadline,
    facts: Facts,
    clock: Clock,
    on_bug: Callable[[Exception, Source], None] = log_traceback,
) -> Snapshot:
    """Read a source once. What it yielded before it raised is kept, and the exception becomes a Fault(INTERNAL)."""
    samples: list[Sample] = []
    faults: list[Fault] = []
    made: list[Fact] = []
    began = clock.monotonic()
    try:
        for item in source.read(deadline, facts):
            if isinstance(item, Sample):
                samples.append(_checked(item))
            elif isinstance(item, Fault):
                faults.append(item)
            else:
                made.append(item)
    except Exception as error:  # noqa: BLE001 -- the one place: a bug in one source is that source's fault
        on_bug(error, source)
        # The fault has no text of the exception, which may hold secrets. The log has it.
        faults.append(Fault(Reason.INTERNAL, f"{_where(error)}; the log has the traceback"))
    ended = clock.monotonic()
    return Snapshot(
        source=source.name,
        target=source.target,
        cluster=source.cluster,
        interval=source.interval,
        samples=tuple(samples),
        faults=tuple(faults),
        facts=tuple(made),
        duration=ended - began,
        ended=ended,
        wall=clock.wall(),
    )


def only_lasting(snapshot: Snapshot, late: float) -> Snapshot:
    """Keep of a read that returned ``late`` seconds after its deadline only its counters, and add a fault."""
    detail = f"a read came back {late:.0f} s after its deadline, so what it saw is as old: was the process stopped?"
    return replace(
        snapshot,
        samples=tuple(sample for sample in snapshot.samples if sample.metric.kind is not Kind.GAUGE),
        faults=(*snapshot.faults, Fault(Reason.TIMEOUT, detail)),
        facts=(),
    )


def _checked(sample: Sample) -> Sample:
    """The sample, if the exposition can write it. An invalid one is a bug of its source and is dropped with a fault."""
    metric, labels, value = sample
    if len(labels) != len(metric.labels):
        raise ValueError(f"{metric.name} takes the labels {metric.labels}")
    if isinstance(value, Distribution) != (metric.kind in DISTRIBUTIONS):
        raise TypeError(f"{metric.name} is a {metric.kind} and cannot hold a {type(value).__name__}")
    return sample


def _where(error: Exception) -> str:
    """The type of an exception and the line that raised it."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    line = f" in {place.tb_frame.f_code.co_name}, line {place.tb_lineno}" if place else ""
    return f"{type(error).__name__}{line}"


def is_blind(snapshot: Snapshot) -> bool:
    """Return whether a read had a fault and gave no gauge. Counters alone do not show that a read succeeded."""
    return not snapshot.up and not any(sample.metric.kind is Kind.GAUGE for sample in snapshot.samples)


def next_start(began: float, now: float, interval: float) -> float:
    """When the next read begins: a whole number of intervals after the last start. Intervals missed by an overrun are
    skipped.
    """
    return began + interval * max(1, math.ceil((now - began) / interval))


# --- One source -------------------------------------------------------------------------------------------------------


class Worker:
    """Reads one source until stopped, on its own thread, and publishes after every read."""

    def __init__(self, key: Key, source: Source, fact_store: FactStore, sink: SnapshotSink, clock: Clock) -> None:
        self.key = key
        self._own_key: Key = (*key, "agent")
        self._source, self._fact_store, self._sink, self._clock = source, fact_store, sink, clock
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # guards the state below, which the worker and the watchdog both write
        self._faults: Counter[Reason] = Counter(dict.fromkeys(Reason, 0))
        self._state = SourceState(source.name, source.target, source.cluster)
        self._due: float | None = None  # when the current read counts as hanging
        self._logged: frozenset[Reason] = frozenset()
        self._logged_notes: frozenset[str] = frozenset()
        self._last_bug = ""
        self._thread = threading.Thread(target=self._run, name=f"read {'/'.join(key)}", daemon=True)

    @property
    def state(self) -> SourceState:
        return self._state

    @property
    def keys(self) -> tuple[Key, Key]:
        """What this worker exposes: the samples of its source, and the metrics of its reads."""
        return self.key, self._own_key

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Signal the worker to end. After this returns, nothing that it still reads is published."""
        with self._lock:
            self._stopping.set()

    def join(self, seconds: float) -> bool:
        """Return whether the thread ended within this time."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with self._lock:
            if self._source.target and not self._stopping.is_set():
                self._publish()  # zero-initialised: the first fault is an increase
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            self._read(began)
            now = self._clock.monotonic()
            self._stopping.wait(next_start(began, now, self._source.pace) - now)
        self._source.close()

    def _read(self, began: float) -> None:
        deadline = Deadline(began + self._source.timeout, self._clock.monotonic)
        self._due = deadline.at + OVERRUN_GRACE
        snapshot = read_source(self._source, deadline, self._fact_store.facts(began), self._clock, self._on_bug)
        if (late := snapshot.ended - deadline.at) > STOOD_GRACE:
            snapshot = only_lasting(snapshot, late)
        with self._lock:
            if self._stopping.is_set():
                return
            self._note(
                SourceState(
                    source=snapshot.source,
                    target=snapshot.target,
                    cluster=snapshot.cluster,
                    up=snapshot.up,
                    blind=is_blind(snapshot),
                    last_success=snapshot.wall if snapshot.up else self._state.last_success,
                    duration=snapshot.duration,
                    faults=snapshot.faults,
                    notes=tuple(note for fact in snapshot.facts if isinstance(fact, Notes) for note in fact.notes),
                    ignored=next((fact.reason for fact in snapshot.facts if isinstance(fact, IgnoredSource)), None),
                )
            )
            # Samples that it no longer exposes are removed before another source learns from the facts that it may
            # expose them.
            self._publish(snapshot)
            self._fact_store.post(self.key, snapshot)
            self._due = None

    def note_overrun(self, now: float) -> None:
        """Report once that the current read hangs, if it is past its deadline. Called by the watchdog."""
        with self._lock:
            if self._due is None or now < self._due or self._stopping.is_set():
                return
            self._due = None
            late = Fault(Reason.TIMEOUT, f"a read has not returned {OVERRUN_GRACE:.0f} s after its deadline")
            duration = self._source.timeout + OVERRUN_GRACE
            self._note(replace(self._state, up=False, blind=True, duration=duration, faults=(late,)))
            self._publish()

    def _note(self, state: SourceState) -> None:
        self._state = state
        self._faults.update(fault.reason for fault in state.faults)
        self._log_changes(state)

    def _publish(self, snapshot: Snapshot | None = None) -> None:
        """Publish the metrics of reading and the samples of a read in one step."""
        own = {self._own_key: self._own_snapshot(self._state)}
        self._sink.swap(own if snapshot is None else {self.key: snapshot, **own})

    def _own_snapshot(self, state: SourceState) -> Snapshot:
        labels = (state.cluster, state.source, state.target)
        samples = [SOURCE_FAULTS_TOTAL(self._faults[reason], *labels, reason) for reason in Reason]
        if state.up is not None:
            samples.append(SOURCE_UP(float(state.up), *labels))
            samples.append(SOURCE_BLIND(float(state.blind), *labels))
        if state.ignored is not None:
            subject = f"{state.source}/{state.target}"
            samples.append(IGNORED_INFO(1.0, state.cluster, "source", subject, state.ignored))
        if state.duration is not None:
            samples.append(SOURCE_READ_DURATION_SECONDS(state.duration, *labels))
        if state.last_success is not None:
            samples.append(SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS(state.last_success, *labels))
        return Snapshot(
            source="agent",
            target=state.target,
            cluster=state.cluster,
            interval=math.inf,  # the metrics of reading are valid until the next read
            samples=tuple(samples),
            faults=(),
            facts=(),
            duration=0.0,
            ended=self._clock.monotonic(),
            wall=self._clock.wall(),
        )

    def _log_changes(self, state: SourceState) -> None:
        """Log faults when their reasons change, and notes once, not at every read."""
        for note in sorted(set(state.notes) - self._logged_notes):
            log.warning("%s", note, extra={"source": state.source, "target": state.target})
        self._logged_notes |= frozenset(state.notes)
        reasons = frozenset(fault.reason for fault in state.faults)
        if reasons == self._logged:
            return
        where = {"source": state.source, "target": state.target}
        for reason in sorted(reasons - self._logged):
            details = [fault.detail for fault in state.faults if fault.reason == reason]
            more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
            log.warning("%s: %s%s", reason, details[0], more, extra=where)
        if not reasons:
            log.info("answers again", extra=where)
        self._logged = reasons

    def _on_bug(self, error: Exception, source: Source) -> None:
        if (where := _where(error)) != self._last_bug:  # the same traceback every few seconds would flood the log
            self._last_bug = where
            log_traceback(error, source)


# --- All of them ------------------------------------------------------------------------------------------------------


class Runner:
    """All workers. Groups can be added and removed while it runs; the others keep their threads and their counters."""

    def __init__(self, groups: Iterable[Group], sink: SnapshotSink, clock: Clock | None = None) -> None:
        self._sink = sink
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        self._members: dict[str, _Member] = {}
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
        """Add a group, and start it if the fleet runs."""
        fact_store = FactStore()
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
        return hanging

    def stop(self, deadline: Deadline) -> list[Key]:
        """Stop every worker. Returns the keys whose read still hangs at the deadline: their threads are daemons."""
        self._stopping.set()
        with self._lock:
            self._running = False
            members = list(self._members.values())
        return _stop_all(members, deadline)

    def ready(self) -> bool:
        """Whether every source has answered or failed once."""
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
