"""Who wrote the newest batches of partitions, by their headers: in a transaction or outside of any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.faults import refusal
from exporter.kafka.log.batches import UNREADABLE, FetchedBatch, batches
from exporter.kafka.log.fetch import fetch_each
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation
from exporter.model import Deadline, Fault, Reason, TopicPartition

PARTITION_BYTES = 64 * 1024
MOST_PRODUCERS = 10


@dataclass(slots=True)
class BatchWriters:
    """The data batches read of one partition, and those without a transaction. ``newest_ms`` is of these, or -1."""

    batches: int = 0
    outside: int = 0
    producer_ids: set[int] = field(default_factory=set)
    newest_ms: int = -1

    def take(self, batch: FetchedBatch) -> None:
        """Count one batch."""
        if batch.control:
            return
        self.batches += 1
        if batch.transactional:
            return
        self.outside += 1
        self.newest_ms = max(self.newest_ms, batch.max_ms)
        if batch.producer_id >= 0 and len(self.producer_ids) < MOST_PRODUCERS:
            self.producer_ids.add(batch.producer_id)


class BatchReader(Protocol):
    """Looks at the headers of batches."""

    def take(self, batch: FetchedBatch) -> None: ...


Reader = TypeVar("Reader", bound=BatchReader)


def sample_writers(
    client: BrokerAccess, metadata: Metadata, starts: Mapping[TopicPartition, int], deadline: Deadline
) -> tuple[dict[TopicPartition, BatchWriters], tuple[Fault, ...]]:
    """Who wrote in ``PARTITION_BYTES`` of each partition from its offset. One that was not read is left out."""
    return sample_batches(client, metadata, starts, deadline, lambda _: BatchWriters())


def sample_batches(
    client: BrokerAccess,
    metadata: Metadata,
    starts: Mapping[TopicPartition, int],
    deadline: Deadline,
    reader: Callable[[TopicPartition], Reader],
    size: int = PARTITION_BYTES,
) -> tuple[dict[TopicPartition, Reader], tuple[Fault, ...]]:
    """Read ``size`` bytes of each partition from its offset. A partition that was not read is left out."""
    found: dict[TopicPartition, Reader] = {}
    faults: list[Fault] = []
    for item in fetch_each(client, metadata, starts, size, Isolation.READ_UNCOMMITTED, deadline):
        if isinstance(item, Fault):
            faults.append(item)
            continue
        place, part = item
        fault = _read(place, part, its := reader(place))
        if fault is None:
            found[place] = its
        else:
            faults.append(fault)
    return found, tuple(dict.fromkeys(faults))


def _read(place: TopicPartition, part: Any, reader: BatchReader) -> Fault | None:  # noqa: ANN401 -- no types
    """Give the reader the batches of a partition; why no batch came that could be read, or None."""
    if part.error_code:
        return refusal(f"Fetch of {place.topic}", part.error_code, f"READ on Topic:{place.topic}")
    some = False
    try:
        for batch in batches(bytes(part.records or b"")):
            reader.take(batch)
            some = True
    except UNREADABLE:
        some = False
    if some:
        return None
    # Remote storage is late, a quota is used up, or the first batch is larger.
    return Fault(Reason.TIMEOUT, f"Fetch of {place.topic}: of some partitions no batch came that could be read")
