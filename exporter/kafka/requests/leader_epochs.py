"""Where a leader epoch ends in a log (KIP-320): how far two logs of one partition agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from exporter.kafka.answers import Answers
from exporter.kafka.faults import LEADER_MOVED
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import CONSUMER
from exporter.kafka.requests.routing import BrokerAccess, Item, Question, ask_leaders
from exporter.model import Deadline, TopicPartition

PARTITIONS_PER_REQUEST = 10_000


class EpochEnd(NamedTuple):
    """The largest epoch that is not above the one asked for, and the offset at which it ends; -1, -1 without one."""

    epoch: int
    offset: int


def epoch_ends(
    client: BrokerAccess, metadata: Metadata, epochs: Mapping[TopicPartition, int], deadline: Deadline
) -> Answers[TopicPartition, EpochEnd]:
    """OffsetForLeaderEpoch: where the epoch of each partition ends in its leader's log.

    A position in that epoch beyond this offset is of records that the log lost (an unclean election). Each leader is
    asked with the leader epoch of ``metadata``, so that a broker which is not the leader any more refuses.
    """

    def request(batch: Sequence[TopicPartition], routes: Metadata) -> OffsetForLeaderEpochRequest:
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        by_topic: dict[str, list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition]] = {}
        for partition in batch:
            by_topic.setdefault(partition.topic, []).append(
                topic.OffsetForLeaderPartition(
                    partition=partition.partition,
                    current_leader_epoch=routes.leader_epoch(partition),
                    leader_epoch=epochs[partition],
                )
            )
        return OffsetForLeaderEpochRequest(
            replica_id=CONSUMER, topics=[topic(topic=name, partitions=found) for name, found in by_topic.items()]
        )

    question: Question[TopicPartition, EpochEnd] = Question(
        "OffsetForLeaderEpoch", "partitions", lambda key: key, request, _read, PARTITIONS_PER_REQUEST, LEADER_MOVED
    )
    return ask_leaders(client, metadata, question, epochs, deadline)


def _read(response: OffsetForLeaderEpochResponse) -> Iterator[Item[TopicPartition, EpochEnd]]:
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.topic, partition.partition)
            end = None if partition.error_code else EpochEnd(partition.leader_epoch, partition.end_offset)
            yield Item(
                key, partition.error_code, end, f"DESCRIBE on Topic:{topic.topic}" if partition.error_code else ""
            )
