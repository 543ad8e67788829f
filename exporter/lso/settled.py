"""Partitions whose holder is known and ongoing: nothing is requested about them again. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.lso.open_producers import OpenProducers
from exporter.lso.rules import Coordinators, LogProducer, Standing, holding_producer
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import TransactionState


class Settled(NamedTuple):
    """A partition whose open transactions are all known to their coordinators, with its holder, which is ongoing.

    Nothing is requested and nothing has to be proven about it while the same values are found again.
    """

    state: Standing
    producers: tuple[LogProducer, ...]
    holder: LogProducer
    transaction: OpenTransaction


def settled_partitions(
    standing: Mapping[TopicPartition, Standing], answers: OpenProducers, coordinators: Coordinators
) -> dict[TopicPartition, Settled]:
    """Return those of the partitions with the LSO below the high watermark that are settled."""
    found = {}
    for partition, state in standing.items():
        producers = answers.of(partition)
        who = holding_producer(producers, state.last_stable_offset)
        if who is None or answers.why_unknown(partition) is not None:
            continue
        if not all(coordinators.knows(partition, producer.producer_id) for producer in producers):
            continue
        transaction = coordinators.by_producer[who.producer_id]
        if transaction.state is TransactionState.ONGOING:
            found[partition] = Settled(state, producers, who, transaction)
    return found
