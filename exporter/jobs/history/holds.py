"""Which transaction held which partition's last stable offset, and when. Pure.

The LSO of a partition is the first offset of its oldest open transaction. The log has the times at which transactions
began and completed, not their offsets. So the one that began first is the holder, from the end of the previous holder.
A transaction may have written to a partition later than it began; then it held it for less.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exporter.model import TopicPartition


class Lasting(NamedTuple):
    """A transaction that was open for a while; times are Unix milliseconds."""

    begin_ms: int
    complete_ms: int
    transactional_id: str
    application: str
    producer_id: int
    producer_epoch: int
    outcome: str


class Hold(NamedTuple):
    """One holder of one partition's LSO, from ``begin_ms`` to ``end_ms``."""

    partition: TopicPartition
    begin_ms: int
    end_ms: int
    holder: Lasting

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.begin_ms) / 1000


def holds_of(partition: TopicPartition, transactions: Iterable[Lasting], least_ms: int) -> list[Hold]:
    """The holds of one partition that lasted at least so long, in the order of time."""
    found: list[Hold] = []
    free_at = -1
    for transaction in sorted(transactions):
        begin_ms = max(transaction.begin_ms, free_at)
        if transaction.complete_ms - begin_ms >= least_ms:
            found.append(Hold(partition, begin_ms, transaction.complete_ms, transaction))
        free_at = max(free_at, transaction.complete_ms)
    return found
