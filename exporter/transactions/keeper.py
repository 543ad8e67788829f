"""Keeps positions and counters of the transaction log together over restarts: a snapshot and its journal."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from exporter.core.state import StateDir
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.machine.progress import LogPosition
from exporter.transactions.saved import FORMAT, Saved, SavedClocks, SavedPartition, UnusableState, kept_document, read
from exporter.transactions.tail import LogTail

log = logging.getLogger(__name__)

SNAPSHOT_SECONDS = 60.0
"""Seconds between two snapshots, which survive a crash of the machine: what was counted since is then read and counted
again. The journal is written at every read and survives a crash of the process.
"""
RETRY_SECONDS = 10.0
"""Seconds after which a snapshot that could not be written is tried again: it is made whole each time."""


class Keeper:
    """The saved state of one cluster's log. Not thread-safe: for one worker.

    ``save`` is called after a read and before its values are exposed, so that every exposed value is kept.
    """

    def __init__(self, state: StateDir, name: str) -> None:
        self._state = state
        self._name = self._first_name = name
        self._topic_id = ""
        self._other = False  # the saved state is that of another log, and the topic id of this one is not known yet
        self._cluster_id = ""
        self._generation = 0
        self._snapshot_at: float | None = None  # monotonic
        self._refused = False  # the last snapshot could not be written
        self._positions: Mapping[int, LogPosition] = {}  # as they were last written
        self._undecodable = 0
        self._clocks: SavedClocks | None = None
        self._journalled = False  # since the last snapshot
        self._lost = False  # a line of the journal could not be written

    def identify(self, topic_id: str) -> None:
        """Name the log that is read, by its topic id; "" while it is not known. The saved state of another log of the
        same cluster id, which was formatted again, stays as it is: this one's has a name of its own.
        """
        if not topic_id or topic_id == self._topic_id:
            return
        self._topic_id = topic_id
        if self._other:
            self._name, self._other = f"{self._name}-{topic_id}", False

    def load(self, cluster_id: str, topic_id: str, aggregates: Aggregates) -> tuple[Saved, int]:
        """Restore the state of the last process: its counters, and its count of undecodable records. ``topic_id`` is
        that of the log, "" where it does not exist yet or has none.

        Without a usable state counters begin at 0; a log line has the reason.
        """
        self._cluster_id = cluster_id
        if not self._state.kept:
            return Saved(), 0
        document = self._state.load(cluster_id, self._name)
        if (of := str(document.get("topic_id", ""))) and of != topic_id:
            log.warning(
                "the transaction log of %s is not the one of the saved state (topic id %s): that state stays, and"
                " this log gets one of its own",
                cluster_id,
                of,
            )
            self._other = True
            if not topic_id:
                return Saved(), 0
        self.identify(topic_id)
        if self._name != self._first_name:
            document = self._state.load(cluster_id, self._name)
        try:
            undecodable = 0
            saved = read(document, self._state.journal(cluster_id, self._name))
            if saved.counters is not None:
                aggregates.restore(saved.counters)
                undecodable = int(saved.counters.get("undecodable", 0))
        except (UnusableState, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            log.warning(
                "the state of the transaction log of %s cannot be used (%s) and is kept as %s: reading begins at the"
                " log's end, counters at 0",
                cluster_id,
                error,
                self._state.set_aside(cluster_id, self._name) or "nothing",
            )
            return Saved(), 0
        self._generation = saved.generation
        return saved, undecodable

    @property
    def trouble(self) -> str:
        """Why the state cannot be written now, "" while it is."""
        return self._state.trouble

    def save(
        self,
        tail: LogTail,
        aggregates: Aggregates,
        log_partitions: int,
        waiting: Mapping[int, SavedPartition],
        now: float,
        *,
        whole: bool = False,
    ) -> None:
        """Save the positions and the counters; ``waiting`` are partitions that were not begun yet.

        ``log_partitions`` is how many the log had at the first start. ``now`` is monotonic; ``whole`` asks for a
        snapshot.
        """
        if not self._state.kept or self._other:
            return
        positions = tail.known.positions()
        undecodable, clocks = tail.records.undecodable, tail.known.clocks()
        moved = {number: position for number, position in positions.items() if self._positions.get(number) != position}
        changed: dict[str, Any] = aggregates.saved(everything=False)
        if undecodable != self._undecodable:
            changed["undecodable"] = undecodable
        # A journal is of use with its snapshot only, which may vanish with its folder.
        gone = self._snapshot_at is None or not self._state.has(self._cluster_id, self._name)
        interval = RETRY_SECONDS if self._refused else SNAPSHOT_SECONDS
        due = self._snapshot_at is None or now - self._snapshot_at >= interval
        if due or whole or (gone and not self._refused):
            self._snapshot_at = now
            if gone or moved or changed or clocks != self._clocks or self._journalled or self._lost:
                self._refused = not self._snapshot(tail, aggregates, log_partitions, waiting)
                if self._refused:
                    self._append(positions, {**aggregates.saved(everything=True), "undecodable": undecodable}, clocks)
                else:
                    self._journalled = self._lost = False
        elif self._lost:  # no later line repeats the content of the lost one
            self._append(positions, {**aggregates.saved(everything=True), "undecodable": undecodable}, clocks)
        elif moved or changed or clocks != self._clocks:
            self._append(moved, changed, None if clocks == self._clocks else clocks)
        self._positions, self._undecodable, self._clocks = positions, undecodable, clocks

    def _append(
        self, positions: Mapping[int, LogPosition], counters: Mapping[str, Any], clocks: SavedClocks | None
    ) -> None:
        partitions = {str(number): position.document() for number, position in positions.items()}
        line: dict[str, Any] = {"generation": self._generation, "partitions": partitions, "counters": counters}
        if clocks is not None:
            line["clocks"] = clocks.document()
        self._lost = not self._state.append(self._cluster_id, self._name, line)
        self._journalled = True

    def _snapshot(
        self,
        tail: LogTail,
        aggregates: Aggregates,
        log_partitions: int,
        waiting: Mapping[int, SavedPartition],
    ) -> bool:
        """Return whether the snapshot was written. If not, a restart uses the one before and its journal."""
        partitions = {str(number): kept_document(saved) for number, saved in waiting.items()}
        partitions |= tail.records.snapshot()
        counters: dict[str, Any] = aggregates.saved(everything=True)
        counters["undecodable"] = tail.records.undecodable
        document = {
            "format": FORMAT,
            "topic_id": self._topic_id,
            "generation": self._generation + 1,
            "log_partitions": log_partitions,
            "partitions": partitions,
            "counters": counters,
            "clocks": tail.known.clocks().document(),
        }
        if self._state.save(self._cluster_id, self._name, document, durable=True):
            self._generation += 1
            self._state.forget_journal(self._cluster_id, self._name)
            return True
        return False
