"""How old the oldest record is that read_committed readers are not given. Pure functions.

A fetch with READ_COMMITTED ends at the last stable offset (LSO), the first record of the oldest open transaction of the
partition. That record was written after its transaction began, and before the LSO was seen to stay there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from exporter.lso.rules import Coordinators, LogProducer, Standing, holding_producer
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction

Earliest = Mapping[TopicPartition, float]


def earliest_starts(transactions: Iterable[OpenTransaction]) -> dict[TopicPartition, float]:
    """Return by partition when the oldest open transaction that writes to it began, in Unix seconds."""
    found: dict[TopicPartition, float] = {}
    for transaction in transactions:
        if transaction.started is None:
            continue
        for partition in transaction.partitions:
            found[partition] = min(transaction.started, found.get(partition, transaction.started))
    return found


class WithheldSince(NamedTuple):
    """The oldest withheld record of a topic: the first instant (monotonic) at which an LSO of it was seen to stay, and
    the first begin of a holder, in Unix seconds by the coordinators' clock, infinite where none is known.
    """

    seen: float
    began: float

    def age(self, now: float, monotonic: Callable[[float], float]) -> float:
        """Its age in seconds. ``now`` is a monotonic instant; ``monotonic`` gives that of the coordinators' clock."""
        return now - min(self.seen, monotonic(self.began))


def withheld_since(
    standing: Mapping[TopicPartition, Standing],
    producers: Callable[[TopicPartition], Iterable[LogProducer]],
    coordinators: Coordinators,
    earliest: Earliest,
) -> dict[str, WithheldSince]:
    """Return by topic since when its oldest withheld record is there.

    ``producers`` are the open transactions of a partition by DescribeProducers; while they are not known, ``earliest``
    decides. Where no coordinator has the holder, the record is at least as old as the LSO has stayed there.
    """
    found: dict[str, WithheldSince] = {}
    for partition, state in standing.items():
        who = holding_producer(producers(partition), state.last_stable_offset)
        known = coordinators.by_producer.get(who.producer_id) if who is not None else None
        began = earliest.get(partition) if known is None else known.started
        seen, first = found.get(partition.topic, (math.inf, math.inf))
        found[partition.topic] = WithheldSince(min(seen, state.seen), first if began is None else min(first, began))
    return found
