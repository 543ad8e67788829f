"""The open transactions of the log as other rooms take them, patched from the ids that a read touched. No I/O.

A read costs what changed: an open transaction is made again when a record of its id came, or when the clock of its
coordinator moved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from exporter.transactions.clock import CoordinatorClocks
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.machine.progress import PartitionProgress
from exporter.transactions.machine.state_machine import StateMachine

NOTICEABLE_BEHIND_SECONDS = 2.0
"""Difference of two coordinators' clocks, in seconds, from which they are told apart: delays of records are less."""
ELECTED_SECONDS = 60.0
"""How long a coordinator that was elected is one that may not have ended what is due yet."""


class CoordinatorScan(NamedTuple):
    """When the coordinator of a partition ends what timed out: see ``OpenTransaction.scan_behind`` and ``scan_late``.

    ``elected`` is when it took over, by the coordinators' common time, where that was lately, else minus infinity.
    """

    behind: float | None
    elected: float
    late: float

    def of(self, opened: OpenTransaction) -> OpenTransaction:
        """Return the transaction with what this coordinator's scan makes of it."""
        behind = self._behind_for(opened)
        if behind == opened.scan_behind and self.late == opened.scan_late:
            return opened
        return opened._replace(scan_behind=behind, scan_late=self.late)

    def _behind_for(self, opened: OpenTransaction) -> float | None:
        """How much later it ends a transaction: it compares its clock with the start as it was stamped, and ends none
        before it was elected.
        """
        if self.behind is None:
            return None
        if opened.due is None:
            return 0.0
        seconds = max(self.behind + opened.stamp_ahead, self.elected - opened.due)
        return 0.0 if abs(seconds) < NOTICEABLE_BEHIND_SECONDS else float(math.ceil(seconds))


class OpenView:
    """The open transactions of the partitions that were read to their end. Not thread-safe: for one worker."""

    def __init__(self) -> None:
        self._partitions: dict[int, dict[bytes, OpenTransaction]] = {}
        self._scans: dict[int, CoordinatorScan] = {}
        self._transactions: tuple[OpenTransaction, ...] = ()

    def read(
        self,
        machines: Mapping[int, StateMachine],
        progress: Mapping[int, PartitionProgress],
        scans: Mapping[int, CoordinatorScan],
    ) -> tuple[OpenTransaction, ...]:
        """Return them; the same tuple while they do not change. ``scans`` are by partition of the log."""
        changed = False
        for number, machine in machines.items():
            touched, machine.touched = machine.touched or {}, {}
            if number not in progress or not progress[number].current:
                changed |= bool(self._partitions.pop(number, None))
                self._scans.pop(number, None)
            elif self._scans.get(number) != scans[number]:
                scan = self._scans[number] = scans[number]
                opened = {key: scan.of(entry.transaction()) for key, entry in machine.open.items()}
                changed |= opened != self._partitions.get(number, {})
                self._partitions[number] = opened
            elif touched:
                changed |= self._patch(self._partitions[number], machine, touched, scans[number])
        if changed:
            self._transactions = tuple(chain.from_iterable(known.values() for known in self._partitions.values()))
        return self._transactions

    @staticmethod
    def _patch(
        known: dict[bytes, OpenTransaction], machine: StateMachine, touched: Mapping[bytes, None], scan: CoordinatorScan
    ) -> bool:
        changed = False
        for key in touched:
            entry = machine.open.get(key)
            if entry is None:
                changed |= known.pop(key, None) is not None
                continue
            opened = scan.of(entry.transaction())
            if known.get(key) != opened:
                known[key] = opened
                changed = True
        return changed


def scans_of(
    coordinators: CoordinatorClocks,
    progress: Mapping[int, PartitionProgress],
    late: Mapping[int, float],
    monotonic: float,
    wall: float,
) -> dict[int, CoordinatorScan]:
    """Return the scan of each partition's coordinator. ``late`` is how many seconds rarer than usual a broker scans;
    ``monotonic`` and ``wall`` are our clocks at one instant.
    """
    at_most = coordinators.time(monotonic, wall).at_most or 0.0
    settled: dict[int | None, CoordinatorScan] = {}  # by leader, of partitions without an election lately
    scans: dict[int, CoordinatorScan] = {}
    for number, known in progress.items():
        leader, since = known.led.leader, known.led.since
        scan = settled.get(leader)
        if scan is None:
            behind = coordinators.behind(leader, monotonic, wall)
            scan = CoordinatorScan(behind, -math.inf, 0.0 if leader is None else late.get(leader, 0.0))
            settled[leader] = scan
        scans[number] = scan._replace(elected=since - at_most) if monotonic - since < ELECTED_SECONDS else scan
    return scans
