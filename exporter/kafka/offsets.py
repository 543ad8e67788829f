"""End offsets of partitions: the high watermark and the last stable offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import chain

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from exporter.kafka.answers import Answers
from exporter.kafka.faults import LEADER_MOVED
from exporter.kafka.metadata import Metadata
from exporter.kafka.routing import Cluster, Item, Question, ask_leaders
from exporter.model import Deadline, TopicPartition

LATEST = -1
CONSUMER = -1
PARTITIONS_PER_REQUEST = 100_000


class Isolation(IntEnum):
    """IsolationLevel.java: what the end of a partition means to a consumer."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def end_offsets(
    client: Cluster, metadata: Metadata, partitions: Iterable[TopicPartition], isolation: Isolation, deadline: Deadline
) -> Answers[TopicPartition, int]:
    """The high watermark (READ_UNCOMMITTED) or the last stable offset (READ_COMMITTED) of each partition.

    ListOffsets for timestamp -1, one request per leader; Partition.scala fetchOffsetForTimestamp gives the last stable
    offset for READ_COMMITTED. Whoever wants the lag asks READ_COMMITTED first: the high watermark, read later, can then
    only be too high, and the lag only overstated.
    """

    def request(batch: Sequence[TopicPartition]) -> ListOffsetsRequest:
        topics: dict[str, list[int]] = {}
        for topic, partition in batch:
            topics.setdefault(topic, []).append(partition)
        kind = ListOffsetsRequest.ListOffsetsTopic
        # One entry serves the partitions of this number in all topics: making thousands of them is most of the work.
        entries = {
            index: kind.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=LATEST)
            for index in set(chain.from_iterable(topics.values()))
        }
        return ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=int(isolation),
            topics=[
                kind(
                    name=topic,
                    partitions=[entries[index] for index in indexes],
                )
                for topic, indexes in topics.items()
            ],
            timeout_ms=int(deadline.remaining() * 1000),
        )

    question: Question[TopicPartition, int] = Question(
        "ListOffsets", "partitions", lambda key: key, request, _read, PARTITIONS_PER_REQUEST, LEADER_MOVED
    )
    return ask_leaders(client, metadata, question, partitions, deadline)


def _read(response: ListOffsetsResponse) -> Iterator[Item[TopicPartition, int]]:
    for topic in response.topics:
        name = topic.name
        for partition in topic.partitions:
            key = TopicPartition(name, partition.partition_index)
            code = partition.error_code
            # Error UNKNOWN_SERVER_ERROR stands for an answer without an error and without an offset.
            if not code and partition.offset < 0:
                code = -1
            yield Item(key, code, None if code else partition.offset, f"DESCRIBE on Topic:{name}" if code else "")
