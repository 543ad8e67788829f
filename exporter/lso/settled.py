"""Partitions whose holder is known and ongoing: nothing is requested about them again. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.lso.open_producers import OpenProducers
from exporter.lso.rules import Coordinators, LogProducer, Standing, holder
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import TransactionState


class Settled(NamedTuple):
    """A partition whose open transactions are all known to their coordinators, with its holder, which is ongoing.

    Nothing is requested and nothing has to be proven about it while the same values are found again.
    """

    state: Standing
    producers: tuple[LogProducer, ...]
    who: LogProducer
    transaction: OpenTransaction


class SettledPartitions:
    """Finds the partitions that are not settled. Those that were are compared by identity."""

    def __init__(self) -> None:
        self._settled: dict[TopicPartition, Settled] = {}
        self._revision = -1  # at the last call, with its arguments and result
        self._by_producer: Mapping[int, OpenTransaction] = {}
        self._others: list[TopicPartition] = []

    def of(self, partition: TopicPartition) -> Settled | None:
        return self._settled.get(partition)

    def forget(self, partition: TopicPartition) -> None:
        self._settled.pop(partition, None)

    def others(
        self,
        standing: Mapping[TopicPartition, Standing],
        producers: OpenProducers,
        coordinators: Coordinators,
        revision: int,
    ) -> list[TopicPartition]:
        """The partitions of ``standing`` that are not settled. ``revision`` is that of ``standing`` and ``producers``:
        with the same one and the same transactions the last result is used.
        """
        by_producer = coordinators.by_producer
        if revision == self._revision and by_producer is self._by_producer:
            return self._others
        found = []
        for partition, state in standing.items():
            known = self._settled.get(partition)
            if (
                known is None
                or known.state is not state
                or by_producer.get(known.who.producer_id) is not known.transaction
                or producers.of(partition) is not known.producers
                or len(known.producers) > 1
            ):
                settled = _settle(partition, state, producers, coordinators)
                if settled is None:
                    self._settled.pop(partition, None)
                    found.append(partition)
                else:
                    self._settled[partition] = settled
        self._revision, self._by_producer, self._others = revision, by_producer, found
        return found


def _settle(
    partition: TopicPartition, state: Standing, answers: OpenProducers, coordinators: Coordinators
) -> Settled | None:
    producers = answers.of(partition)
    who = holder(producers, state.last_stable_offset)
    if who is None or answers.why_unknown(partition) is not None:
        return None
    if not all(coordinators.knows(partition, each.producer_id) for each in producers):
        return None
    transaction = coordinators.by_producer[who.producer_id]
    ongoing = transaction.state is TransactionState.ONGOING
    return Settled(state, producers, who, transaction) if ongoing else None
