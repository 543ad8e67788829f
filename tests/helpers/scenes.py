"""Situations of a fake cluster that several tests begin with."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain

from exporter.model import Fact, Source
from exporter.transactions.machine.records import Status, UndecodableRecord, head
from tests.helpers.cluster import LOG, FakeKafka, FakeTransaction, OpenWriter, Partition, SourceRead, read, world_of
from tests.helpers.coordinator import CoordinatorRecord
from tests.helpers.strategies import encode_key, encode_value, kafka_tags

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
    """A producer's open transaction holds the LSO of a partition. The log has the record of its producer id."""
    if LOG in world.topics and producer_id not in _producer_ids(world):
        value = encode_value(1, producer_id, 0, 60_000, Status.EMPTY, None, 1, -1, kafka_tags(producer_id, -1, 0))
        place = world.topics[LOG][0]
        world.write([CoordinatorRecord(0, place.high_watermark, 1, encode_key(f"owner-{producer_id}"), value)])
    partition = world.topics[topic][number]
    partition.high_watermark, partition.stable = end, at
    partition.writers = [OpenWriter(producer_id, at)]
    return partition


def _producer_ids(world: FakeKafka) -> set[int]:
    found = set()
    for record in chain.from_iterable(world.log.values()):
        with suppress(UndecodableRecord):
            found.add(head(record.value or b"")[1])
    return found


def go_on(world: FakeKafka, source: Source, seconds: float, *facts: Fact) -> SourceRead:
    """Read at every interval for so long; what the last read gave."""
    seen = read(world, source, *facts)
    for _ in range(round(seconds / source.interval)):
        world.time.pass_(source.interval)
        seen = read(world, source, *facts)
    return seen
