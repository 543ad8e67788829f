"""The counts of the canary, as samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from exporter import catalogue
from exporter.canary.turn import TurnResult
from exporter.core.histogram import Histogram
from exporter.model import Sample
from exporter.words import CanaryOutcome, CanaryPhase

NO_PARTITION = -1
"""Label of all partitions while the cluster has not been reached once."""
MOST_ERRORS = 200
"""Pairs of coordinator, phase and error: librdkafka's errors are a closed list, brokers come and go."""


class CanaryTally:
    """Counts since the start, by coordinator. For use by one thread."""

    def __init__(self, started: float) -> None:
        """``started`` is Unix seconds."""
        self._outcomes: Counter[tuple[str, CanaryOutcome]] = Counter()
        self._failures: Counter[tuple[str, CanaryPhase, str]] = Counter()
        self._phases: dict[tuple[str, CanaryPhase], _PhaseTimes] = {}
        self._failing: dict[int, str] = {}
        self._last_success = started

    @property
    def failing(self) -> frozenset[int]:
        """Partitions of the transaction log whose last turn failed."""
        return frozenset(self._failing)

    @property
    def exit_code(self) -> int:
        """0 where every turn was right, 1 where a phase failed, 2 where no transaction was made."""
        if not sum(self._outcomes.values()):
            return 2
        return 1 if self._failures else 0

    def table(self) -> list[tuple[str, str, int, str, str, int, str]]:
        """Coordinator, phase, number of times, mean, slowest, number of failures and errors, a row for each phase."""
        failed: dict[tuple[str, CanaryPhase], Counter[str]] = {}
        for (coordinator, phase, error), count in self._failures.items():
            failed.setdefault((coordinator, phase), Counter())[error] += count
        order, rows = list(CanaryPhase), []
        for key in sorted({*self._phases, *failed}, key=lambda key: (key[0], order.index(key[1]))):
            times, mean, slowest = self._phases.get(key, _PhaseTimes()).summary()
            errors = failed.get(key, Counter())
            rows.append((key[0], str(key[1]), times, mean, slowest, errors.total(), ", ".join(sorted(errors))))
        return rows

    def add(self, partition: int, coordinator: str, result: TurnResult, wall: float) -> None:
        """Count a turn of one partition of the transaction log."""
        for outcome in result.outcomes:
            self._outcomes[coordinator, outcome] += 1
        for phase, seconds in result.phases:
            self._phases.setdefault((coordinator, phase), _PhaseTimes()).add(seconds)
        if partition != NO_PARTITION:
            self._failing.pop(NO_PARTITION, None)
        if result.failure is None:
            self._last_success = wall
            self._failing.pop(partition, None)
            return
        self._failing[partition] = coordinator
        key = (coordinator, result.failure.phase, result.failure.error)
        if key in self._failures or len(self._failures) < MOST_ERRORS:
            self._failures[key] += 1

    def samples(self, cluster: str, coordinators: frozenset[str]) -> Iterator[Sample]:
        """All samples. ``coordinators`` are those of now: each has its number of failing partitions, also 0."""
        for coordinator in sorted({coordinator for coordinator, _ in self._outcomes} | coordinators):
            for outcome in CanaryOutcome:
                count = float(self._outcomes[coordinator, outcome])
                yield catalogue.CANARY_TRANSACTIONS_TOTAL(count, cluster, coordinator, str(outcome))
        for (coordinator, phase, error), failures in sorted(self._failures.items()):
            yield catalogue.CANARY_FAILURES_TOTAL(float(failures), cluster, coordinator, str(phase), error)
        for (coordinator, phase), seen in sorted(self._phases.items()):
            yield catalogue.CANARY_PHASE_SECONDS(seen.histogram.value(), cluster, coordinator, str(phase))
        failing = Counter(self._failing.values())
        for coordinator in sorted(coordinators | failing.keys()):
            yield catalogue.CANARY_FAILING_PARTITIONS(float(failing[coordinator]), cluster, coordinator)
        yield catalogue.CANARY_LAST_SUCCESS_TIMESTAMP_SECONDS(self._last_success, cluster)


def format_milliseconds(seconds: float) -> str:
    """``12 ms``, ``2.5 s``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"


class _PhaseTimes:
    """The durations of one phase."""

    __slots__ = ("histogram", "slowest")

    def __init__(self) -> None:
        self.histogram = Histogram(catalogue.CANARY_PHASE_SECONDS)
        self.slowest = 0.0

    def add(self, seconds: float) -> None:
        self.histogram.observe_seconds(seconds)
        self.slowest = max(self.slowest, seconds)

    def summary(self) -> tuple[int, str, str]:
        """Number of observations, their mean, and the slowest."""
        seen = self.histogram.value()
        if not seen.count or seen.total is None:
            return 0, "", ""
        return int(seen.count), format_milliseconds(seen.total / seen.count), format_milliseconds(self.slowest)
