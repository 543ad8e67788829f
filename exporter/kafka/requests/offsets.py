"""Offsets of partitions: both ends, the start, where an instant is, and where a leader epoch ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple

from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

from exporter.kafka.ask import Answers, BrokerAccess, Item, Question, ask_leaders
from exporter.kafka.requests.bulk_offsets import Offsets, offsets_request
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, Reason, TopicPartition

LATEST = -1
EARLIEST = -2
NEWEST = -3
"""The record with the largest timestamp (KIP-734, Kafka 3.0)."""
EARLIEST_LOCAL = -4
"""The first record on the leader's own disk (KIP-405). Brokers before Kafka 3.6 take it for an early instant."""
NONE_LATER = -1
"""ListOffsets' answer for an instant after which there is no record."""
UNKNOWN_SERVER_ERROR = -1
CONSUMER = -1
DEBUGGING_CONSUMER = -2
PARTITIONS_PER_REQUEST = 10_000
"""An answer about so many takes some 300 kB. More are asked for one request after another."""


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


def both_ends(
    client: BrokerAccess, metadata: Metadata, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Ends:
    """The last stable offset of each partition, and after it the high watermark.

    In this order, a change in between makes the high watermark too high: a lag can only be overstated.
    """
    stable = end_offsets(client, metadata, partitions, Isolation.READ_COMMITTED, deadline)
    high = end_offsets(client, metadata, stable.values, Isolation.READ_UNCOMMITTED, deadline)
    return ends_of(stable.values, high.values, (stable, high))


def ends_of(
    stable: Mapping[TopicPartition, int],
    high: Mapping[TopicPartition, int],
    answers: Sequence[Answers[TopicPartition, int]],
) -> Ends:
    """Both ends, with the faults of the answers that they are from."""
    told = [(partition, fault) for answer in answers for partition, fault in answer.unanswered.items()]
    return Ends(
        stable,
        high,
        tuple(
            dict.fromkeys(
                fault for answer in answers for fault in answer.faults if fault.reason is not Reason.UNKNOWN_TOPIC
            )
        ),
        frozenset(partition for partition, fault in told if fault.reason is Reason.UNKNOWN_TOPIC),
    )


def end_offsets(
    client: BrokerAccess,
    metadata: Metadata,
    partitions: Iterable[TopicPartition],
    isolation: Isolation,
    deadline: Deadline,
) -> Answers[TopicPartition, int]:
    """The high watermark (READ_UNCOMMITTED) or the last stable offset (READ_COMMITTED) of each partition.

    ListOffsets for timestamp -1: Partition.scala fetchOffsetForTimestamp gives the last stable offset for
    READ_COMMITTED. An answer without an error and without an offset counts as UNKNOWN_SERVER_ERROR.
    """
    asked = dict.fromkeys(partitions, LATEST)
    return list_offsets(client, metadata, asked, deadline, isolation, absent=UNKNOWN_SERVER_ERROR)


def log_end_offsets(
    client: BrokerAccess, metadata: Metadata, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Answers[TopicPartition, int]:
    """The log end offset of each partition: after the last record that its leader has, replicated or not.

    ListOffsets of replica id -2, the debugging consumer, for which Partition.scala fetchOffsetForTimestamp answers the
    log end and not the high watermark (seen on 3.9.2 and 4.3.1 while a follower was paused).
    """
    asked = dict.fromkeys(partitions, LATEST)
    return list_offsets(client, metadata, asked, deadline, absent=UNKNOWN_SERVER_ERROR, replica=DEBUGGING_CONSUMER)


def start_offsets(
    client: BrokerAccess, metadata: Metadata, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Answers[TopicPartition, int]:
    """The log start offsets. Retention or DeleteRecords deleted the records before them."""
    return list_offsets(client, metadata, dict.fromkeys(partitions, EARLIEST), deadline)


def local_start_offsets(
    client: BrokerAccess, metadata: Metadata, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Answers[TopicPartition, int]:
    """The offsets below which only remote storage has records: the log start of a topic without."""
    return list_offsets(client, metadata, dict.fromkeys(partitions, EARLIEST_LOCAL), deadline)


def newest_timestamps(
    client: BrokerAccess, metadata: Metadata, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Answers[TopicPartition, int]:
    """The largest timestamp of a record, Unix milliseconds; -1 for a partition without one."""
    return list_offsets(client, metadata, dict.fromkeys(partitions, NEWEST), deadline, give=_timestamp)


def offsets_at(
    client: BrokerAccess, metadata: Metadata, instants: Mapping[TopicPartition, int], deadline: Deadline
) -> Answers[TopicPartition, int]:
    """The first offset at or after an instant (Unix milliseconds) in each partition; NONE_LATER where there is none.

    A broker looks in the first segment whose largest timestamp is not before the instant, and answers NONE_LATER where
    that has no such record. One that compaction emptied counts with the time at which it was last written
    (LogSegment.largestTimestamp), although later segments have such records: then it is the start of the log.
    """
    found = list_offsets(client, metadata, instants, deadline)
    none = [place for place, offset in found.values.items() if offset == NONE_LATER]
    if not none:
        return found
    newest = newest_timestamps(client, metadata, none, deadline).values
    mistaken = [place for place in none if newest.get(place, instants[place]) >= instants[place]]
    starts = start_offsets(client, metadata, mistaken, deadline)
    values = {place: offset for place, offset in found.values.items() if place not in starts.unanswered}
    return replace(
        found,
        values=values | starts.values,
        unanswered=found.unanswered | starts.unanswered,
        faults=tuple(dict.fromkeys((*found.faults, *starts.faults))),
    )


def _offset(answer: Any) -> int:  # noqa: ANN401 - kafka-python's class has no fields for mypy
    return int(answer.offset)


def _timestamp(answer: Any) -> int:  # noqa: ANN401 - as above
    return int(answer.timestamp)


def list_offsets(
    client: BrokerAccess,
    metadata: Metadata,
    timestamps: Mapping[TopicPartition, int],
    deadline: Deadline,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    *,
    absent: int = 0,
    replica: int = CONSUMER,
    give: Callable[[Any], int] = _offset,
) -> Answers[TopicPartition, int]:
    """ListOffsets: the offset of a timestamp (Unix milliseconds, or LATEST, EARLIEST, NEWEST) in each partition.

    Or what ``give`` takes from an answer.

    The first offset at or after an instant is that of the first *batch entry* whose timestamp is, in the log's order
    (UnifiedLog.fetchOffsetByTimestamp): with timestamps out of order, records before it may be newer. An
    offset of NONE_LATER, where there is no such record, is given as a value, or refused with the code ``absent``.

    Each leader is asked with the leader epoch of ``metadata``: a broker in another one answers FENCED_LEADER_EPOCH or
    UNKNOWN_LEADER_EPOCH (Partition.scala checkCurrentLeaderEpoch) and does not answer from the log of an earlier
    leadership.
    """

    def request(batch: Sequence[TopicPartition], routes: Metadata) -> ListOffsetsRequest:
        timeout_ms = int(deadline.remaining() * 1000)
        made = offsets_request(batch, routes, timestamps, int(isolation), replica, timeout_ms)
        return made if give is _offset else made.plain()

    question: Question[TopicPartition, int] = Question(
        "ListOffsets",
        "partitions",
        request,
        lambda response: _read(response, absent, give),
        PARTITIONS_PER_REQUEST,
        bulk=lambda response: _all_answered(response, absent, give),
    )
    return ask_leaders(client, metadata, question, timestamps, deadline)


def _all_answered(
    response: ListOffsetsResponse | Offsets, absent: int, give: Callable[[Any], int]
) -> dict[TopicPartition, int] | None:
    """The offsets, where each partition has one; None where something has to be looked at one by one."""
    if not isinstance(response, Offsets) or give is not _offset:
        return None
    if not response.refused:
        return response.offsets
    if absent or any(refusal.code for refusal in response.refused):
        return None
    return response.offsets | {refusal.partition: refusal.offset for refusal in response.refused}


def _read(
    response: ListOffsetsResponse | Offsets, absent: int, give: Callable[[Any], int]
) -> Iterator[Item[TopicPartition, int]]:
    if isinstance(response, Offsets):
        for key, offset in response.offsets.items():
            yield Item(key, 0, offset)
        for key, said, offset in response.refused:
            code = said or absent
            yield Item(key, code, None if code else offset, f"DESCRIBE on Topic:{key.topic}" if code else "")
        return
    for topic in response.topics:
        name = topic.name
        for partition in topic.partitions:
            key = TopicPartition(name, partition.partition_index)
            code = partition.error_code or (absent if partition.offset < 0 else 0)
            yield Item(key, code, None if code else give(partition), f"DESCRIBE on Topic:{name}" if code else "")


# --- Leader epochs ---


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
        "OffsetForLeaderEpoch", "partitions", request, _read_epochs, PARTITIONS_PER_REQUEST
    )
    return ask_leaders(client, metadata, question, epochs, deadline)


def _read_epochs(response: OffsetForLeaderEpochResponse) -> Iterator[Item[TopicPartition, EpochEnd]]:
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.topic, partition.partition)
            end = None if partition.error_code else EpochEnd(partition.leader_epoch, partition.end_offset)
            yield Item(
                key, partition.error_code, end, f"DESCRIBE on Topic:{topic.topic}" if partition.error_code else ""
            )
