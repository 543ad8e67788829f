"""What the sources of one cluster know of each other: the latest facts, by type."""

from __future__ import annotations

import threading
from typing import NamedTuple

from exporter.model import Fact, Facts, Snapshot

Key = tuple[str, ...]
"""Who said it: group, source, number."""

FACT_INTERVALS = 3


class _Posted(NamedTuple):
    fact: Fact
    source: Key
    expires: float


class Board:
    """The latest facts of one group, each for three intervals of the source that made it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._posted: dict[type[Fact], _Posted] = {}
        self._by_source: dict[Key, tuple[_Posted, ...]] = {}

    def post(self, source: Key, snapshot: Snapshot) -> None:
        """Replace what this source said; what it no longer says is gone at once if it had no fault, else it expires."""
        expires = snapshot.ended + FACT_INTERVALS * snapshot.interval
        with self._lock:
            if snapshot.up:
                self._posted = {kind: post for kind, post in self._posted.items() if post.source != source}
            self._posted.update({type(fact): _Posted(fact, source, expires) for fact in snapshot.facts})
            if snapshot.facts or snapshot.up:
                self._by_source[source] = tuple(_Posted(fact, source, expires) for fact in snapshot.facts)

    def facts(self, now: float) -> Facts:
        """What is known now (monotonic)."""
        with self._lock:
            every = [post.fact for posts in self._by_source.values() for post in posts if now < post.expires]
            return Facts({kind: post.fact for kind, post in self._posted.items() if now < post.expires}, every)
