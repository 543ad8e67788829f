"""Fetch: of partitions at all their leaders, or of one partition, and what an answer without records means.

A broker answers without records and without an error also where it has some: when a quota throttles the client, it
leaves the partition out (KIP-219), and when remote storage (KIP-405) does not give them within
``remote.fetch.max.wait.ms``, or its own quota is used up (KIP-956), it gives none (DelayedRemoteFetch).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kafka.protocol.consumer import FetchRequest

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.faults import refusal
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import CONSUMER, Isolation, local_start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition

REQUEST_BYTES = 8 << 20
"""Most bytes of one answer."""
MOST_TRIES = 4
"""Requests for one offset: remote storage that was too slow often has the records ready for the next."""


def fetch_each(
    client: BrokerAccess,
    metadata: Metadata,
    starts: Mapping[TopicPartition, int],
    size: int,
    isolation: Isolation,
    deadline: Deadline,
) -> Iterator[tuple[TopicPartition, Any] | Fault]:
    """Yield ``size`` bytes of each partition from its offset, or one batch, as kafka-python's part of the answer, which
    may have an error code; or why a broker did not answer.

    All leaders are asked at the same time, again and again until each was asked for all: ``REQUEST_BYTES`` at once.
    Partitions without a leader are left out, as is what the deadline leaves.
    """
    by_leader: dict[int, list[TopicPartition]] = {}
    for place in starts:
        if (leader := metadata.leader(*place)) is not None:
            by_leader.setdefault(leader, []).append(place)
    at_once = max(1, REQUEST_BYTES // size)
    for begin in range(0, max(map(len, by_leader.values()), default=0), at_once):
        if deadline.over:
            return
        requests = {
            leader: fetch_request({place: starts[place] for place in batch}, deadline, size, REQUEST_BYTES, isolation)
            for leader, places in by_leader.items()
            if (batch := places[begin : begin + at_once])
        }
        for answer in client.ask(requests, deadline).values():
            if isinstance(answer, Fault):
                yield answer
                continue
            for topic in answer.responses:
                for part in topic.partitions:
                    yield TopicPartition(topic.topic, part.partition_index), part


def fetch_partition(
    client: BrokerAccess,
    metadata: Metadata,
    place: TopicPartition,
    offset: int,
    size: int,
    isolation: Isolation,
    deadline: Deadline,
) -> Any | Fault:  # noqa: ANN401 -- kafka-python ships no types
    """The partition of the leader's answer: ``size`` bytes or one batch from an offset on, or no records where the log
    has none from there to its end.
    """
    leader = metadata.leader(*place)
    if leader is None:
        return Fault(Reason.NO_LEADER, f"{place} at {offset}: no leader")
    for _ in range(MOST_TRIES):
        if deadline.over:
            return Fault(Reason.TIMEOUT, f"{place} at {offset}: not read in time")
        request = fetch_request({place: offset}, deadline, size, size, isolation)
        answer = client.ask({leader: request}, deadline)[leader]
        if isinstance(answer, Fault):
            return answer
        for part in (part for topic in answer.responses for part in topic.partitions):
            if part.error_code:
                return refusal(f"Fetch of {place}", part.error_code, f"READ on Topic:{place.topic}")
            if part.records or offset >= part.high_watermark:
                return part
            local = local_start_offsets(client, metadata, [place], deadline)
            if local.faults:
                return local.faults[0]
            if offset >= local.values.get(place, offset):
                return part
    text = f"{place} at {offset}: no records came: remote storage is slower than remote.fetch.max.wait.ms, or a quota"
    return Fault(Reason.TIMEOUT, text)


def fetch_request(
    positions: Mapping[TopicPartition, int],
    deadline: Deadline,
    size: int,
    most: int,
    isolation: Isolation,
) -> FetchRequest:
    """Fetch of partitions, each from its offset: ``size`` bytes of each or one batch, ``most`` in all."""
    kind: Any = FetchRequest.FetchTopic
    topics: defaultdict[str, list[Any]] = defaultdict(list)
    for (topic, partition), offset in positions.items():
        topics[topic].append(
            kind.FetchPartition(
                partition=partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=size,
            )
        )
    return FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=min(500, int(deadline.remaining() * 1000)),
        min_bytes=1,
        max_bytes=most,
        isolation_level=int(isolation),
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        forgotten_topics_data=[],
        rack_id="",
        # Version 13 and later name topics by id; the highest before it serves every broker since 2.7.
        max_version=12,
    )
