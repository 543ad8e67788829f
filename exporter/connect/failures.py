"""Counts task failures, each new failure once, from successive snapshots of the tasks. Pure: no clock and no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from exporter.words import FailureCause

TaskKey = tuple[str, str]
"""Connector and number of the task."""

DELETED_AFTER = 3
"""Number of complete reads without a task until it counts as deleted: a task that moves or restarts is absent briefly.
"""


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """One task at one read.

    ``mark`` distinguishes two failures by what REST reports (worker and trace). ``records`` and ``running_ratio`` are
    the worker's metrics of the task, None where they are not read or where the worker does not call it failed (yet);
    they restart with every start of the task.
    """

    failed: bool
    cause: FailureCause = FailureCause.OTHER
    mark: str = ""
    records: float | None = None
    running_ratio: float | None = None


class FailureCounter:
    """Failures by task and cause. A failure before the first read of a task is not counted."""

    def __init__(self) -> None:
        self._last: dict[TaskKey, TaskSnapshot] = {}
        self._counts: dict[TaskKey, dict[FailureCause, int]] = {}
        self._missed: dict[TaskKey, int] = {}
        self._looked = False

    @property
    def counts(self) -> Mapping[TaskKey, Mapping[FailureCause, int]]:
        """Every cause is present, with 0 where there was no failure."""
        return self._counts

    def count(self, snapshots: Mapping[TaskKey, TaskSnapshot], *, complete: bool) -> None:
        """Count the failures that are new since the last read. ``complete``: a task that is missing does not exist."""
        for key, now in snapshots.items():
            counts = self._counts.setdefault(key, dict.fromkeys(FailureCause, 0))
            before = self._last.get(key)
            # A task that is new since the last read and has failed, failed in between.
            if (before is None and self._looked and now.failed) or (before is not None and is_new(before, now)):
                counts[now.cause] += 1
            self._last[key] = now if before is None else _carried(before, now)
        if complete:
            self._missed = {key: self._missed.get(key, 0) + 1 for key in self._last if key not in snapshots}
            for gone in [key for key, times in self._missed.items() if times >= DELETED_AFTER]:
                del self._last[gone], self._counts[gone], self._missed[gone]
            self._looked = True


def is_new(before: TaskSnapshot, now: TaskSnapshot) -> bool:
    """Return whether the failure at this read happened after the last read.

    A task that had failed before has failed again when REST reports another trace or worker, or when the worker's
    metrics of the task restarted in between. Several failures between two reads count as one.
    """
    return now.failed and (not before.failed or before.mark != now.mark or began_anew(before, now))


def began_anew(before: TaskSnapshot, now: TaskSnapshot) -> bool:
    """Return whether the metrics of a task that is failed at both reads belong to two starts of it.

    Its counters only grow, and the share of time that it has been running only shrinks while it is failed
    (WorkerTask.TaskMetricsGroup, StateTracker.durationRatio). The worker's own task-startup-* do not help: since the
    builders of Worker.startTask they count only tasks that could not be created.
    """
    fewer = before.records is not None and now.records is not None and now.records < before.records
    ratios = before.running_ratio, now.running_ratio
    more = ratios[0] is not None and ratios[1] is not None and ratios[1] > ratios[0]
    return fewer or more


def _carried(before: TaskSnapshot, now: TaskSnapshot) -> TaskSnapshot:
    """The snapshot, with the metrics of the last one where a failed task's could not be read this time."""
    if not (before.failed and now.failed):
        return now
    return replace(
        now,
        records=before.records if now.records is None else now.records,
        running_ratio=before.running_ratio if now.running_ratio is None else now.running_ratio,
    )
