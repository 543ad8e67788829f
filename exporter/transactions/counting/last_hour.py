"""How transactions ended in the last hour, minute by minute, for the status page and ``top``.

Made from what the exposed counters are made of, so that both agree. Memory is bounded by the applications that are
counted. Of the ``MOST_APPLICATIONS`` that came first each is shown, and all together.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        self._began: int | None = None
        self._ends: dict[int, Counter[tuple[str, Outcome]]] = {}  # by minute
        self._seen: Mapping[str, Mapping[Outcome, int]] = {}
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
        minute = self._minute()
        with self._lock:
            self._storms = None if fences is None else storms
            if self._began is None:
                self._began, self._seen = minute, counted
            ends = self._ends.setdefault(minute, Counter())
            for application, outcomes in counted.items():
                before = self._seen.get(application, {})  # the counters of one that was gone begin at 0
                for outcome, count in outcomes.items() if outcomes is not before else ():
                    if count > before.get(outcome, 0):
                        ends[application, outcome] += count - before.get(outcome, 0)
            self._seen = counted
            for over in [at for at in self._ends if at <= minute - MINUTES]:
                del self._ends[over]

    @property
    def storms(self) -> tuple[FenceStorm, ...] | None:
        """The fence storms of now, None where they are not known."""
        with self._lock:
            return self._storms

    def view(self) -> HourView | None:
        """The hour up to now, None before the first counters were read."""
        last = self._minute()
        with self._lock:
            if self._began is None:
                return None
            minutes = range(max(self._began, last - MINUTES + 1), last + 1)
            found = [Counter(self._ends.get(minute)) for minute in minutes]
            storms = self._storms or ()
        names = list(dict.fromkeys(name for ends in found for name, _ in ends))
        together = {outcome: [0] * len(found) for outcome in Outcome}
        shown = {name: {outcome: [0] * len(found) for outcome in Outcome} for name in names[:MOST_APPLICATIONS]}
        for place, ends in enumerate(found):
            for (name, outcome), count in ends.items():
                together[outcome][place] += count
                if name in shown:
                    shown[name][outcome][place] += count
        applications = {name: Minutes(counts) for name, counts in shown.items()}
        return HourView(Minutes(together), applications, len(names) - len(applications), storms)

    def _minute(self) -> int:
        return int(self._clock.monotonic() // 60)
