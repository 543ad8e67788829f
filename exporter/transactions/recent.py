"""What ended lately: the last minute for the journal, and of an hour what did not end by its client's will.

No I/O. Memory is bounded: of the log of an hour, which a first start reads at once, the newest are kept.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from exporter.core.derived import Derived
from exporter.model import Fact
from exporter.transactions.facts import UncleanEnds, UncleanId
from exporter.transactions.transaction import Transaction
from exporter.words import Outcome

HOUR, HOUR_MINUTES = 3600.0, 60
KEPT_SECONDS = 60.0
"""How long a decision is handed on."""
MOST = 10_000
"""Transactions of each kind that are kept, 1,000 a second at an interval of 10 s. One takes 1 kB with its markers."""
MOST_IDS = 200
"""Ids with unclean ends that are listed, those with the newest ends."""
FENCES_WINDOW = 600.0
"""Window of ``recent_producer_fences``, in seconds of log time."""


class Newest(NamedTuple):
    """The newest of a sequence, by read. ``first`` is how many came before them since this process began."""

    first: int = 0
    reads: tuple[Sequence[Transaction], ...] = ()

    @property
    def end(self) -> int:
        """How many came since this process began, these included."""
        return self.first + sum(map(len, self.reads))

    def since(self, number: int) -> Iterator[Transaction]:
        """Those that are left of what came after the first ``number`` of this process."""
        return islice(chain.from_iterable(self.reads), max(0, number - self.first), None)


NONE = Newest()


@dataclass(frozen=True, slots=True)
class Recent(Fact):
    """The transactions that ended in the last minute and name their partitions, and the unclean ends of the last hour,
    both in the order in which this process read them.
    """

    ended: Newest = NONE
    unclean: Newest = NONE


class _Ring:
    """The newest transactions, at most ``most`` and none that was read more than ``seconds`` ago."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._kept: deque[tuple[float, Sequence[Transaction]]] = deque()
        self._new: deque[Transaction] = deque(maxlen=most)
        self.taken = 0

    def take(self, transaction: Transaction) -> None:
        self._new.append(transaction)
        self.taken += 1

    def __iter__(self) -> Iterator[Transaction]:
        yield from chain.from_iterable(made for _, made in self._kept)
        yield from self._new

    def read(self, now: float, before: Newest) -> Newest:
        """Return what is kept after a read at ``now``, monotonic: ``before``, the result of the last call, if it is the
        same.
        """
        expired = self._kept and self._kept[0][0] < now - self._seconds
        if not self._new and not expired:
            return before
        if self._new:
            self._kept.append((now, tuple(self._new)))
            self._new.clear()
        while self._kept and self._kept[0][0] < now - self._seconds:
            self._kept.popleft()
        while (excess := sum(len(made) for _, made in self._kept) - self._most) > 0:
            at, oldest = self._kept.popleft()
            if left := oldest[excess:]:
                self._kept.appendleft((at, left))
        reads = tuple([made for _, made in self._kept])
        return Newest(self.taken - sum(map(len, reads)), reads)


class RecentTransactions:
    """Collects what ended, from the events of the tail, and answers what ended how. For one thread."""

    def __init__(self, most_listed: int) -> None:
        """``most_listed`` is the largest number of unclean ends that are listed one by one."""
        self._most_listed = most_listed
        self.ended = _Ring(MOST, KEPT_SECONDS)
        """Takes each transaction that ended and whose partitions are known."""
        self.unclean = _Ring(max(MOST, 10 * most_listed), HOUR)
        """Takes each fence and each timeout."""
        self._fact = Recent()
        self._by_time = Derived(self._newest_first)

    def read(self, now: float) -> Recent:
        """Return what is handed on; ``now`` is monotonic. The same object while that is the same."""
        before = self._fact
        ended, unclean = self.ended.read(now, before.ended), self.unclean.read(now, before.unclean)
        if ended is not before.ended or unclean is not before.unclean:
            self._fact = Recent(ended, unclean)
        return self._fact

    # --- The last hour; ``log_now`` is log time in Unix seconds ---

    def unclean_ends(self, log_now: float) -> UncleanEnds:
        """The latest, and all by id."""
        ids, others = self._by_id(log_now)
        return UncleanEnds(self.latest(log_now), ids, others)

    def latest(self, log_now: float) -> tuple[Transaction, ...]:
        """The latest unclean ends of the last hour, newest first, one for each id, producer and outcome."""
        latest: dict[tuple[str, int, int, Outcome | None], Transaction] = {}
        for end in self._unclean_since(log_now - HOUR):
            if len(latest) >= self._most_listed:
                break
            latest.setdefault((end.transactional_id, end.producer_id, end.producer_epoch, end.outcome), end)
        return tuple(latest.values())

    def _by_id(self, log_now: float) -> tuple[tuple[UncleanId, ...], int]:
        """The ids with unclean ends in the last hour, most ends first, and the number of ends of ids that are not
        listed: a producer that restarts in a loop is one row.
        """
        found: dict[tuple[str, Outcome | None], list[Transaction]] = {}
        for end in self._unclean_since(60.0 * (log_now // 60 - HOUR_MINUTES)):
            found.setdefault((end.transactional_id, end.outcome), []).append(end)
        rows = [UncleanId(ends[0], len(ends), 60.0 * (ends[-1].ended // 60)) for ends in found.values()]
        listed = sorted(rows[:MOST_IDS], key=lambda row: (-row.ends, -row.newest.ended))
        return tuple(listed), sum(row.ends for row in rows[MOST_IDS:])

    def fences(self, log_now: float) -> Counter[tuple[str, str]]:
        """How often each id was fenced in the last ``FENCES_WINDOW``, by id and application."""
        return Counter(
            (end.transactional_id, end.application)
            for end in self._unclean_since(log_now - FENCES_WINDOW)
            if end.outcome is Outcome.FENCED
        )

    def _unclean_since(self, instant: float) -> Iterator[Transaction]:
        for end in self._by_time(self.unclean.taken):
            if end.ended < instant:
                return
            yield end

    def _newest_first(self, _taken: int) -> list[Transaction]:
        """The log is read partition by partition: what is read later may have ended before."""
        return sorted(self.unclean, key=lambda end: end.ended, reverse=True)
