"""Facts that sources publish for each other: the latest of each type."""

from __future__ import annotations

import threading
from typing import NamedTuple

from exporter.model import Fact, Facts, Snapshot

Key = tuple[str, ...]
"""Key of a source's facts and snapshots: group, source, sequence number."""

FACT_INTERVALS = 3


class _Stored(NamedTuple):
    fact: Fact
    source: Key
    expires: float


class FactStore:
    """The latest facts of one group, each for three intervals of the source that made it. ``common`` are the facts that
    all groups see.
    """

    def __init__(self, common: FactStore | None = None) -> None:
        self._common = common
        self._lock = threading.Lock()
        self._by_type: dict[type[Fact], _Stored] = {}
        self._by_source: dict[Key, tuple[_Stored, ...]] = {}

    def post(self, source: Key, snapshot: Snapshot) -> None:
        """Replace the facts of this source. A fact that is not in the snapshot is dropped at once if the read had no
        fault; otherwise it expires.
        """
        expires = snapshot.ended + FACT_INTERVALS * snapshot.interval
        made = tuple(_Stored(fact, source, expires) for fact in snapshot.facts)
        types = {type(fact) for fact in snapshot.facts}
        with self._lock:
            if snapshot.up:
                self._by_type = {kind: stored for kind, stored in self._by_type.items() if stored.source != source}
            self._by_type.update({type(stored.fact): stored for stored in made})
            before = () if snapshot.up else self._by_source.get(source, ())
            self._by_source[source] = (*made, *(stored for stored in before if type(stored.fact) not in types))

    def drop(self, source: Key) -> None:
        """Drop the facts of a source that is read no more."""
        with self._lock:
            self._by_source.pop(source, None)
            self._by_type = {kind: stored for kind, stored in self._by_type.items() if stored.source != source}

    def facts(self, now: float) -> Facts:
        """The facts that are valid at ``now`` (monotonic): by type those of the group, and all with the common ones."""
        common = () if self._common is None else self._common.facts(now).all(Fact)
        with self._lock:
            every = [stored.fact for facts in self._by_source.values() for stored in facts if now < stored.expires]
            by_type = {kind: stored.fact for kind, stored in self._by_type.items() if now < stored.expires}
        return Facts(by_type, (*every, *common))
