"""Fences and timeouts of the last hour by transactional.id: a producer that restarts in a loop is one row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from exporter.transactions.facts import UncleanEnd, UncleanId

HOUR_MINUTES = 60
MOST_IDS = 200


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


def _forget(by_minute: Counter[int], minute: int) -> None:
    for old in [at for at in by_minute if at < minute - HOUR_MINUTES]:
        del by_minute[old]
