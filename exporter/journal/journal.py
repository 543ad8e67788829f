"""The journal of one cluster: events are written to ``state.dir``, kept in memory, and read back by pages.

One thread records, the source's; any thread reads. A write that fails is repeated with the next one: what is beyond the
limit is lost, counted, and told as an event once the disk takes it again.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from exporter import __version__
from exporter.core.state import StateLock
from exporter.journal.documents import EventDocument, event_of
from exporter.journal.facts import Event
from exporter.journal.query import Line
from exporter.journal.segments import (
    DAY,
    KeptLimits,
    SegmentWriter,
    began,
    encode,
    lines,
    parsed,
    read_event,
    segments,
    touched,
)
from exporter.words import EventKind

log = logging.getLogger(__name__)

KEPT_BYTES = 256 * 1024
"""Bytes of the newest events that are in memory, for the page."""
KEPT_BYTES_WITHOUT_DISK = 2 * 1024 * 1024
MOST_WAITING_BYTES = 1024 * 1024
"""Bytes of events that wait for the disk, or for the cluster to tell its id."""
TOUCH_SECONDS = 10.0
_RECORDED = b'{"recorded_timestamp":'

OwnerOf = Callable[[Mapping[str, Any]], str | None]
"""The team of an event, by the settings."""
Sink = Callable[[bytes], None]
"""Takes a line: standard output."""


class Instants:
    """Instants of recording: different for all events of one agent, also of several clusters."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0.0

    def next(self, wall: float) -> float:
        """Return the instant of a new event, ``wall`` or a little later."""
        with self._lock:
            self._last = max(round(wall, 6), round(self._last + 1e-6, 6))
            return self._last

    def after(self, recorded: float) -> None:
        """Give no instant up to this one."""
        with self._lock:
            self._last = max(self._last, recorded)


class JournalSettings(NamedTuple):
    """Where a journal is, and what else takes its events. ``folder`` is ``state.dir``, None without, and ``held`` its
    lock.
    """

    folder: Path | None
    limits: KeptLimits
    instants: Instants
    owner_of: OwnerOf = lambda _: None
    sink: Sink | None = None
    held: StateLock | None = None


class Restored(NamedTuple):
    """The journal's record of the process before: the begins of what was open at its last header, and the events since;
    when it was last known to run (Unix seconds, None for none), whether it stopped by itself, and how many lines were
    unreadable.
    """

    events: tuple[EventDocument, ...] = ()
    last: float | None = None
    stopped: bool = False
    torn: int = 0


