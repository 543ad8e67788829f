"""Events without an end: fences and timeouts, torn transactions, losses of Flink, elections of the log. Pure rules.

Many of one kind at once are listed up to a budget, and counted beyond it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from exporter.audit_results.result import AuditResults
from exporter.audit_results.torn_markers import torn_markers
from exporter.flink.facts import FlinkLosses
from exporter.journal.documents import EventDocument
from exporter.journal.facts import Event, EventSubject, LastReads, Text
from exporter.journal.rebuild import counted_since
from exporter.model import TopicPartition
from exporter.transactions.machine.log_changes import BEFORE, LogChanges
from exporter.transactions.recent import Recent
from exporter.transactions.transaction import Transaction
from exporter.words import EventKind, FoundMarker, Outcome

MOST_SEEN = 5_000
MOST_NUMBERS = 20
READ_SECONDS = 60.0
"""How long before it is counted an end may be dated: the delay of its read, and the distance of two clocks."""


class FindingRules:
    """Yields findings that were not told before. After a restart the tail gives the ends of the last hour again."""

    def __init__(self) -> None:
        self._taken = 0
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._counted: tuple[EventDocument, ...] = ()  # events of the process before, of ends that it did not list
        self._windows: dict[tuple[str, int], float] = {}

    def events(self, reading: LastReads) -> Iterator[Event]:
        """Yield what is new."""
        yield from self._ends(reading)
        yield from self._torn(reading)
        yield from self._losses(reading)
        yield from self._log_changes(reading)

    def restore(self, events: Sequence[EventDocument]) -> None:
        """Take the findings of the process before this one, and its events of ends that were only counted."""
        for event in events:
            self._new(event["key"])
        self._counted = tuple(event for event in events if counted_since(event) is not None)

    def _new(self, key: Hashable) -> bool:
        if key in self._seen:
            self._seen.move_to_end(key)  # a finding is read again for an hour, whatever else is found meanwhile
            return False
        self._seen[key] = None
        if len(self._seen) > MOST_SEEN:
            self._seen.popitem(last=False)
        return True

    def _ends(self, reading: LastReads) -> Iterator[Event]:
        recent = reading.fact(Recent)
        if recent is None or recent.unclean.end == self._taken:
            return
        before, self._taken = self._taken, recent.unclean.end
        for end in recent.unclean.since(before):
            kind = EventKind.TIMED_OUT if end.outcome is Outcome.TIMED_OUT else EventKind.FENCED
            stamped = end.ended + end.ahead_ms / 1000  # what identifies it is the timestamp of its record
            key = f"{kind.value}:{end.producer_id}:{end.producer_epoch}:{stamped:.3f}"
            if not self._new(key) or self._was_counted(kind, end):
                continue
            begun: dict[str, Text] = {} if end.started is None else {"transaction_began_timestamp": end.started}
            seconds = None if end.started is None else end.ended - end.started
            what = "timed out" if kind is EventKind.TIMED_OUT else "was fenced"
            subject = EventSubject(end.application, end.transactional_id, end.producer_id, end.producer_epoch)
            text = f"The transaction of {end.transactional_id} {what}"
            yield Event(kind, end.ended, key, text, subject, evidence=begun, duration=seconds)
        if (missed := recent.unclean.first - before) > 0:
            text = f"{missed} fences or timeouts are not told: more came at once than are handed on"
            key = f"events_lost:{reading.wall:.3f}"
            yield Event(EventKind.EVENTS_LOST, reading.wall, key, text, count=missed)

    def _was_counted(self, kind: EventKind, end: Transaction) -> bool:
        """Return whether the process before counted this end without listing it."""
        return end.again and any(
            event["kind"] == kind.value
            and event["subject"].get("application", end.application) == end.application
            and (counted_since(event) or 0.0) - READ_SECONDS <= end.ended <= event["timestamp"]
            for event in self._counted
        )

    def _torn(self, reading: LastReads) -> Iterator[Event]:
        for torn in torn_markers(reading.fact(AuditResults)) or ():
            partition = TopicPartition(torn.topic, torn.partition)
            key = f"torn:{torn.transactional_id}:{torn.producer_id}:{torn.completed:.3f}:{partition}"
            if not self._new(key):
                continue
            has = "no marker" if torn.found is FoundMarker.NOTHING else f"the marker of {torn.found.value.upper()}"
            subject = EventSubject(None, torn.transactional_id, torn.producer_id, None, *partition)
            evidence: dict[str, Text] = {"decided": torn.decided, "found": torn.found.value}
            if torn.marker_offset is not None:
                evidence["marker_offset"] = torn.marker_offset
            what = f"Torn: {torn.transactional_id} was decided {torn.decided.upper()}, and {partition} has {has}"
            yield Event(EventKind.TORN, torn.completed, key, what, subject, evidence=evidence)

    def _losses(self, reading: LastReads) -> Iterator[Event]:
        losses = reading.fact(FlinkLosses)
        for loss in losses.losses if losses is not None else ():
            key = f"flink_lost:{loss.transactional_id}:{loss.producer_id}:{loss.ended:.3f}"
            if self._new(key):
                what = f"Lost: the precommitted transaction of {loss.transactional_id} was ended by the server"
                subject = EventSubject(loss.application, loss.transactional_id, loss.producer_id)
                evidence: dict[str, Text] = {"checkpoint": loss.id.number, "checkpoint_completed": loss.completed}
                yield Event(EventKind.FLINK_LOST, loss.ended, key, what, subject, evidence=evidence)

    def _log_changes(self, reading: LastReads) -> Iterator[Event]:
        changes = reading.fact(LogChanges)
        moved: list[int] = []
        lost: list[int] = []
        for number, change in changes.by_partition.items() if changes is not None else ():
            for name, windows, found in (("elected", change.elected, moved), ("lost", change.lost, lost)):
                newest = max((window.monotonic_until for window in windows), default=BEFORE)
                if newest > self._windows.get((name, number), BEFORE):
                    self._windows[name, number] = newest
                    found.append(number)
        for kind, numbers, what in (
            (
                EventKind.COORDINATOR_MOVED,
                moved,
                "with a new leader epoch (their coordinator moved, or was elected again)",
            ),
            (EventKind.LOG_RECORDS_LOST, lost, "that lost records"),
        ):
            if numbers:
                shown = ", ".join(map(str, sorted(numbers)[:MOST_NUMBERS]))
                more = ", ..." if len(numbers) > MOST_NUMBERS else ""
                text = f"Partitions of __transaction_state {what}: {shown}{more}"
                key = f"{kind.value}:{shown}:{reading.wall:.0f}"
                evidence: dict[str, Text] = {"log_partitions": shown, "log_partitions_count": len(numbers)}
                yield Event(kind, reading.wall, key, text, evidence=evidence)


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
