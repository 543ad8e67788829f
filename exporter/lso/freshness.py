"""How old the oldest record is that read_committed readers are not given. Pure functions.

A fetch with READ_COMMITTED ends at the last stable offset (LSO), the first record of the oldest open transaction of the
partition. That record was written after its transaction began, and before the LSO was seen to stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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


def withheld_ages(
    now: float,
    standing: Mapping[TopicPartition, Standing],
    monotonic: Callable[[float], float],
    producers: Callable[[TopicPartition], Iterable[LogProducer]],
    coordinators: Coordinators,
    earliest: Earliest,
) -> dict[str, float]:
    """Return by topic the age of its oldest withheld record, in seconds.

    ``now`` is a monotonic instant; ``monotonic`` gives that of Unix seconds by the coordinators' clock. ``producers``
    are the open transactions of a partition by DescribeProducers; while they are not known, ``earliest`` decides.
    Where no coordinator has the holder, the record is at least as old as the LSO has stayed there.
    """
    ages: dict[str, float] = {}
    for partition, state in standing.items():
        who = holding_producer(producers(partition), state.last_stable_offset)
        known = coordinators.by_producer.get(who.producer_id) if who is not None else None
        began = earliest.get(partition) if known is None else known.started
        begin = state.seen if began is None else min(state.seen, monotonic(began))
        ages[partition.topic] = max(ages.get(partition.topic, 0.0), now - begin)
    return ages
