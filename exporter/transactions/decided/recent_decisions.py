"""The decisions that the tail of the transaction log read lately, as ``torn`` compares them with markers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from exporter.model import Fact
from exporter.transactions.decided.shared_epoch import CLOCK_SLACK_MS
from exporter.transactions.decided.torn import Decision, one_epoch, partitions_of_section
from exporter.transactions.machine.entries import Ended
from exporter.transactions.machine.record_fields import V2
from exporter.transactions.machine.records import UndecodableRecord
from exporter.words import Outcome

KEPT_SECONDS = 60.0
MOST = 10_000
"""Largest number of decisions that are handed on at once, 1,000 a second at an interval of 10 s. The oldest are left
out: they are counted by ``first``. At a first start the tail reads those of an hour, and one takes 1 kB with its
markers.
"""


@dataclass(frozen=True, slots=True)
class RecentDecisions(Fact):
    """The decisions of the last minute, by read. ``first`` is how many came before them since this process began."""

    first: int
    reads: tuple[Sequence[Decision], ...]

    @property
    def end(self) -> int:
        """How many came since this process began, these included."""
        return self.first + sum(map(len, self.reads))

    def since(self, number: int) -> Iterator[Decision]:
        """Those that are left of what came after the first ``number`` of this process."""
        return islice(chain.from_iterable(self.reads), max(0, number - self.first), None)


@dataclass(frozen=True, slots=True)
class ClocksApart(Fact):
    """The whole seconds between the clocks that are furthest apart of those that date what was decided in the last
    minutes, and the coordinators of now whose clocks are known.
    """

    seconds: int
    brokers: frozenset[int] = frozenset()

    @property
    def far(self) -> bool:
        """Return whether times of two brokers say nothing of an order."""
        return 1000 * self.seconds >= CLOCK_SLACK_MS


class DecisionTail:
    """Collects decisions from the events of the tail. For one thread."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Sequence[Decision]]] = deque()
        self._taken = 0
        self._newest: deque[Decision] = deque(maxlen=MOST)
        self._fact = RecentDecisions(0, ())

    def take(self, event: Ended) -> None:
        """Take in a transaction that ended. One whose partitions compaction took is left out."""
        if (decision := _decision(event)) is not None:
            self._newest.append(decision)
            self._taken += 1

    def read(self, now: float) -> RecentDecisions:
        """Return the decisions of the last minute; ``now`` is monotonic. The same object while they are the same."""
        expired = self._kept and self._kept[0][0] < now - KEPT_SECONDS
        if self._newest or expired:
            if self._newest:
                self._kept.append((now, tuple(self._newest)))
                self._newest.clear()
            while self._kept and self._kept[0][0] < now - KEPT_SECONDS:
                self._kept.popleft()
            while (excess := sum(len(made) for _, made in self._kept) - MOST) > 0:
                at, oldest = self._kept.popleft()
                if left := oldest[excess:]:
                    self._kept.appendleft((at, left))
            reads = tuple([made for _, made in self._kept])
            self._fact = RecentDecisions(self._taken - sum(map(len, reads)), reads)
        return self._fact


def _decision(event: Ended) -> Decision | None:
    entry, commit = event.entry, event.outcome is Outcome.COMMITTED
    if not event.section:
        return None
    try:
        partitions = partitions_of_section(event.layout, event.section)
    except UndecodableRecord:
        return None
    client = event.producer_epoch
    if commit and entry.producer_id == event.producer_id:
        epochs = one_epoch(entry.epoch)  # that of its Complete record, which was just read
    else:  # a server's abort raises the epoch, and the record of an exhausted one has the next producer id
        epochs = frozenset({client, client + 1})
    return Decision(
        entry.transactional_id,
        event.producer_id,
        commit,
        epochs,
        one_epoch(client),
        event.begun_ms,
        event.prepared_ms,
        event.completed_ms,
        partitions,
        event.client_version >= V2,
        event.outcome,
    )
