"""When the leader of a log partition changed, and when a log partition lost records: for statements that need a log
that was followed without a gap. No I/O, no clock.

A change is known as a window: it happened after the last read that agreed with the log and before the read that showed
the change. A window of a process that has ended has no monotonic instants: it lies before any of this process.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from exporter.model import Fact

MOST_WINDOWS = 16
"""Windows of one partition and kind. Beyond it the two oldest become one that covers both."""
BEFORE = -math.inf
"""The begin of a window before which nothing is known, and the monotonic instants of an earlier process."""


class Window(NamedTuple):
    """After ``since`` and at ``until`` at the latest: Unix seconds of this machine, and the same on its monotonic
    clock. Of the log as it is since then, ``offset`` is the first that was not read before.
    """

    since: float
    until: float
    offset: int
    monotonic_since: float = BEFORE
    monotonic_until: float = BEFORE


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """The windows of one log partition, oldest first: in which another leader epoch began between two reads
    (``elected``), and in which records were lost that had been read, or were not read yet (``lost``). What a leader
    wrote, and the next one never had, shows as an election only.
    """

    elected: tuple[Window, ...] = ()
    lost: tuple[Window, ...] = ()

    def with_election(self, window: Window) -> PartitionChanges:
        return PartitionChanges(_bounded((*self.elected, window)), self.lost)

    def with_loss(self, window: Window) -> PartitionChanges:
        return PartitionChanges(self.elected, _bounded((*self.lost, window)))

    def lost_since(self, instant: float) -> bool:
        """Return whether records may have been lost at this Unix time or later."""
        return any(window.until >= instant for window in self.lost)


NO_CHANGES = PartitionChanges()


@dataclass(frozen=True, slots=True)
class LogChanges(Fact):
    """The changes of the log's partitions, by number. A partition without a change is absent."""

    by_partition: Mapping[int, PartitionChanges]

    def of(self, number: int) -> PartitionChanges:
        return self.by_partition.get(number, NO_CHANGES)


def _bounded(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    if len(windows) <= MOST_WINDOWS:
        return windows
    first, second, *others = windows
    return (
        Window(
            min(first.since, second.since),
            max(first.until, second.until),
            max(first.offset, second.offset),
            min(first.monotonic_since, second.monotonic_since),
            max(first.monotonic_until, second.monotonic_until),
        ),
        *others,
    )


# --- Saved state ---


def write_changes(changes: PartitionChanges) -> list[list[list[float | None]]]:
    """As JSON: the windows of elections and those of losses, as [since, until, offset]; None is before all."""
    return [[_write(window) for window in windows] for windows in (changes.elected, changes.lost)]


def read_changes(found: Iterable[Iterable[Any]]) -> PartitionChanges:
    """As ``write_changes`` wrote them. Raises TypeError or ValueError for anything else."""
    elected, lost = (tuple(map(_read, windows))[-MOST_WINDOWS:] for windows in found)
    return PartitionChanges(elected, lost)


def _write(window: Window) -> list[float | None]:
    return [None if math.isinf(window.since) else round(window.since, 3), round(window.until, 3), window.offset]


def _read(found: Any) -> Window:  # noqa: ANN401 -- JSON
    since, until, offset = found
    return Window(BEFORE if since is None else float(since), float(until), int(offset))
