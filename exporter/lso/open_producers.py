"""Open transactions of partitions whose LSO is below their high watermark, as DescribeProducers answered. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from exporter.core.derived import VersionedDict
from exporter.lso.rules import Coordinators, LogProducer, Standing, holding_producer
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.words import TransactionState

NOT_ASKED = "its producers were not asked for yet"


@dataclass(frozen=True, slots=True)
class _Answer:
    """The last answer for a partition, and why there is none to the last request."""

    producers: tuple[LogProducer, ...] | None = None  # None: not asked, or no answer
    unasked: str | None = None


_NONE = _Answer()


class OpenProducers:
    """The last answer for each partition."""

    def __init__(self) -> None:
        self._answers = VersionedDict[TopicPartition, _Answer]()

    @property
    def version(self) -> int:
        """Another number after each change."""
        return self._answers.version

    def of(self, partition: TopicPartition) -> tuple[LogProducer, ...]:
        """The producers with an open transaction in a partition; empty when that is not known."""
        return self._answers.get(partition, _NONE).producers or ()

    def is_known(self, partition: TopicPartition) -> bool:
        return self._answers.get(partition, _NONE).producers is not None

    def why_unknown(self, partition: TopicPartition) -> str | None:
        """Why the last request for a partition has no answer."""
        answer = self._answers.get(partition, _NONE)
        return NOT_ASKED if answer.producers is None and answer.unasked is None else answer.unasked

    def described(
        self, partition: TopicPartition, producers: tuple[LogProducer, ...] | None, unasked: str | None
    ) -> None:
        """Store the answer for a partition; without one the last answer is kept, and ``unasked`` is the reason."""
        if producers is None:
            producers = self._answers.get(partition, _NONE).producers
        self._answers[partition] = _Answer(producers, unasked)

    def outdate(self, partition: TopicPartition) -> None:
        """Drop the producers of a partition until the next answer; the reason of a failed request is kept."""
        if (answer := self._answers.get(partition)) is not None:
            self._answers[partition] = _Answer(None, answer.unasked)

    def forget(self, partition: TopicPartition) -> None:
        self._answers.pop(partition, None)

    def unknown_to(
        self, coordinators: Coordinators, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[LogProducer, ...]]:
        """Of these partitions, the open transactions that no coordinator has, by the last answer."""
        return {
            partition: unknown
            for partition in partitions
            if (unknown := tuple(p for p in self.of(partition) if not coordinators.knows(partition, p.producer_id)))
        }

    def unasked(self) -> set[TopicPartition]:
        """Partitions without an answer to the last request."""
        return {partition for partition, answer in self._answers.items() if answer.unasked is not None}


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
