"""Offset commits in the records of ``__consumer_offsets``: by group and topic, in a transaction or outside of any.

A commit by ``sendOffsetsToTransaction`` (TxnOffsetCommit) is a batch with the transactional bit and a producer id, any
other commit is not (GroupCoordinator, KIP-98). Batches are read by Fetch, as librdkafka does not show these bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.bounds.text import cut
from exporter.kafka.ask import BrokerAccess
from exporter.kafka.faults import refusal
from exporter.kafka.log.batches import UNREADABLE, FetchedBatch, batches, records_of
from exporter.kafka.log.fetch import fetch_each
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition

NEWEST = 5_000
"""Offsets before the end of a partition from which the newest commits are read."""
PARTITION_BYTES = 1 << 20
OFFSET_OUT_OF_RANGE = 1
_VERSION = struct.Struct(">h")
_NUMBER = struct.Struct(">i")
_COMMIT = struct.Struct(">hq")
"""The version and the offset, first in every version of OffsetCommitValue."""
_LONGEST_NAME = 10_000


class OffsetCommits(NamedTuple):
    """The offset commits of one batch of one group and topic: how many ``records``, and when in Unix milliseconds.

    ``producer_id`` is -1 for a commit outside of a transaction. ``positions`` are partitions of the topic with their
    offsets; ``leader_epoch`` is that of the batch.
    """

    group: str
    topic: str
    transactional: bool
    records: int
    timestamp_ms: int
    producer_id: int = -1
    positions: tuple[tuple[int, int], ...] = ()
    leader_epoch: int = -1


def newest_commits(
    client: BrokerAccess,
    metadata: Metadata,
    numbers: Iterable[int],
    faults: list[Fault],
    deadline: Deadline,
    newest: int = NEWEST,
) -> Iterator[OffsetCommits]:
    """Yield the newest commits in these partitions of ``__consumer_offsets``: the last ``newest`` offsets of each.

    What could not be read is added to ``faults``, at the latest with the last commit. ``metadata`` has the topic.
    """
    places = [TopicPartition(CONSUMER_OFFSETS, number) for number in numbers]
    ends = end_offsets(client, metadata, places, Isolation.READ_UNCOMMITTED, deadline)
    starts = start_offsets(client, metadata, ends.values, deadline)
    positions = {place: max(start, ends.values[place] - newest) for place, start in starts.values.items()}
    found: list[Fault] = []
    yield from read_commits(client, metadata, positions, ends.values, found, deadline)
    faults += dict.fromkeys((*ends.faults, *starts.faults, *found))


def read_commits(
    client: BrokerAccess,
    metadata: Metadata,
    positions: dict[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    faults: list[Fault],
    deadline: Deadline,
) -> Iterator[OffsetCommits]:
    """Yield the commits from these positions, which move on, up to the ends, in the order of each partition."""
    unreadable: dict[TopicPartition, Fault] = {}
    left = {place for place, at in positions.items() if at < ends[place]}
    while left and not deadline.over:
        before = dict(positions)
        starts = {place: positions[place] for place in sorted(left)}
        for item in fetch_each(client, metadata, starts, PARTITION_BYTES, Isolation.READ_UNCOMMITTED, deadline):
            if isinstance(item, Fault):
                faults.append(item)
                continue
            place, part = item
            if part.error_code:
                faults.append(_refusal(place, part.error_code, positions[place]))
                left.discard(place)
            else:
                yield from _commits_in(place, bytes(part.records or b""), positions, ends[place], unreadable, deadline)
        left = {place for place in left if positions[place] < ends[place]}
        if before == positions:
            break
    faults += unreadable.values()
    if left and not faults:
        faults.append(Fault(Reason.TIMEOUT, "not all of the newest commits were read in time"))


def _refusal(place: TopicPartition, code: int, at: int) -> Fault:
    if code == OFFSET_OUT_OF_RANGE:
        return Fault(Reason.LOST, f"{place} does not have offset {at} any more: its newest commits are not counted")
    return refusal(f"Fetch of {place}", code, f"READ on Topic:{CONSUMER_OFFSETS}")


def _commits_in(
    place: TopicPartition,
    data: bytes,
    positions: dict[TopicPartition, int],
    end: int,
    unreadable: dict[TopicPartition, Fault],
    deadline: Deadline,
) -> Iterator[OffsetCommits]:
    """Yield the commits of a partition's answer; ``unreadable`` gets one fault of a partition."""
    try:
        for batch in batches(data):
            if deadline.over:
                return
            if batch.last_offset < positions[place]:
                continue
            at, positions[place] = max(positions[place], batch.base_offset), batch.last_offset + 1
            try:
                found = list(commits_of(batch))
            except UNREADABLE as error:
                unreadable.setdefault(place, _unreadable(place, at, error))
                continue
            yield from found
    except UNREADABLE as error:  # where the next batch begins is unknown
        unreadable.setdefault(place, _unreadable(place, positions[place], error))
        positions[place] = end


def _unreadable(place: TopicPartition, at: int, error: Exception) -> Fault:
    return Fault(Reason.MALFORMED, f"{place} at {at}: a batch that cannot be read: {cut(str(error), 100)}")


def commits_of(batch: FetchedBatch) -> Iterator[OffsetCommits]:
    """The commits in a batch, by group and topic; not the groups' own records."""
    if batch.control:
        return
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for record in records_of(batch):
        if record.key and record.value is not None and (place := decode_commit_key(record.key)) is not None:
            found.setdefault(place[:2], []).append((place[2], _COMMIT.unpack_from(record.value)[1]))
    for (group, topic), positions in found.items():
        yield OffsetCommits(
            group,
            topic,
            batch.transactional,
            len(positions),
            batch.max_ms,
            batch.producer_id,
            tuple(positions),
            batch.leader_epoch,
        )


def decode_commit_key(key: bytes) -> tuple[str, str, int] | None:
    """Group, topic and partition of an OffsetCommitKey (versions 0 and 1); None for another record of the topic.

    Raises ValueError or struct.error for a key that ends early.
    """
    if _VERSION.unpack_from(key)[0] not in {0, 1}:
        return None
    group, at = _text(key, _VERSION.size)
    topic, at = _text(key, at)
    return group, topic, _NUMBER.unpack_from(key, at)[0]


def _text(key: bytes, at: int) -> tuple[str, int]:
    size = _VERSION.unpack_from(key, at)[0]
    end = at + _VERSION.size + size
    if not 0 <= size <= _LONGEST_NAME or end > len(key):
        raise ValueError("a key that ends early")
    return key[at + _VERSION.size : end].decode(errors="replace"), end
