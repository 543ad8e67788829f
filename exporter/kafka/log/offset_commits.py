"""Offset commits in the records of ``__consumer_offsets``: by group and topic, in a transaction or outside of any.

A commit by ``sendOffsetsToTransaction`` (TxnOffsetCommit) is a batch with the transactional bit and a producer id, any
other commit is not (GroupCoordinator, KIP-98). Batches are read by Fetch, as librdkafka does not show these bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka.protocol.consumer import FetchRequest
from kafka.record.default_records import DefaultRecordBatch

from exporter.bounds.text import cut
from exporter.kafka.ask import BrokerAccess
from exporter.kafka.faults import refusal
from exporter.kafka.log.batches import UNREADABLE, batches, fetch_request, records_of
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition

NEWEST = 5_000
"""Offsets before the end of a partition from which the newest commits are read."""
PARTITION_BYTES = 1 << 20
REQUEST_BYTES = 8 << 20
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
    reader = CommitReader()
    reader.positions = {
        place.partition: max(start, ends.values[place] - newest) for place, start in starts.values.items()
    }
    wanted = {place.partition: end for place, end in ends.values.items() if place in starts.values}
    yield from reader.read(client, metadata, wanted, deadline)
    faults += dict.fromkeys((*ends.faults, *starts.faults, *reader.faults))
    if not reader.faults and any(reader.positions[number] < end for number, end in wanted.items()):
        faults.append(Fault(Reason.TIMEOUT, "not all of the newest commits were read in time"))


class CommitReader:
    """Reads every partition of ``__consumer_offsets`` from its last position. Not thread-safe."""

    def __init__(self) -> None:
        self.positions: dict[int, int] = {}
        self.faults: list[Fault] = []
        self._broken: set[int] = set()

    def read(
        self, client: BrokerAccess, metadata: Metadata, ends: Mapping[int, int], deadline: Deadline
    ) -> Iterator[OffsetCommits]:
        """Yield what was committed up to these ends, in the order of each partition. One without a position is left
        out.

        ``faults`` are those of this call, also offsets that were deleted before they were read.
        """
        self.faults = []
        self._broken = set()
        left = {number for number, end in ends.items() if self.positions.get(number, end) < end}
        while left and not deadline.over:
            by_leader: dict[int, dict[TopicPartition, int]] = {}
            for number in sorted(left):
                leader = metadata.leader(CONSUMER_OFFSETS, number)
                if leader is None:
                    self.faults.append(Fault(Reason.NO_LEADER, f"{CONSUMER_OFFSETS}-{number} has no leader"))
                    left.discard(number)
                else:
                    place = TopicPartition(CONSUMER_OFFSETS, number)
                    by_leader.setdefault(leader, {})[place] = self.positions[number]
            requests = {
                leader: fetch_request(places, deadline, PARTITION_BYTES, REQUEST_BYTES)
                for leader, places in by_leader.items()
            }
            before = dict(self.positions)
            yield from self._ask(client, requests, ends, left, deadline)
            left = {number for number in left if self.positions[number] < ends[number]}
            if before == self.positions:
                break

    def _ask(
        self,
        client: BrokerAccess,
        requests: Mapping[int, FetchRequest],
        ends: Mapping[int, int],
        left: set[int],
        deadline: Deadline,
    ) -> Iterator[OffsetCommits]:
        for answer in client.ask(requests, deadline).values():
            if isinstance(answer, Fault):
                self.faults.append(answer)
                continue
            for partition in (part for topic in answer.responses for part in topic.partitions):
                number = partition.partition_index
                if number not in left:
                    continue
                if partition.error_code == OFFSET_OUT_OF_RANGE:
                    place = f"{CONSUMER_OFFSETS}-{number}"
                    what = f"{place} does not have offset {self.positions[number]} any more"
                    self.faults.append(Fault(Reason.LOST, f"{what}: commits before {ends[number]} are not counted"))
                    self.positions[number] = ends[number]
                elif partition.error_code:
                    what = f"Fetch of {CONSUMER_OFFSETS}-{number}"
                    self.faults.append(refusal(what, partition.error_code, f"READ on Topic:{CONSUMER_OFFSETS}"))
                    left.discard(number)
                else:
                    yield from self._take(number, bytes(partition.records or b""), ends[number], deadline)

    def _take(self, number: int, data: bytes, end: int, deadline: Deadline) -> Iterator[OffsetCommits]:
        if not data:  # the answer was full before this partition's turn
            return
        try:
            for batch in batches(data):
                if deadline.over:  # the rest is read next time
                    return
                if batch.last_offset >= self.positions[number]:
                    found = self._commits(number, batch)
                    self.positions[number] = batch.last_offset + 1
                    yield from found
        except UNREADABLE as error:  # where the next batch begins is unknown
            self._unreadable(number, self.positions[number], error)
            self.positions[number] = end

    def _commits(self, number: int, batch: DefaultRecordBatch) -> list[OffsetCommits]:
        """The commits of a batch; none, and a fault, for one that cannot be read."""
        try:
            return list(commits_of(batch))
        except UNREADABLE as error:
            self._unreadable(number, max(self.positions[number], batch.base_offset), error)
            return []

    def _unreadable(self, number: int, offset: int, error: Exception) -> None:
        """One fault for each partition in each read."""
        if number not in self._broken:
            self._broken.add(number)
            what = f"{CONSUMER_OFFSETS}-{number} at {offset}: a batch that cannot be read: {cut(str(error), 100)}"
            self.faults.append(Fault(Reason.MALFORMED, what))


def commits_of(batch: DefaultRecordBatch) -> Iterator[OffsetCommits]:
    """The commits in a batch, by group and topic; not the groups' own records."""
    if batch.is_control_batch:
        return
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for record in records_of(batch):
        if record.key and record.value is not None and (place := decode_commit_key(record.key)) is not None:
            found.setdefault(place[:2], []).append((place[2], _COMMIT.unpack_from(record.value)[1]))
    for (group, topic), positions in found.items():
        yield OffsetCommits(
            group,
            topic,
            batch.is_transactional,
            len(positions),
            batch.max_timestamp,
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
