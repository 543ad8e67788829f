"""Where the canary goes next: partitions of the transaction log, in turn, and an id for each."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import NamedTuple

from exporter.kafka.requests.by_coordinator import coordinator_partition

HIDDEN_PLACES = 10
"""Ids that are used in turn where the transaction log is hidden: which coordinator each has is not known then."""
UNKNOWN = "unknown"
RETRY_EVERY = 2
"""Every so many turns is one of a partition that failed, while there are some."""


class LogPlace(NamedTuple):
    """A partition of the transaction log, an id that it coordinates, and its leader as a label value."""

    partition: int
    transactional_id: str
    coordinator: str


def places_of(prefix: str, leaders: Mapping[int, int | None]) -> tuple[LogPlace, ...]:
    """One place for each partition of the log; ``leaders`` by partition, empty where the log is hidden.

    The coordinator of an id leads partition ``hash(id) % partitions`` (TransactionStateManager.partitionFor).
    """
    if not leaders:
        return tuple(LogPlace(number, f"{prefix}-{number}", UNKNOWN) for number in range(HIDDEN_PLACES))
    found: dict[int, str] = {}
    for number in itertools.count():
        name = f"{prefix}-{number}"
        found.setdefault(coordinator_partition(name, len(leaders)), name)
        if len(found) == len(leaders):
            break
    return tuple(
        LogPlace(number, found[number], UNKNOWN if leaders[number] is None else str(leaders[number]))
        for number in sorted(leaders)
    )


class Rotation:
    """The order of turns: one partition after the other, those that failed twice as often. For one thread."""

    def __init__(self) -> None:
        self._turn = 0
        self._next = 0
        self._next_failed = 0
        self.cycles = 0

    def choose(self, places: tuple[LogPlace, ...], failing: Collection[int]) -> LogPlace:
        """The next place. ``cycles`` is how often all of them had their turn."""
        self._turn += 1
        again = [candidate for candidate in places if candidate.partition in failing]
        if again and len(again) < len(places) and self._turn % RETRY_EVERY == 0:
            self._next_failed += 1
            return again[self._next_failed % len(again)]
        place = places[self._next % len(places)]
        self._next += 1
        self.cycles, self._next = self.cycles + self._next // len(places), self._next % len(places)
        return place
