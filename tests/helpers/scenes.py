"""Situations of a fake cluster that several tests begin with."""

from __future__ import annotations

from exporter.model import Fact, Source
from tests.helpers.cluster import FakeKafka, FakeTransaction, OpenWriter, Partition, SourceRead, read, world_of

BEGUN_MS = 1_789_999_000_000


def world_with_one_open() -> FakeKafka:
    """The id app-1 has an open transaction in orders-0."""
    world = world_of(log=2, offsets=1)
    world.transactions["app-1"] = FakeTransaction(7, "Ongoing", [("orders", 0)], 3, 60_000, BEGUN_MS)
    return world


def held_world(count: int = 2, stable: int = 80, end: int = 100) -> FakeKafka:
    """The last stable offset of each partition of orders is before its end."""
    world = world_of(log=0, offsets=1, orders=count)
    for partition in world.topics["orders"]:
        partition.high_watermark, partition.stable = end, stable
    return world


def stand(
    world: FakeKafka, topic: str, number: int = 0, *, producer_id: int = 7, at: int = 10, end: int = 25
) -> Partition:
    """A producer's open transaction holds the LSO of a partition."""
    partition = world.topics[topic][number]
    partition.high_watermark, partition.stable = end, at
    partition.writers = [OpenWriter(producer_id, at)]
    return partition


def go_on(world: FakeKafka, source: Source, seconds: float, *facts: Fact) -> SourceRead:
    """Read at every interval for so long; what the last read gave."""
    seen = read(world, source, *facts)
    for _ in range(round(seconds / source.interval)):
        world.time.pass_(source.interval)
        seen = read(world, source, *facts)
    return seen
