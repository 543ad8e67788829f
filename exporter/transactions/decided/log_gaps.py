"""Records of a window of the transaction log that compaction took: offsets without a record. No I/O.

Nothing else takes an offset of this log. The cleaner takes a record whose key has a later one, and all of an id that
expired (TransactionStateManager.removeExpiredTransactionalIds), but none of the newest segment: while the segments are
older than the window, as in a quiet cluster, nothing of the window is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.kafka.requests.metadata import TRANSACTION_STATE
from exporter.model import Fault


class _Before(NamedTuple):
    offset: int
    record_ms: int


class LogGaps:
    """Looks for offsets without a record, in all partitions of the log. ``since_ms`` is the start of the window.

    ``lost`` counts those between two records of it. ``doubtful``: there are some after an older record, or at
    the end, which are of the window or older.
    """

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._before: dict[int, _Before] = {}
        self.lost = 0
        self.doubtful = False

    def begin(self, number: int, offset: int) -> None:
        """Begin a partition at an offset that an older record had, or at 0."""
        self._before[number] = _Before(offset - 1, -1)

    def read(self, number: int, offset: int, record_ms: int) -> None:
        """Take in the next record of a partition."""
        before = self._before[number]
        missing = offset - before.offset - 1
        if before.record_ms >= self._since_ms:
            self.lost += missing
        elif record_ms >= self._since_ms:
            self.doubtful |= missing > 0
        self._before[number] = _Before(offset, record_ms)

    def ended(self, number: int, end: int) -> None:
        """Note that the partition has no record from the last one to ``end``, or none that is replicated."""
        self.doubtful |= self._before[number].offset + 1 < end

    def questions(self, compared: int) -> tuple[str, ...]:
        """What is not known for them. What is doubtful is said only where no transaction was compared: below the newest
        segment, compaction takes records in every cluster.
        """
        if self.lost:
            text = f"compaction took {self.lost} records of the window from {TRANSACTION_STATE}"
            return (f"{text}: what else they decided is not known",)
        if self.doubtful and not compared:
            text = f"{TRANSACTION_STATE} has no transaction of the window, and records of it are gone"
            return (f"{text} that may be of the window",)
        return ()


SETTINGS = ("cleanup.policy", "delete.retention.ms")
DAY_MS = 86_400_000


def may_be_cleaned(settings: Mapping[str, str] | Fault | None, within_ms: float) -> bool | None:
    """Return whether the cleaner may take markers of a topic within this time; None where ``SETTINGS`` are not known.

    A marker stays for delete.retention.ms (a day) after the cleaner first passed it (KIP-98).
    """
    if settings is None or isinstance(settings, Fault):
        return None
    kept = settings.get("delete.retention.ms", str(DAY_MS))
    return "compact" in settings.get("cleanup.policy", "") and not (kept.isdigit() and int(kept) >= within_ms)