class Journal:
    """See the module. ``cluster`` gives the name of the cluster, "" while it is not known."""

    def __init__(
        self, settings: JournalSettings, cluster: Callable[[], str], begun: Callable[[float], Iterable[Event]]
    ) -> None:
        """``begun`` returns the begins of what is open at an instant, for the header of a segment."""
        self._settings = settings
        self._cluster = cluster
        self._begun = begun
        self._agent = socket.gethostname()
        self._lock = threading.Lock()  # guards what readers look at: the kept lines
        self._kept: deque[tuple[float, bytes]] = deque()
        self._kept_bytes = 0
        self._waiting: deque[tuple[bytes, int, float]] = deque()
        self._waiting_bytes = 0
        self._writer: SegmentWriter | None = None
        self._touched = 0.0
        self._unwritten = 0
        self.counts: Counter[EventKind] = Counter(dict.fromkeys(EventKind, 0))
        self.lost = 0
        self.trouble = ""

    @property
    def opened(self) -> bool:
        """Return whether events are written to the disk, or would be if it took them."""
        return self._writer is not None

    @property
    def size(self) -> int | None:
        """Bytes of the journal on disk, None without one."""
        return None if self._writer is None else self._writer.total

    def open(self, folder: str) -> Restored:
        """Go on with the journal in this folder of ``state.dir``; without one there is nothing to restore."""
        if self._settings.folder is None:
            return Restored()
        self._writer = SegmentWriter(self._settings.folder / folder, self._settings.limits)
        torn = self._writer.go_on()
        found = restored(self._writer.folder, torn=torn)
        if found.torn:
            log.warning("the journal %s has %d torn lines, which are skipped", self._writer.folder, found.torn)
        self._settings.instants.after(found.last or 0.0)
        for recorded, line in _newest(self._writer.folder):
            self._keep(recorded, line, newest=False)
        return found

    def record(self, events: Iterable[Event], wall: float) -> None:
        """Take events, write what waits, and forget what is too old. ``wall`` is Unix seconds."""
        for event in events:
            self._take(event, wall)
        self._write(wall)
        if self._unwritten and not self.trouble:
            number, self._unwritten = self._unwritten, 0
            what = f"{number} events could not be written to state.dir, and are lost"
            self._take(Event(EventKind.EVENTS_LOST, wall, f"events_lost:{wall:.3f}", what, count=number), wall)
            self._write(wall)
        self._forget(wall)

    def lines(self, since: float | None, before: float | None) -> Iterator[Line]:
        """See ``query.Lines``. From memory where that has all, otherwise from the disk."""
        with self._lock:
            kept = list(self._kept)
        oldest = kept[0][0] if kept else None
        if self._writer is None or (since is not None and oldest is not None and since >= oldest):
            yield from _in_order(kept, since, before)
        else:
            waiting = [(recorded, line) for line, _, recorded in list(self._waiting)]
            first = waiting[0][0] if waiting else math.inf  # what waits may be written meanwhile
            written = (line for line in _on_disk(self._writer.folder, since, before) if line[0] < first)
            unwritten = _in_order(waiting, since, before)
            yield from chain(unwritten, written) if since is None else chain(written, unwritten)

    def newest(self) -> list[EventDocument]:
        """Return the events in memory, the newest first."""
        with self._lock:
            kept = list(self._kept)
        return [event for _, line in reversed(kept) if (event := read_event(line)) is not None]

    @property
    def kept_since(self) -> float | None:
        """When the oldest event that can be read was recorded."""
        if self._writer is not None and (found := segments(self._writer.folder)):
            return began(found[0])
        with self._lock:
            return self._kept[0][0] if self._kept else None

    # --- Recording ---

    def _take(self, event: Event, wall: float) -> None:
        recorded = self._settings.instants.next(wall)
        document = {
            "recorded_timestamp": recorded,
            "cluster": self._cluster(),
            "agent": self._agent,
            **event.document(),
        }
        if (owner := self._settings.owner_of(document)) is not None:
            document["owner"] = owner
        line = encode(document)
        self.counts[event.kind] += event.count
        if self._settings.sink is not None:
            self._settings.sink(line)
        self._keep(recorded, line, newest=True)
        if self._settings.folder is None:
            return
        self._waiting.append((line, event.count, recorded))
        self._waiting_bytes += len(line)
        while self._waiting_bytes > MOST_WAITING_BYTES:
            dropped, count, _ = self._waiting.popleft()
            self._waiting_bytes -= len(dropped)
            self.lost += count
            self._unwritten += count

    def _keep(self, recorded: float, line: bytes, *, newest: bool) -> None:
        most = KEPT_BYTES if self._settings.folder is not None else KEPT_BYTES_WITHOUT_DISK
        with self._lock:
            if newest:
                self._kept.append((recorded, line))
            else:
                self._kept.appendleft((recorded, line))
            self._kept_bytes += len(line)
            while self._kept_bytes > most and len(self._kept) > 1:
                self._kept_bytes -= len(self._kept.popleft()[1])

    def _forget(self, wall: float) -> None:
        """Without a disk events are kept for a day."""
        if self._settings.folder is not None:
            return
        with self._lock:
            while self._kept and self._kept[0][0] < wall - DAY:
                self._kept_bytes -= len(self._kept.popleft()[1])

    def _write(self, wall: float) -> None:
        if self._writer is None:
            return
        try:
            if self._settings.held is not None:
                self._settings.held.hold()
            while self._waiting:
                line, _, recorded = self._waiting[0]
                self._writer.append(line, partial(self._header, wall), recorded, wall)
                self._waiting.popleft()
                self._waiting_bytes -= len(line)
        except OSError as error:
            if not self.trouble:
                log.warning("the journal %s takes no events: %s", self._writer.folder, error)
            self.trouble = error.strerror or "it cannot be written"
            return
        if self.trouble:
            log.info("the journal %s takes events again", self._writer.folder)
        self.trouble = ""
        if wall - self._touched >= TOUCH_SECONDS:
            self._touched = wall
            self._writer.touch(wall)
            self._writer.drop_old(wall)

    def _header(self, wall: float) -> bytes:
        known = {"journal": 1, "version": __version__, "agent": self._agent, "cluster": self._cluster()}
        begun = [event.document() for event in self._begun(wall)]
        # It does not begin as an event does: readers of events pass it over.
        return encode({**known, "recorded_timestamp": round(wall, 6), "open": begun})


