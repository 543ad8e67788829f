"""How transactions ended in the last hour, minute by minute, for the status page and ``top``.

Made from what the exposed counters are made of, so that both agree. Memory is bounded: 60 numbers for each outcome of
the ``MOST_APPLICATIONS`` applications that came first, and of all together.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from exporter import catalogue
from exporter.model import Clock, Fact, Sample
from exporter.words import Outcome

MINUTES = 60
MOST_APPLICATIONS = 200
SILENT_MINUTES = 10
FEWEST_BUSY_MINUTES = 5
"""Minutes with commits below which the rhythm of an application is not known."""


class FenceStorm(NamedTuple):
    """A transactional.id with a fence storm. ``fences`` is the number of fences in 10 minutes."""

    application: str
    transactional_id: str
    fences: int


@dataclass(frozen=True, slots=True)
class Minutes:
    """Ends by outcome for each minute, the oldest first; the last minute is not over."""

    counts: Mapping[Outcome, Sequence[int]]

    def total(self, outcome: Outcome) -> int:
        return sum(self.counts[outcome])

    def stopped(self) -> int | None:
        """Return for how many minutes nothing was committed where that is too long, else None.

        Too long is twice the longest pause between commits in this hour and ``SILENT_MINUTES`` more. The alert
        KafkaEosApplicationSilent does the same over days.
        """
        busy = [minute for minute, count in enumerate(self.counts[Outcome.COMMITTED]) if count]
        if len(busy) < FEWEST_BUSY_MINUTES:
            return None
        longest = max(later - earlier for earlier, later in pairwise(busy))
        silent = len(self.counts[Outcome.COMMITTED]) - 1 - busy[-1]
        return silent if silent > 2 * longest + SILENT_MINUTES else None


@dataclass(frozen=True, slots=True)
class HourView:
    """The last hour as of one instant. ``left_out`` is how many applications are in ``together`` only."""

    together: Minutes
    applications: Mapping[str, Minutes]
    left_out: int
    storms: tuple[FenceStorm, ...]


class LastHour(Fact):
    """The ends of the last hour of one cluster. One thread writes; any thread may read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._minute = 0
        self._began: int | None = None
        self._seen: dict[str, Mapping[Outcome, int]] = {}
        self._together = _Ring()
        self._by_application: dict[str, _Ring] = {}
        self._left_out: set[str] = set()
        self._storms: tuple[FenceStorm, ...] | None = None

    def note(self, counted: Mapping[str, Mapping[Outcome, int]], fences: Iterable[Sample] | None) -> None:
        """Take the counters of one read by application, and the samples of recent fences, None where the log was not
        read to its end. What was counted before the first read is not shown.
        """
        storms = tuple(
            FenceStorm(fence.labels[1], fence.labels[2], int(fence.value))
            for fence in fences or ()
            if isinstance(fence.value, int | float) and fence.value >= catalogue.STORM_FENCES
        )
        with self._lock:
            self._advance()
            self._storms = None if fences is None else storms
            first = self._began is None
            if first:
                self._began = self._minute
            for gone in self._seen.keys() - counted.keys():  # its counters begin at 0 when it comes back
                del self._seen[gone]
            for application, outcomes in counted.items():
                before = self._seen.get(application, {})
                if outcomes is before:
                    continue
                self._seen[application] = outcomes
                for outcome, count in outcomes.items():
                    more = count - before.get(outcome, 0)
                    if more > 0 and not first:
                        self._count(application, outcome, more)

    @property
    def storms(self) -> tuple[FenceStorm, ...] | None:
        """The fence storms of now, None where they are not known."""
        with self._lock:
            return self._storms

    def view(self) -> HourView | None:
        """The hour up to now, None before the first counters were read."""
        with self._lock:
            if self._began is None:
                return None
            self._advance()
            covered = min(MINUTES, self._minute - self._began + 1)
            applications = {name: ring.last(covered) for name, ring in self._by_application.items()}
            return HourView(self._together.last(covered), applications, len(self._left_out), self._storms or ())

    def _advance(self) -> None:
        minute = int(self._clock.monotonic() // 60)
        steps = min(MINUTES, max(0, minute - self._minute)) if self._minute else 0
        self._minute = max(minute, self._minute)
        for _ in range(steps):
            self._together.shift()
            for ring in self._by_application.values():
                ring.shift()
        if steps:
            self._by_application = {name: ring for name, ring in self._by_application.items() if ring.busy}
            if len(self._by_application) < MOST_APPLICATIONS:
                self._left_out.clear()  # active ones are added again with their next transaction

    def _count(self, application: str, outcome: Outcome, more: int) -> None:
        self._together.add(outcome, more)
        ring = self._by_application.get(application)
        if ring is None:
            if len(self._by_application) >= MOST_APPLICATIONS:
                self._left_out.add(application)
                return
            ring = self._by_application[application] = _Ring()
        ring.add(outcome, more)


@dataclass(slots=True)
class _Ring:
    counts: dict[Outcome, array[int]] = field(
        default_factory=lambda: {outcome: array("Q", bytes(8 * MINUTES)) for outcome in Outcome}
    )

    def add(self, outcome: Outcome, more: int) -> None:
        self.counts[outcome][-1] += more

    def shift(self) -> None:
        for counts in self.counts.values():
            del counts[0]
            counts.append(0)

    @property
    def busy(self) -> bool:
        return any(any(counts) for counts in self.counts.values())

    def last(self, covered: int) -> Minutes:
        return Minutes({outcome: tuple(counts[MINUTES - covered :]) for outcome, counts in self.counts.items()})
