"""Where the records of precommitted transactions are: after the end of a transaction, no broker has its offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from exporter.flink.facts import Loss
from exporter.flink.jobs import Jobs
from exporter.lso.facts import Stall
from exporter.model import TopicPartition

MOST_PLACES = 1000
"""Largest number of precommitted transactions whose record offsets are kept."""
NEAR_SECONDS = 1.0
"""Between two starts of one transaction, by two clocks. The next one of its producer begins after a checkpoint."""


class _Held(NamedTuple):
    started: float
    places: dict[TopicPartition, tuple[int, int]]


class PrecommitPlaces:
    """For each producer id, its partitions with the first offset of a transaction and the high watermark then."""

    def __init__(self) -> None:
        self._places: dict[int, _Held] = {}

    def of(self, loss: Loss) -> Mapping[TopicPartition, tuple[int, int]]:
        """The places of a transaction; empty when no partition was seen stalled by it."""
        held = self._places.get(loss.producer_id)
        if held is None or loss.begun is None or abs(held.started - loss.begun) > NEAR_SECONDS:
            return MappingProxyType({})
        return MappingProxyType(dict(held.places))

    def complete(self, jobs: Jobs, now: float) -> None:
        """Add the places to the losses that have none yet."""
        for loss in jobs.losses(now):
            if not loss.places and (places := self.of(loss)):
                jobs.replace(loss, loss._replace(places=places))

    def note(self, stalls: Iterable[Stall]) -> None:
        """Note the partitions that precommitted transactions hold. The oldest producers are dropped at the limit."""
        held: dict[int, _Held] = {}
        for stall in stalls:
            who = stall.blocker
            if who.checkpoint is not None and who.producer_id is not None and who.started is not None:
                places = held.setdefault(who.producer_id, _Held(who.started, {})).places
                places[stall.partition] = (who.start_offset, stall.high_watermark)
        for producer_id in held:
            self._places.pop(producer_id, None)
        self._places |= held
        while len(self._places) > MOST_PLACES:
            del self._places[next(iter(self._places))]
