"""End offsets of partitions: the high watermark and the last stable offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from exporter.kafka.answers import Answers
from exporter.kafka.faults import LEADER_MOVED
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.routing import Cluster, Item, Question, ask_leaders
from exporter.model import Deadline, Fault, Reason, TopicPartition

LATEST = -1
CONSUMER = -1
PARTITIONS_PER_REQUEST = 100_000


class Isolation(IntEnum):
    """IsolationLevel.java: what the end of a partition means to a consumer."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Ends(NamedTuple):
    """Both ends of partitions: ``stable`` has every partition of ``high``. A topic that was deleted is no fault."""

    stable: Mapping[TopicPartition, int]
    high: Mapping[TopicPartition, int]
    faults: tuple[Fault, ...]
    gone: frozenset[TopicPartition]


def both_ends(client: Cluster, metadata: Metadata, partitions: Iterable[TopicPartition], deadline: Deadline) -> Ends:
    """The last stable offset of each partition, and after it the high watermark.

    In this order what moves in between makes the high watermark too high: a lag can only be overstated.
    """
    stable = end_offsets(client, metadata, partitions, Isolation.READ_COMMITTED, deadline)
    high = end_offsets(client, metadata, stable.values, Isolation.READ_UNCOMMITTED, deadline)
    unanswered = (*stable.unanswered.items(), *high.unanswered.items())
    return Ends(
        stable.values,
        high.values,
        tuple(
            dict.fromkeys(each for each in (*stable.faults, *high.faults) if each.reason is not Reason.UNKNOWN_TOPIC)
        ),
        frozenset(partition for partition, fault in unanswered if fault.reason is Reason.UNKNOWN_TOPIC),
    )


def end_offsets(
    client: Cluster, metadata: Metadata, partitions: Iterable[TopicPartition], isolation: Isolation, deadline: Deadline
) -> Answers[TopicPartition, int]:
    """The high watermark (READ_UNCOMMITTED) or the last stable offset (READ_COMMITTED) of each partition.

    ListOffsets for timestamp -1, one request per leader; Partition.scala fetchOffsetForTimestamp gives the last stable
    offset for READ_COMMITTED.
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
