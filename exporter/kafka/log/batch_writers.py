"""Who wrote the newest batches of partitions, by their headers: in a transaction or outside of any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.faults import refusal
from exporter.kafka.log.batches import UNREADABLE, batches, fetch_request
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, Reason, TopicPartition

PARTITION_BYTES = 64 * 1024
REQUEST_BYTES = 8 << 20
PARTITIONS_PER_REQUEST = REQUEST_BYTES // PARTITION_BYTES
MOST_PRODUCERS = 10


@dataclass(slots=True)
class BatchWriters:
    """The data batches read of one partition, and those without a transaction. ``newest_ms`` is of these, or -1."""

    batches: int = 0
    outside: int = 0
    producer_ids: set[int] = field(default_factory=set)
    newest_ms: int = -1

    def take(self, batch: Any) -> None:  # noqa: ANN401 -- kafka-python ships no types
        """Count one batch."""
        if batch.is_control_batch:
            return
        self.batches += 1
        if batch.is_transactional:
            return
        self.outside += 1
        self.newest_ms = max(self.newest_ms, batch.max_timestamp)
        if batch.producer_id >= 0 and len(self.producer_ids) < MOST_PRODUCERS:
            self.producer_ids.add(batch.producer_id)


class BatchReader(Protocol):
    """Looks at the headers of batches."""

    def take(self, batch: Any) -> None: ...  # noqa: ANN401 -- kafka-python ships no types


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
    by_leader: dict[int, list[TopicPartition]] = {}
    for place in sorted(starts):
        if (leader := metadata.leader(*place)) is not None:
            by_leader.setdefault(leader, []).append(place)
    most = max(map(len, by_leader.values()), default=0)
    for begin in range(0, most, PARTITIONS_PER_REQUEST):
        if deadline.over:
            break
        requests = {
            leader: fetch_request(
                {place: starts[place] for place in places[begin : begin + PARTITIONS_PER_REQUEST]},
                deadline,
                size,
                REQUEST_BYTES,
            )
            for leader, places in by_leader.items()
            if places[begin:]
        }
        for answer in client.ask(requests, deadline).values():
            if isinstance(answer, Fault):
                faults.append(answer)
            else:
                faults += _take(answer.responses, found, reader)
    return found, tuple(dict.fromkeys(faults))


def _take(
    responses: Iterable[Any], found: dict[TopicPartition, Reader], reader: Callable[[TopicPartition], Reader]
) -> list[Fault]:
    faults = []
    for topic in responses:
        for part in topic.partitions:
            if part.error_code:
                faults.append(refusal(f"Fetch of {topic.topic}", part.error_code, f"READ on Topic:{topic.topic}"))
                continue
            place = TopicPartition(topic.topic, part.partition_index)
            batch_reader, some = reader(place), False
            try:
                for batch in batches(bytes(part.records or b"")):
                    batch_reader.take(batch)
                    some = True
            except UNREADABLE:
                some = False
            if some:
                found[place] = batch_reader
            else:  # remote storage is late, a quota is used up, or the first batch is larger
                text = f"Fetch of {topic.topic}: of some partitions no batch came that could be read"
                faults.append(Fault(Reason.TIMEOUT, text))
    return faults
