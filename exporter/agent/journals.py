"""The journals of all clusters of the agent, with the owners of the settings."""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from exporter.cluster import Cluster
from exporter.config import Config
from exporter.core.source_state import SourceState
from exporter.core.state import StateLock
from exporter.core.thresholds import Owners
from exporter.core.worker import SnapshotSink
from exporter.journal.documents import EventDocument, EventsDocument
from exporter.journal.journal import Instants, JournalSettings
from exporter.journal.keeper import JournalKeeper, States
from exporter.journal.query import EventQuery, page_of
from exporter.journal.segments import KeptLimits
from exporter.model import Clock, Sample, Snapshot

log = logging.getLogger(__name__)

PACE = 2.0
"""Seconds between two comparisons of what the sources read."""
PAUSED_SECONDS = 10.0
"""A wait of ``PACE`` that took as long is one of a process that did not run."""
STANDARD_OUTPUT_MILLIS = 1_000


class Journals:
    """The journals by the key of their cluster, and the thread that keeps them. Any thread may ask."""

    def __init__(
        self,
        config: Config,
        owners: Callable[[], Owners],
        sink: SnapshotSink,
        clock: Clock,
        held: StateLock | None = None,
    ) -> None:
        """``owners`` returns those in force; where and how much is kept does not change while the agent runs.

        ``sink`` takes the metrics of the journals; ``held`` is the lock of ``state.dir``.
        """
        self._sink = sink
        self._clock = clock
        self._instants = Instants()
        self._by_key: dict[str, JournalKeeper] = {}
        self._gone: list[JournalKeeper] = []
        self._exposing = threading.Lock()  # held while metrics are given to ``sink`` or dropped from it
        self._exposed: dict[str, list[Sample]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._owners = owners
        self._folder = config.state.dir
        self._held = held
        self._settings = config.journal

    def start(self) -> None:
        """Keep the journals from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Signal the end. The thread records it."""
        self._stopping.set()

    def join(self, seconds: float) -> None:
        """Wait so long for the last events to be written."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def watch(self, key: str, cluster: Cluster, states: States) -> None:
        """Keep the journal of a cluster. The one that had this key ends."""
        limits = KeptLimits(self._settings.size, self._settings.keep)
        sink = _to_standard_output if self._settings.standard_output else None
        settings = JournalSettings(self._folder, limits, self._instants, self._owner, sink, self._held)
        if (before := self._by_key.get(key)) is not None:
            self._gone.append(before)
        self._by_key = {**self._by_key, key: JournalKeeper(cluster, settings, states)}

    def keep(self, keys: Collection[str]) -> None:
        """End the journals of all other clusters."""
        gone = [key for key in self._by_key if key not in keys]
        self._gone += [self._by_key[key] for key in gone]
        with self._exposing:
            self._by_key = {key: keeper for key, keeper in self._by_key.items() if key in keys}
            self._sink.drop([("journal", key) for key in gone])
            for key in gone:
                self._exposed.pop(key, None)

    def state(self, key: str) -> SourceState | None:
        """Return the journal of a cluster as a source that does not answer, while it cannot be written."""
        keeper = self._by_key.get(key)
        return None if keeper is None else keeper.state

    def page(self, query: EventQuery) -> EventsDocument:
        """Return a page of events. It reads files: not for the event loop's thread."""
        journals = [keeper.journal for keeper in self._by_key.values()]
        kept = [since for since in (journal.kept_since for journal in journals) if since is not None]
        return page_of(query, [journal.lines for journal in journals], min(kept, default=None))

    def newest(self) -> list[EventDocument]:
        """Return the events that are in memory, the newest first."""
        found = [event for keeper in self._by_key.values() for event in keeper.journal.newest()]
        return sorted(found, key=lambda event: -event["recorded_timestamp"])

    def _run(self) -> None:
        asleep = self._clock.monotonic()
        while not self._stopping.wait(PACE):
            slept = self._clock.monotonic() - asleep
            self._close_gone()
            for key, keeper in self._by_key.items():
                self._look(key, keeper, slept if slept >= PAUSED_SECONDS else 0.0)
            asleep = self._clock.monotonic()
        self._gone += self._by_key.values()
        self._close_gone()

    def _look(self, key: str, keeper: JournalKeeper, paused: float) -> None:
        try:
            keeper.look(paused)
        except Exception:
            log.exception("the journal of %s failed: this is a bug", key)
        samples = keeper.samples()
        with self._exposing:
            # It may have gone meanwhile: nothing would drop its metrics again.
            if self._by_key.get(key) is keeper and samples != self._exposed.get(key):
                self._exposed[key] = samples
                self._sink.swap({("journal", key): Snapshot.until_replaced("agent", samples, self._clock)})

    def _close_gone(self) -> None:
        while self._gone:
            try:
                self._gone.pop(0).close()
            except Exception:
                log.exception("a journal could not be closed: this is a bug")

    def _owner(self, event: Mapping[str, Any]) -> str | None:
        return self._owners().of_any(_subjects(event))


def _subjects(event: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The application, the topics and the connector of an event, each with its kind."""
    subject = event["subject"]
    found = {("topic", partition["topic"]) for partition in event.get("partitions", ())}
    found |= {(kind, subject[kind]) for kind in ("application", "topic") if subject.get(kind)}
    if "connector" in subject:
        found.add(("connector", f"{subject.get('connect')}/{subject['connector']}"))
    return found


def _to_standard_output(line: bytes) -> None:
    """Write the line. A reader that has gone, or does not read for a second, loses it: the journal has it."""
    try:
        handle = sys.stdout.fileno()
        ready = select.poll()
        ready.register(handle, select.POLLOUT)
        left = memoryview(line)
        while left and ready.poll(STANDARD_OUTPUT_MILLIS):
            left = left[os.write(handle, left[: select.PIPE_BUF]) :]
    except (OSError, ValueError):
        return
