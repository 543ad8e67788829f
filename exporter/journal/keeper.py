"""Derives events from the last reads of a cluster's other sources, and records them. Sends no request."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exporter import __version__, catalogue
from exporter.cluster import Cluster
from exporter.core.durations import format_age
from exporter.core.source_state import SourceState
from exporter.journal.conditions import ConditionRules
from exporter.journal.facts import Event, LastReads, Text
from exporter.journal.findings import Bursts, FindingRules
from exporter.journal.journal import Journal, JournalSettings, Restored
from exporter.journal.stall_rules import StallRules
from exporter.model import Fault, Reason, Sample
from exporter.words import EventKind

ID_SECONDS = 60.0
"""Seconds to wait for the cluster's id, and with it for what was open before, until events are told without it."""

States = Callable[[], Sequence[SourceState]]


class JournalKeeper:
    """Keeps the journal of one cluster. For one thread; any thread may read ``journal``."""

    def __init__(self, cluster: Cluster, settings: JournalSettings, states: States) -> None:
        """``states`` returns the last read of each source of the cluster."""
        self._cluster = cluster
        self._states = states
        self._stalls, self._conditions, self._findings = StallRules(), ConditionRules(), FindingRules()
        self._bursts = Bursts()
        self.journal = Journal(settings, lambda: cluster.name, self._open)
        self._keeps = settings.folder is not None
        self._began: float | None = None
        self._told = False

    def look(self, paused: float = 0.0) -> None:
        """Compare the last reads with those before, and record what has changed.

        ``paused`` is for how many seconds the process did not run before; 0 if it did.
        """
        wall = self._cluster.clock.wall()
        if self._began is None:
            self._began = wall
        if not self._begin(wall):
            return
        reading = LastReads(wall, self._began, self._states())
        if paused:
            self.journal.record([slept(wall, paused)], wall)
        events = [*self._stalls.events(reading), *self._conditions.events(reading), *self._findings.events(reading)]
        self.journal.record(self._bursts.events(events, wall), wall)

    def close(self) -> None:
        """Record what was waited for, and that this process stops."""
        wall = self._cluster.clock.wall()
        if self._began is None or not self._told:
            return
        reading = LastReads(wall, self._began, ())
        stopped = Event(EventKind.AGENT_STOPPED, wall, f"agent_stopped:{wall:.3f}", "The agent stopped by itself")
        self.journal.record([*self._stalls.close(reading), *self._bursts.close(wall), stopped], wall)

    def _begin(self, wall: float) -> bool:
        """Open the journal once the cluster's id is known. Returns whether events can be told."""
        began = self._began or wall
        if self._keeps and not self.journal.opened and self._cluster.cluster_id:
            found = self.journal.open(self._cluster.state.folder(self._cluster.cluster_id))
            stalls = self._stalls.restore(found.events)
            self._conditions.restore(found.events)
            self._findings.restore(found.events)
            if found.last is not None or not self._told:  # also after a start that was told without the journal
                self.journal.record([started(found, began, stalls)], wall)
            self._told = True
        elif not self._told and (not self._keeps or wall - began >= ID_SECONDS):
            self._told = True
            self.journal.record([started(None if self._keeps else Restored(), began)], wall)
        return self._told

    def _open(self, wall: float) -> list[Event]:
        return [*self._stalls.open(wall), *self._conditions.open]

    @property
    def state(self) -> SourceState | None:
        """The journal as a source that does not answer, while it cannot be written; otherwise None."""
        if not self.journal.trouble:
            return None
        what = f"events are not written to state.dir: {self.journal.trouble}; {self.journal.lost} are lost"
        fault = Fault(Reason.INTERNAL, what)
        return SourceState("journal", self._cluster.target, self._cluster.name, up=False, faults=(fault,))

    def samples(self) -> list[Sample]:
        """The metrics of the journal; none before the first event, until which the cluster may have no name."""
        if not self._told:
            return []
        name = self._cluster.name
        counts = [catalogue.EVENTS_TOTAL(float(self.journal.counts[kind]), name, kind) for kind in EventKind]
        counts.append(catalogue.JOURNAL_LOST_EVENTS_TOTAL(float(self.journal.lost), name))
        if self.journal.size is not None:
            counts.append(catalogue.JOURNAL_SIZE_BYTES(float(self.journal.size), name))
        return counts


def slept(wall: float, seconds: float) -> Event:
    """Return the event of a process that was stopped, or got no processor time, until now."""
    evidence: dict[str, Text] = {"not_seen_from_timestamp": round(wall - seconds, 3)}
    what = f"The agent's process did not run for {format_age(seconds)}: what happened then was not seen"
    key = f"agent_paused:{wall:.3f}"
    return Event(EventKind.AGENT_PAUSED, wall, key, what, evidence=evidence, duration=seconds)


def started(found: Restored | None, began: float, stalls: int = 0) -> Event:
    """Return the event of a start, with what is not known of the time before. ``found`` is None while the journal
    cannot be opened, ``stalls`` is how many were open.
    """
    evidence: dict[str, Text] = {"version": __version__}
    what = "The agent started, without a journal from before"
    duration = None
    if found is None:
        what = "The agent started, and does not know the cluster's id yet: its journal cannot be opened"
    elif found.last is not None:
        duration = max(0.0, began - found.last)
        how = "stopped" if found.stopped else "ended without a word"
        evidence |= {"previous": how, "not_seen_from_timestamp": round(found.last, 3), "open_stalls": stalls}
        what = (
            f"The agent started; the one before {how} {format_age(duration)} earlier: what happened then was not seen"
        )
    if found is not None and found.torn:
        evidence["torn_lines"] = found.torn
    return Event(
        EventKind.AGENT_STARTED, began, f"agent_started:{began:.3f}", what, evidence=evidence, duration=duration
    )
