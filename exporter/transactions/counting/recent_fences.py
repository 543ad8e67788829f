"""The transactional ids that were fenced lately. No I/O; instants are log time in Unix seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from exporter.flink.jobs import Jobs

FENCES_WINDOW = 600.0
"""Window of ``recent_producer_fences``, in seconds of log time."""
MOST_FENCES = 10_000
"""Largest number of fences of one id that are counted."""


class RecentFences:
    """The fences of each id in the window."""

    def __init__(self, flink: Jobs) -> None:
        self._flink = flink
        self._by_id: dict[str, tuple[str, deque[float]]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def note(self, transactional_id: str, application: str, ended: float) -> None:
        """Count a fence."""
        _, instants = self._by_id.setdefault(transactional_id, (application, deque(maxlen=MOST_FENCES)))
        instants.append(ended)

    def worst(self, log_now: float, most: int, counted: Container[str]) -> list[tuple[str, str, int]]:
        """Return the ids with the most fences: id, application, fences. Of Flink only ``counted`` applications."""
        for transactional_id, (_, instants) in list(self._by_id.items()):
            while instants and instants[0] < log_now - FENCES_WINDOW:
                instants.popleft()
            if not instants:
                del self._by_id[transactional_id]
        found = [
            (transactional_id, application, len(instants))
            for transactional_id, (application, instants) in self._by_id.items()
            if not self._flink.is_job(transactional_id)
        ]
        # A Flink job that starts fences the ids of its earlier start. It is a storm only when it starts and does not
        # commit.
        for job in self._flink:
            restarts = job.restarts_without_commit(log_now)
            if restarts and job.application in counted:
                found.append((f"{job.prefix}-*", job.application, restarts))
        return sorted(found, key=lambda row: (-row[2], row[0]))[:most]