def restored(folder: Path, *, torn: bool = False) -> Restored:
    """Return what the last segment of a folder says: its header, and the events after it."""
    found = segments(folder)
    if not found:
        return Restored()
    events: list[EventDocument] = []
    bad, recorded = int(torn), 0.0
    try:
        for number, line in enumerate(lines(found[-1])):
            document = parsed(line)
            if number == 0 and document is not None and "journal" in document:
                begun = document.get("open")
                entries = begun if isinstance(begun, list) else []
                events += filter(
                    None, (event_of({**document, **entry}) for entry in entries if isinstance(entry, dict))
                )
            elif (event := event_of(document)) is not None:
                events.append(event)
                recorded = event["recorded_timestamp"]
            else:
                bad += 1
    except OSError as error:
        log.warning("the journal %s cannot be read: %s", found[-1], error)
    last = max(recorded, touched(found[-1]) or 0.0) or None
    stopped = recorded > 0 and events[-1]["kind"] == EventKind.AGENT_STOPPED
    return Restored(tuple(events), last, stopped, bad)


def _recorded(line: bytes) -> float:
    """When a line was recorded: the first key of every line; minus infinity for one without it."""
    if not line.startswith(_RECORDED):
        return float("-inf")
    try:
        return float(line[len(_RECORDED) : line.index(b",")])
    except ValueError:
        return float("-inf")


def _in_order(kept: list[tuple[float, bytes]], since: float | None, before: float | None) -> Iterator[Line]:
    for recorded, line in kept if since is not None else reversed(kept):
        if (since is None or recorded > since) and (before is None or recorded < before):
            yield recorded, len(line), partial(read_event, line)


def _on_disk(folder: Path, since: float | None, before: float | None) -> Iterator[Line]:
    found = segments(folder)
    if since is not None:
        first = max((number for number, path in enumerate(found) if began(path) <= since), default=0)
        for path in found[first:]:
            yield from _in_order(_read(path), since, None)
        return
    for path in reversed(found):
        if before is None or began(path) < before:
            yield from _in_order(_read(path), None, before)


def _read(path: Path) -> list[tuple[float, bytes]]:
    """The events of one segment; none of one that was dropped meanwhile."""
    try:
        found = [(_recorded(line), line) for line in lines(path)]
    except OSError:
        return []
    return [span for span in found if span[0] != float("-inf")]


def _newest(folder: Path) -> Iterator[tuple[float, bytes]]:
    """The newest lines of the last segment, the newest first, as many as are kept."""
    found = segments(folder)
    size = 0
    for recorded, line in reversed(_read(found[-1])) if found else ():
        size += len(line) + 1
        if size > KEPT_BYTES:
            return
        yield recorded, line
