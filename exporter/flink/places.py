"""Where the records of precommitted transactions are: after the end of a transaction, no broker has its offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from exporter.flink.jobs import Jobs
from exporter.lso.facts import Stall
from exporter.model import TopicPartition

MOST_PLACES = 1000
"""Largest number of precommitted transactions whose record offsets are kept."""


class PrecommitPlaces:
    """For each producer id, its partitions with the first offset of the transaction and the high watermark then."""

    def __init__(self) -> None:
        self._places: dict[int, dict[TopicPartition, tuple[int, int]]] = {}

    def of(self, producer_id: int) -> Mapping[TopicPartition, tuple[int, int]]:
        """The places of a producer's transaction; empty when no partition was seen stalled by it."""
        return MappingProxyType(dict(self._places.get(producer_id, {})))

    def complete(self, jobs: Jobs, now: float) -> None:
        """Add the places to the losses that have none yet."""
        for loss in jobs.losses(now):
            if not loss.places and (places := self.of(loss.producer_id)):
                jobs.replace(loss, loss._replace(places=places))

    def note(self, stalls: Iterable[Stall]) -> None:
        """Note the partitions that precommitted transactions hold. The oldest producers are dropped at the limit."""
        held: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        for stall in stalls:
            who = stall.blocker
            if who.checkpoint is not None and who.producer_id is not None:
                places = held.setdefault(who.producer_id, {})
                places[stall.partition] = (who.start_offset, stall.high_watermark)
        for producer_id, places in held.items():
            self._places.pop(producer_id, None)
            self._places[producer_id] = places
        while len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]
