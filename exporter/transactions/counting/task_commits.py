"""The commits of Connect's source tasks, by transactional id. No I/O."""

from __future__ import annotations

from collections.abc import Mapping


class CommitsOfTasks:
    """The counts of all tasks, whatever application their ids are counted under."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._changed: set[str] = set()

    def appeared(self, task: str) -> None:
        """Begin to count the commits of a task."""
        self.counts.setdefault(task, 0)

    def committed(self, task: str) -> None:
        """Count a commit of a known task."""
        self.counts[task] += 1
        self._changed.add(task)

    def forget(self, task: str) -> None:
        """Drop a task whose id expired."""
        if self.counts.pop(task, None) is not None:
            self._changed.add(task)

    def saved(self, *, everything: bool) -> Mapping[str, int | None]:
        """The counts to save: all, or those that changed since the last call; None for a task that is gone."""
        tasks = self.counts if everything else self._changed
        found = {task: self.counts.get(task) for task in tasks}
        self._changed.clear()
        return found
