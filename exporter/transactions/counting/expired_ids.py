"""Ids that expired in the last hour of the log. A restart of this process forgets those that it does not read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from exporter.transactions.facts import ExpiredId, ExpiredIds

HOUR = 3600.0
MOST_LISTED = 200
MOST_KEPT = 20_000
"""Ids that are kept: of a log that drops more in an hour, the newest are counted."""


class RecentlyExpired:
    """The ids by their names, in the order of the log."""

    def __init__(self, application_of: Callable[[str], str]) -> None:
        self._application_of = application_of
        self._kept: dict[str, float] = {}

    def note(self, transactional_id: str, expired: float) -> None:
        """Note that an id expired, Unix seconds of log time."""
        self._kept.pop(transactional_id, None)
        self._kept[transactional_id] = expired
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def initialised(self, transactional_id: str) -> None:
        """Note that a producer took an id again: nobody needs to be told of it."""
        if self._kept:
            self._kept.pop(transactional_id, None)

    def last_hour(self, log_now: float) -> ExpiredIds:
        """The ids of the hour before this instant, newest first."""
        self._drop(log_now)
        newest = sorted(self._kept.items(), key=lambda row: -row[1])[:MOST_LISTED]
        listed = tuple(ExpiredId(name, self._application_of(name), expired) for name, expired in newest)
        return ExpiredIds(listed, len(self._kept) - len(listed))

    def by_application(self, log_now: float) -> Counter[str]:
        """How many of each application."""
        self._drop(log_now)
        return Counter(map(self._application_of, self._kept))

    def _drop(self, log_now: float) -> None:
        for name in [name for name, expired in self._kept.items() if expired < log_now - HOUR]:
            del self._kept[name]
