"""Keeps a burst of fences and timeouts from filling the journal: beyond a budget they are counted, not listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from exporter.journal.facts import Event, EventSubject, Text
from exporter.words import EventKind

BURST = 200
"""Events of one kind that are listed at once."""
REFILL_SECONDS = 30.0
"""Seconds for one more."""
TELL_SECONDS = 600.0
"""Seconds between events of the others, by application."""
MOST_APPLICATIONS = 10
COALESCED: Mapping[EventKind, str] = {
    EventKind.FENCED: "Fenced transactions",
    EventKind.TIMED_OUT: "Timed out transactions",
    EventKind.TORN: "Partitions with torn transactions",
    EventKind.FLINK_LOST: "Lost transactions of Flink",
}


class Bursts:
    """The budget of each kind, and what is beyond it: how many of which application. Instants are Unix seconds."""

    def __init__(self) -> None:
        self._left = dict.fromkeys(COALESCED, float(BURST))
        self._filled: float | None = None
        self._others: dict[EventKind, Counter[str]] = {kind: Counter() for kind in COALESCED}
        self._since: float | None = None

    def events(self, events: Iterable[Event], wall: float) -> Iterator[Event]:
        """Yield the events within the budget, and what is beyond it once in ``TELL_SECONDS``."""
        if self._filled is not None:
            more = max(0.0, wall - self._filled) / REFILL_SECONDS
            self._left = {kind: min(float(BURST), left + more) for kind, left in self._left.items()}
        self._filled = wall
        for event in events:
            if event.kind not in COALESCED or self._spend(event, wall):
                yield event
        if self._since is not None and wall - self._since >= TELL_SECONDS:
            yield from self.close(wall)

    def close(self, wall: float) -> Iterator[Event]:
        """Yield what was counted and not told yet."""
        for kind, others in self._others.items():
            shown = others.most_common(MOST_APPLICATIONS)
            rest = others.total() - sum(count for _, count in shown)
            named = [(application, f" of {application}" if application else "", count) for application, count in shown]
            for application, whose, count in [*named, ("", " of other applications", rest)] if rest else named:
                what = f"{COALESCED[kind]}{whose}: {count} more"
                evidence: dict[str, Text] = {"since_timestamp": round(self._since or wall, 3)}
                key = f"{kind.value}:more:{application}:{wall:.3f}"
                yield Event(kind, wall, key, what, EventSubject(application or None), evidence=evidence, count=count)
            others.clear()
        self._since = None

    def _spend(self, event: Event, wall: float) -> bool:
        if self._left[event.kind] >= 1:
            self._left[event.kind] -= 1
            return True
        self._others[event.kind][event.subject.application or ""] += event.count
        self._since = wall if self._since is None else self._since
        return False
