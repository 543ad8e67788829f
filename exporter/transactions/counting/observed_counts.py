"""The ids of a cluster by polling: which to describe at a look, and the counts. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter import catalogue
from exporter.applications.applications import Grouping
from exporter.kafka.requests.transactions import OPEN_STATES, Description, Listing
from exporter.model import Sample
from exporter.transactions.counting.observed import CoordinatorLook, DescribedId, SeenId, compare, first_seen
from exporter.words import ObservedOutcome

MOST_IDS = 20_000
"""Ids that are looked at: those that are open or were in use lately, then those with the newest producers."""
ACTIVE_SECONDS = 600.0
"""Seconds since its last change for which an id is described at each look."""
IDLE_PER_LOOK = 1000
"""Other ids that are described at a look, in turn: a list of states does not show a commit after a commit."""
DUE_SECONDS = 60.0
"""Seconds past its timeout for which an open transaction is described more often than the others."""
MOST_DUE = 500


class TrackedId(NamedTuple):
    """An id: its application, what was last seen of it, and when that changed."""

    application: str
    seen: SeenId
    changed_at: float


@dataclass(slots=True)
class ObservedCounts:
    """The counts of one application; ``last`` has Unix seconds."""

    outcomes: dict[ObservedOutcome, int] = field(default_factory=lambda: dict.fromkeys(ObservedOutcome, 0))
    epochs: int = 0
    last: dict[ObservedOutcome, float] = field(default_factory=dict)


class ObservedTransactions:
    """The counts of one cluster since the first look. Not thread-safe: for one worker."""

    def __init__(self, grouping: Grouping, applications: int) -> None:
        """``applications`` is the most that have counts of their own."""
        self._grouping = grouping
        self._most = applications
        self._ids: dict[str, TrackedId] = {}
        self._counts: dict[str, ObservedCounts] = {}
        self._whole: CoordinatorLook | None = None  # the last look, where it had every id
        self._newest: float | None = None  # start that any look has shown
        self._turn = 0
        self._left_out = 0

    def choose(self, rows: Sequence[Listing], now: float) -> list[str]:
        """Return the ids to describe at a look, from all that are listed. Those that are left out are forgotten."""
        self._left_out = max(0, len(rows) - MOST_IDS)
        if self._left_out:
            order = sorted(rows, key=lambda row: (not self._is_active(row, now), -row.producer_id))
            rows = order[:MOST_IDS]
            kept = {row.transactional_id for row in rows}
            self._ids = {key: observed for key, observed in self._ids.items() if key in kept}
        active = [row.transactional_id for row in rows if self._is_active(row, now)]
        idle = [row.transactional_id for row in rows if not self._is_active(row, now)]
        if not idle:
            return active
        begin = self._turn % len(idle)
        self._turn = begin + IDLE_PER_LOOK
        return active + (idle[begin:] + idle[:begin])[:IDLE_PER_LOOK]

    def _is_active(self, row: Listing, now: float) -> bool:
        known = self._ids.get(row.transactional_id)
        if known is None or row.state in OPEN_STATES:
            return True
        last = known.seen.last
        return (row.producer_id, row.state) != (last.producer_id, last.state) or (
            now - known.changed_at < ACTIVE_SECONDS or known.seen.timed_out_at is not None
        )

    def due(self, now: float) -> list[str]:
        """Return the open transactions that run into their timeout about now: a look in the seconds between the timeout
        and the coordinator's scan is what shows that it was the timeout.
        """
        found = []
        for key, observed in self._ids.items():
            since, timeout = observed.seen.open_since, observed.seen.last.timeout
            waits = observed.seen.timed_out_at is not None
            if waits or (since is not None and timeout is not None and -1.0 <= now - since - timeout <= DUE_SECONDS):
                found.append(key)
        return found[:MOST_DUE]

    def take(self, described: Mapping[str, Description], look: CoordinatorLook, wall: float, *, listed: bool) -> None:
        """Take in the descriptions of a look. ``listed``: every id was listed and those chosen were described.

        ``wall`` is our clock, Unix seconds.
        """
        newest = self._newest
        for key, description in described.items():
            application = self._application(key)
            now = _described(description)
            known = self._ids.get(key)
            if known is None:
                is_new = self._whole is not None and newest is not None and (now.started or 0.0) > newest
                change = first_seen(now, look, new=is_new, absent_at=self._whole.asked if self._whole else None)
            else:
                change = compare(known.seen, now, look)
            changed = known is None or change.seen.last != known.seen.last
            self._ids[key] = TrackedId(
                application, change.seen, look.answered if changed or not known else known.changed_at
            )
            self._count(application, change.ended, change.epochs, wall)
            if now.started is not None and now.started > (self._newest or 0.0):
                self._newest = now.started
        if listed:
            self._whole = look

    def interrupted(self) -> None:
        """Note that a look was not complete: an id that the next one shows may be older."""
        self._whole = None

    def forget_all_but(self, listed: Iterable[str]) -> None:
        """Drop the ids that no coordinator lists any more: they expired."""
        kept = set(listed)
        self._ids = {key: observed for key, observed in self._ids.items() if key in kept}

    def _application(self, transactional_id: str) -> str:
        known = self._ids.get(transactional_id)
        return known.application if known is not None else self._grouping.of(transactional_id).name

    def _count(self, application: str, ended: Sequence[ObservedOutcome], epochs: int, wall: float) -> None:
        own = self._counts.get(application)
        if own is None:
            if len(self._counts) >= self._most:
                application = catalogue.OVERFLOW
            own = self._counts.setdefault(application, ObservedCounts())
        own.epochs += epochs
        for outcome in ended:
            own.outcomes[outcome] += 1
            own.last[outcome] = wall

    def samples(self, cluster: str) -> Iterator[Sample]:
        """The counts and the instants of the last ends."""
        for application, own in self._counts.items():
            for outcome, count in own.outcomes.items():
                yield catalogue.TRANSACTIONS_OBSERVED_TOTAL(float(count), cluster, application, outcome)
            yield catalogue.PRODUCER_EPOCHS_OBSERVED_TOTAL(float(own.epochs), cluster, application)
            for outcome, instant in own.last.items():
                yield catalogue.LAST_TRANSACTION_OBSERVED_TIMESTAMP_SECONDS(instant, cluster, application, outcome)
        if self._left_out:
            yield catalogue.SERIES_DROPPED(float(self._left_out), catalogue.TRANSACTIONS_OBSERVED_TOTAL.name)


def _described(said: Description) -> DescribedId:
    return DescribedId(said.producer_id, said.producer_epoch, said.state, said.started, said.timeout)
