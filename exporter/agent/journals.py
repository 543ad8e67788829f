"""The journals of all clusters of the agent, with the owners of the settings."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from exporter.bounds.patterns import BoundedPattern
from exporter.cluster.cluster import Cluster
from exporter.config import Config
from exporter.journal.documents import EventsDocument
from exporter.journal.journal import Instants, Journal, Settings
from exporter.journal.query import EventQuery, filled, page_of
from exporter.journal.segments import Limits
from exporter.journal.source import JournalSource, States

STANDARD_OUTPUT_MILLIS = 1_000


class Journals:
    """The journals by the key of their cluster. Any thread may ask."""

    def __init__(self, config: Config) -> None:
        self._instants = Instants()
        self._by_key: dict[str, Journal] = {}
        self._owners = _owners(config)
        self._folder = config.state.dir
        self._settings = config.journal

    def apply(self, config: Config) -> None:
        """Take the owners of these settings. Where and how much is kept does not change while the agent runs."""
        self._owners = _owners(config)

    def source(self, key: str, cluster: Cluster, states: States) -> JournalSource:
        """Return the source that keeps the journal of a cluster."""
        limits = Limits(self._settings.size, self._settings.keep)
        sink = _to_standard_output if self._settings.standard_output else None
        source = JournalSource(cluster, Settings(self._folder, limits, self._instants, self._owner, sink), states)
        self._by_key = {**self._by_key, key: source.journal}
        return source

    def keep(self, keys: Collection[str]) -> None:
        """Forget the journals of all other clusters."""
        self._by_key = {key: journal for key, journal in self._by_key.items() if key in keys}

    def page(self, query: EventQuery) -> EventsDocument:
        """Return a page of events. It reads files: not for the event loop's thread."""
        journals = list(self._by_key.values())
        kept = [since for since in (journal.kept_since for journal in journals) if since is not None]
        return page_of(query, [journal.lines for journal in journals], min(kept, default=None))

    def newest(self) -> list[dict[str, Any]]:
        """Return the events that are in memory, the newest first, with every key."""
        found = [event for journal in self._by_key.values() for event in journal.newest()]
        return [filled(each) for each in sorted(found, key=lambda each: -each["recorded_timestamp"])]

    def _owner(self, event: Mapping[str, Any]) -> str | None:
        return next((owner.team for owner in self._owners if owner.owns(event)), None)


class _EventOwner(NamedTuple):
    """A team, and whole names of what it owns."""

    team: str
    applications: tuple[BoundedPattern, ...]
    topics: tuple[BoundedPattern, ...]
    connectors: tuple[BoundedPattern, ...]

    def owns(self, event: Mapping[str, Any]) -> bool:
        """Return whether an application, topic or connector of the event is the team's."""
        subject = event["subject"]
        topics = {subject.get("topic"), *(each["topic"] for each in event.get("partitions", ()))}
        connector = f"{subject.get('connect')}/{subject['connector']}" if "connector" in subject else None
        return (
            _any(self.applications, {subject.get("application")})
            or _any(self.topics, topics)
            or _any(self.connectors, {connector})
        )


def _any(patterns: Sequence[BoundedPattern], names: Collection[str | None]) -> bool:
    return any(pattern.matches(name) for pattern in patterns for name in names if name)


def _owners(config: Config) -> tuple[_EventOwner, ...]:
    def compiled(patterns: Sequence[str]) -> tuple[BoundedPattern, ...]:
        return tuple(BoundedPattern(pattern, "owners", whole=True) for pattern in patterns)

    return tuple(
        _EventOwner(each.team, compiled(each.applications), compiled(each.topics), compiled(each.connectors))
        for each in config.owners
    )


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
