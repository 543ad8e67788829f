"""Counts task failures from looks at the tasks: each new failure once. Pure: no clock and no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from exporter.connect.trace import Cause

TaskKey = tuple[str, str]
"""Connector and number of the task."""

FORGOTTEN_AFTER = 3
"""Complete looks without a task until it counts as deleted: one that moves or is restarted is away for a moment."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of one task at one look.

    ``mark`` tells two failures apart, by what REST says (worker and trace). ``records`` and ``running_ratio`` are the
    worker's metrics of the task, None where they are not read or where the worker does not call it failed (yet); they
    begin anew with every start of it.
    """

    failed: bool
    cause: Cause = Cause.OTHER
    mark: str = ""
    records: float | None = None
    running_ratio: float | None = None


class FailureBook:
    """Failures by task and cause. What had failed before the first look at a task is not counted."""

    def __init__(self) -> None:
        self._last: dict[TaskKey, Look] = {}
        self._counts: dict[TaskKey, dict[Cause, int]] = {}
        self._missed: dict[TaskKey, int] = {}
        self._looked = False

    @property
    def counts(self) -> Mapping[TaskKey, Mapping[Cause, int]]:
        """Every cause is there, with 0 where there was none."""
        return self._counts

    def look(self, looks: Mapping[TaskKey, Look], *, complete: bool) -> None:
        """Take note of a look. ``complete``: what is not in it does not exist at this moment."""
        for key, now in looks.items():
            counts = self._counts.setdefault(key, dict.fromkeys(Cause, 0))
            before = self._last.get(key)
            # A task that appears between two looks and has failed already failed in between.
            if (before is None and self._looked and now.failed) or (before is not None and is_new(before, now)):
                counts[now.cause] += 1
            self._last[key] = now if before is None else _carried(before, now)
        if complete:
            self._missed = {key: self._missed.get(key, 0) + 1 for key in self._last if key not in looks}
            for gone in [key for key, times in self._missed.items() if times >= FORGOTTEN_AFTER]:
                del self._last[gone], self._counts[gone], self._missed[gone]
            self._looked = True


def is_new(before: Look, now: Look) -> bool:
    """Whether the failure that is seen now came after the earlier look.

    One that was there before is new when REST tells another story, or when the worker's metrics of the task began
    anew in between: the task was restarted and failed again. Several such rounds between two looks count as one.
    """
    return now.failed and (not before.failed or before.mark != now.mark or began_anew(before, now))


def began_anew(before: Look, now: Look) -> bool:
    """Whether the metrics of a task that is failed at both looks belong to two starts of it.

    Its counters only grow, and the share of time that it has been running only shrinks while it is failed
    (WorkerTask.TaskMetricsGroup, StateTracker.durationRatio). The worker's own task-startup-* do not help: since the
    builders of Worker.startTask they count only tasks that could not be created.
    """
    fewer = before.records is not None and now.records is not None and now.records < before.records
    ratios = before.running_ratio, now.running_ratio
    more = ratios[0] is not None and ratios[1] is not None and ratios[1] > ratios[0]
    return fewer or more


def _carried(before: Look, now: Look) -> Look:
    """The look, with the metrics of the one before where a failed task's could not be read this time."""
    if not (before.failed and now.failed):
        return now
    return replace(
        now,
        records=before.records if now.records is None else now.records,
        running_ratio=before.running_ratio if now.running_ratio is None else now.running_ratio,
    )
