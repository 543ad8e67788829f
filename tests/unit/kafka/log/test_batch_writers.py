"""Who wrote the newest batches of partitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from exporter.kafka.log.batch_writers import sample_writers
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.model import Deadline, TopicPartition
from tests.helpers.batches import batch, data, marker

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class WrittenBroker:
    """Answers a Fetch of both partitions, the second of which it refuses."""

    def __init__(self, records: bytes) -> None:
        self.records = records

    def ask(self, requests: dict[int, Any], _: Deadline) -> dict[int, Any]:
        parts = [
            SimpleNamespace(partition_index=0, error_code=0, records=self.records),
            SimpleNamespace(partition_index=1, error_code=29, records=None),
        ]
        topic = SimpleNamespace(topic="orders", partitions=parts)
        return dict.fromkeys(requests, SimpleNamespace(responses=[topic]))


def sampled(records: bytes) -> tuple[dict[TopicPartition, Any], tuple[Any, ...]]:
    partitions = {number: PartitionMetadata(1, (1,), (1,)) for number in (0, 1)}
    metadata = Metadata("id", {1: "a:1"}, {"orders": partitions}, frozenset(), {})
    client: Any = WrittenBroker(records)
    return sample_writers(client, metadata, {FIRST: 0, SECOND: 0}, Deadline.after(5))


def test_batches_outside_of_transactions_are_told_with_their_producers() -> None:
    found, faults = sampled(batch(0, 3) + batch(3, 1, 5) + data(4, 2, 7) + marker(6, 7))
    assert found.keys() == {FIRST}
    writers = found[FIRST]
    assert (writers.batches, writers.outside, writers.producer_ids) == (3, 2, {5})
    assert "READ on Topic:orders" in faults[0].detail


@pytest.mark.parametrize("records", [b"\0" * 100, b"", data(0, 2, 7)[:-1]], ids=["unreadable", "none", "cut"])
def test_a_partition_of_which_no_batch_came_is_no_sample(records: bytes) -> None:
    found, faults = sampled(records)
    assert found == {}
    assert "of some partitions no batch came" in faults[0].detail
