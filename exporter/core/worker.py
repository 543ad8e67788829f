"""Reads one source at its own interval, on its own thread, and publishes what it read and how reading went."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from exporter.catalogue import (
    IGNORED_INFO,
    SOURCE_BLIND,
    SOURCE_FAULTS_TOTAL,
    SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
    SOURCE_READ_DURATION_SECONDS,
    SOURCE_UP,
)
from exporter.core.fact_store import FactStore, Key
from exporter.core.reading import is_blind, next_start, only_lasting, read_source
from exporter.core.source_state import SourceLog, SourceState
from exporter.model import Clock, Deadline, Fault, IgnoredSource, Notes, Reason, Snapshot, Source

OVERRUN_GRACE = 1.0
"""Seconds after its deadline at which a read counts as hanging: sources check the deadline between calls."""

STOOD_GRACE = 5.0
"""Seconds after its deadline at which the result of a read is dropped as too old: the process was stopped (SIGSTOP, a
suspended machine), or had no processor.
"""


class SnapshotSink(Protocol):
    """Receives snapshots: the exposition."""

    def swap(self, snapshots: Mapping[Key, Snapshot]) -> None: ...

    def drop(self, keys: Collection[Key]) -> None: ...


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
        self._log = SourceLog()
        self._thread = threading.Thread(target=self._run, name=f"read {'/'.join(key)}", daemon=True)

    @property
    def state(self) -> SourceState:
        return self._state

    @property
    def keys(self) -> tuple[Key, Key]:
        """The samples of this worker: the samples of its source, and the metrics of its reads."""
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
        snapshot = read_source(self._source, deadline, self._fact_store.facts(began), self._clock, self._log.note_bug)
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
                    facts=snapshot.facts,
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
        self._log.note(state)

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
        # The metrics of reading are valid until the next read.
        return Snapshot.until_replaced("agent", samples, self._clock, target=state.target, cluster=state.cluster)
