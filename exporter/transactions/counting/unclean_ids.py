"""Fences and timeouts of the last hour by transactional.id: a producer that restarts in a loop is one row."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from exporter.transactions.facts import LoggedEnds, UncleanEnd, UncleanId

HOUR, HOUR_MINUTES = 3600.0, 60
MOST_IDS = 200
MOST_LOGGED_ENDS = 2_000
"""Unclean ends that are handed on at once."""


@dataclass(slots=True)
class _Ends:
    newest: UncleanEnd
    by_minute: Counter[int] = field(default_factory=Counter)


class UncleanIds:
    """Counts by id and outcome, in minutes of log time. Of more than ``MOST_IDS``, those with the newest ends are kept;
    the ends of the others are counted together.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Ends] = {}
        self._others: Counter[int] = Counter()

    def note(self, end: UncleanEnd) -> None:
        """Count one end."""
        key = (end.transactional_id, end.outcome)
        known = self._kept.get(key)
        if known is None:
            known = self._kept[key] = _Ends(end)
        elif end.ended >= known.newest.ended:
            known.newest = end
        known.by_minute[int(end.ended // 60)] += 1
        if len(self._kept) > MOST_IDS:
            oldest = min(self._kept, key=lambda transactional_id: self._kept[transactional_id].newest.ended)
            self._others.update(self._kept.pop(oldest).by_minute)

    def last_hour(self, log_now: float) -> tuple[tuple[UncleanId, ...], int]:
        """The ids with ends in the last hour, most ends first, and the number of ends of ids that were not kept."""
        minute = int(log_now // 60)
        for key, ends in list(self._kept.items()):
            _forget(ends.by_minute, minute)
            if not ends.by_minute:
                del self._kept[key]
        _forget(self._others, minute)
        rows = [
            UncleanId(ends.newest, ends.by_minute.total(), 60.0 * min(ends.by_minute)) for ends in self._kept.values()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.ends, -row.newest.ended))), self._others.total()


class UncleanHistory:
    """The unclean ends that were read: the latest, those by id, and those that this process read, in order."""

    def __init__(self, most: int) -> None:
        """``most`` is the largest number of ``latest``."""
        self._most = most
        self._ends: deque[UncleanEnd] = deque(maxlen=max(200, most * 10))
        self._logged = LoggedEnds(0, ())
        self._new: deque[UncleanEnd] = deque(maxlen=MOST_LOGGED_ENDS)
        self._taken = 0
        self.ids = UncleanIds()

    def note(self, end: UncleanEnd) -> None:
        """Take in one end."""
        self._ends.append(end)
        self._new.append(end)
        self._taken += 1
        self.ids.note(end)

    def logged(self) -> LoggedEnds:
        """Return the ends that this process read. The same object while there is no new one."""
        if self._new:
            self._logged = LoggedEnds(self._taken, (*self._logged.ends, *self._new)[-MOST_LOGGED_ENDS:])
            self._new.clear()
        return self._logged

    def latest(self, log_now: float) -> tuple[UncleanEnd, ...]:
        """The latest ends of the last hour, newest first, one for each id, producer and outcome."""
        latest: dict[tuple[str, int, int, str], UncleanEnd] = {}
        for end in sorted(self._ends, key=lambda end: end.ended, reverse=True):
            if end.ended < log_now - HOUR or len(latest) >= self._most:
                break
            latest.setdefault((end.transactional_id, end.producer_id, end.producer_epoch, end.outcome), end)
        return tuple(latest.values())


def _forget(by_minute: Counter[int], minute: int) -> None:
    for old in [at for at in by_minute if at < minute - HOUR_MINUTES]:
        del by_minute[old]
