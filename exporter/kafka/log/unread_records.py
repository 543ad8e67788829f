"""How many records lie between a read_committed group's commit and the last stable offset, by the headers of batches.

Control records and aborted batches have offsets and are no records for such a group (FetchResponse's list of aborted
transactions, as the Java consumer uses it in CompletedFetch). Records stay compressed, and none is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

from exporter.kafka.faults import TOPIC_AUTHORIZATION_FAILED
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import CONSUMER, Isolation
from exporter.kafka.requests.routing import BrokerAccess
from exporter.model import Deadline, Fault, TopicPartition

MOST_OFFSETS = 100
"""The longest piece that is looked at."""
PARTITION_BYTES = 64 * 1024
MOST_PIECES = 200
"""Pieces of one call; with ``PARTITION_BYTES`` what one call reads at most, about 12 MB."""


class UnreadSpan(NamedTuple):
    """Offsets of a partition: ``start`` is the first, ``end`` the first not to look at."""

    partition: TopicPartition
    start: int
    end: int


class Unread(NamedTuple):
    """How many records the pieces have, as far as they could be read, and the topics that may not be read."""

    counts: Mapping[UnreadSpan, int]
    refused: frozenset[str] = frozenset()


def count_unread(client: BrokerAccess, metadata: Metadata, pieces: Iterable[UnreadSpan], deadline: Deadline) -> Unread:
    """Count the records of pieces that are short; one Fetch for each leader. A piece without an answer is left out."""
    by_leader: dict[int, list[UnreadSpan]] = {}
    for piece in sorted(set(pieces))[:MOST_PIECES]:
        leader = metadata.leader(*piece.partition)
        if leader is not None and 0 < piece.end - piece.start <= MOST_OFFSETS:
            by_leader.setdefault(leader, []).append(piece)
    counts: dict[UnreadSpan, int] = {}
    refused: set[str] = set()
    # Of two pieces of one partition the one that starts first is asked for: it covers the other.
    requests = {leader: _request(_earliest(mine), deadline) for leader, mine in by_leader.items()}
    for leader, response in client.ask(requests, deadline).items() if requests else ():
        if isinstance(response, Fault) or response.error_code:
            continue
        for topic in response.responses:
            for part in topic.partitions:
                if part.error_code == TOPIC_AUTHORIZATION_FAILED:
                    refused.add(topic.topic)
                if part.error_code or not part.records:
                    continue
                aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
                place = TopicPartition(topic.topic, part.partition_index)
                for piece in (each for each in by_leader[leader] if each.partition == place):
                    count = count_records(part.records, aborted, piece.start, piece.end)
                    if count is not None:
                        counts[piece] = count
    return Unread(counts, frozenset(refused))


def count_records(data: bytes, aborted: Sequence[tuple[int, int]], start: int, end: int) -> int | None:
    """Records from ``start`` to before ``end`` that a read_committed consumer gets; None where the data ends before.

    ``aborted`` has producer id and first offset of aborted transactions. Of a batch that compaction thinned, offsets
    count, at most as many as it has records.
    """
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    active: set[int] = set()
    count, reached = 0, start
    try:
        records = MemoryRecords(data)
        while reached < end and (batch := records.next_batch()) is not None:
            last = batch.base_offset + batch.last_offset_delta
            while waiting and waiting[-1][1] <= last:
                active.add(waiting.pop()[0])
            if batch.is_control_batch:
                # The marker of an aborted transaction; a commit's producer is not among these.
                active.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in active):
                offsets = min(end - 1, last) - max(start, batch.base_offset) + 1
                count += max(0, min(offsets, batch.records_count))
            reached = max(reached, last + 1)
    except (CorruptRecordError, ValueError, IndexError):
        return None
    return count if reached >= end else None


def _earliest(pieces: Iterable[UnreadSpan]) -> list[UnreadSpan]:
    found: dict[TopicPartition, UnreadSpan] = {}
    for piece in pieces:
        found.setdefault(piece.partition, piece)  # sorted by their start
    return list(found.values())


def _request(pieces: Sequence[UnreadSpan], deadline: Deadline) -> FetchRequest:
    kind: Any = FetchRequest.FetchTopic
    topics: dict[str, list[Any]] = {}
    for piece in pieces:
        wanted = kind.FetchPartition(
            partition=piece.partition.partition,
            current_leader_epoch=-1,
            fetch_offset=piece.start,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=PARTITION_BYTES,
        )
        topics.setdefault(piece.partition.topic, []).append(wanted)
    return FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=min(500, int(deadline.remaining() * 1000)),
        min_bytes=1,
        max_bytes=PARTITION_BYTES * max(1, len(pieces)),
        isolation_level=int(Isolation.READ_COMMITTED),
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        forgotten_topics_data=[],
        rack_id="",
        # Version 13 and later name topics by id; the highest before it serves every broker since 2.7.
        max_version=12,
    )
