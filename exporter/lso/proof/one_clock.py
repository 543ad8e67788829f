"""Whether one broker wrote a marker and decided it: then their times are by one clock."""

from __future__ import annotations

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.log.batches import Marker
from exporter.kafka.log.record_batch import batch_at
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation
from exporter.model import Deadline, Fault, TopicPartition


def is_one_clock(
    client: BrokerAccess, metadata: Metadata, place: TopicPartition, marker: Marker, number: int, deadline: Deadline
) -> bool:
    """Return whether the leader of the marker's partition leads partition ``number`` of the log, and both have their
    leader epochs of when the marker was written. False where that cannot be read.
    """
    log = TopicPartition(TRANSACTION_STATE, number)
    leader = metadata.leader(*place)
    if leader is None or leader != metadata.leader(*log) or marker.coordinator_epoch != metadata.leader_epoch(log):
        return False
    at = batch_at(client, metadata, place, marker.offset, Isolation.READ_UNCOMMITTED, deadline)
    if isinstance(at, Fault) or at.batch is None:
        return False
    return at.batch.leader_epoch == metadata.leader_epoch(place)
