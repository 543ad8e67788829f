"""Batches of ``__consumer_offsets``: which groups committed, in a transaction or not, and what is no commit."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from exporter.kafka.log.batches import batches
from exporter.kafka.log.offset_commits import OffsetCommits, commits_of, decode_commit_key, read_commits
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.model import Deadline, Fault, Reason, TopicPartition

PLACE, END = TopicPartition("__consumer_offsets", 0), 10
VALUE = struct.pack(">hqh", 1, 12, -1)
LED = {0: PartitionMetadata(1, (1,), (1,))}
METADATA = Metadata("c", {1: "k1:9092"}, {"__consumer_offsets": LED}, frozenset(), {}, {})


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def key(group: str, topic: str, partition: int = 0, version: int = 1) -> bytes:
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def batch(*records: tuple[bytes, bytes | None], transactional: bool = False, base: int = 0) -> bytes:
    made = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=7 if transactional else -1,
        producer_epoch=0 if transactional else -1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number, (its_key, value) in enumerate(records):
        made.append(number, timestamp=1000, key=its_key, value=value, headers=[])
    data = bytearray(made.build())
    data[0:8] = struct.pack(">q", base)
    return bytes(data)


def read(data: bytes) -> list[OffsetCommits]:
    (found,) = batches(data)
    return list(commits_of(found))


def test_commits_are_counted_by_group_and_topic_with_the_kind_of_their_batch() -> None:
    records = [(key("pay", "orders", number), VALUE) for number in range(3)] + [(key("pay", "refunds"), VALUE)]
    for transactional, producer_id in ((True, 7), (False, -1)):
        assert read(batch(*records, transactional=transactional)) == [
            OffsetCommits("pay", "orders", transactional, 3, 1000, producer_id, ((0, 12), (1, 12), (2, 12)), 0),
            OffsetCommits("pay", "refunds", transactional, 1, 1000, producer_id, ((0, 12),), 0),
        ]


def test_deletions_and_the_groups_own_records_are_no_commits() -> None:
    found = read(batch((key("pay", "orders", 4), None), (struct.pack(">h", 2) + text("pay"), VALUE)))
    assert found == []


def test_a_marker_is_no_commit() -> None:
    data = bytearray(batch((struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 5)), transactional=True))
    data[22] |= 0x20  # a control batch
    assert read(bytes(data)) == []


@pytest.mark.parametrize("broken", [b"", b"\0", b"\0\1", key("pay", "orders")[:8], b"\0\1\x7f\xff", b"\0\1\xff\xff"])
def test_a_key_that_ends_early_is_refused(broken: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        decode_commit_key(broken)


class FetchClient:
    """Answers each Fetch with the next of these."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def metadata(self, *_: object) -> Metadata:
        return METADATA

    def ask(self, requests: Any, _: Deadline) -> dict[int, Any]:
        return dict.fromkeys(requests, self.answers.pop(0))


def answer(records: bytes, code: int = 0) -> Any:
    part = SimpleNamespace(partition_index=0, error_code=code, records=records, high_watermark=10)
    return SimpleNamespace(responses=[SimpleNamespace(topic="__consumer_offsets", partitions=[part])])


class CommitsRead:
    """What is read of partition 0, from an offset to ``END``."""

    def __init__(self, client: FetchClient, at: int = 0, deadline: Deadline | None = None) -> None:
        positions, self.faults = {PLACE: at}, list[Fault]()
        until = deadline or Deadline.after(5)
        self.commits = list(read_commits(client, METADATA, positions, {PLACE: END}, self.faults, until))
        self.position = positions[PLACE]


def test_reading_goes_on_to_the_end_and_counts_nothing_twice() -> None:
    first = batch((key("pay", "orders"), VALUE), base=0)
    second = batch((key("pay", "orders"), VALUE), base=9, transactional=True)
    read = CommitsRead(FetchClient(answer(first), answer(first + second)))
    assert [commits.transactional for commits in read.commits] == [False, True]
    assert (read.position, read.faults) == (10, [])


def test_a_refusal_names_the_grant() -> None:
    read = CommitsRead(FetchClient(answer(b"", 29)), 3)
    assert read.commits == []
    assert "grant READ on Topic:__consumer_offsets" in read.faults[0].detail


def test_what_retention_took_is_a_fault() -> None:
    read = CommitsRead(FetchClient(answer(b"", 1)), 3)
    assert [fault.reason for fault in read.faults] == [Reason.LOST]
    assert "__consumer_offsets-0 does not have offset 3 any more" in read.faults[0].detail


def test_bytes_that_are_no_batch_are_a_fault_and_end_the_reading_of_the_partition() -> None:
    read = CommitsRead(FetchClient(answer(b"\xff" * 100)))
    assert "cannot be read" in read.faults[0].detail
    assert read.position == 10


def test_a_batch_that_cannot_be_read_costs_that_batch_and_one_fault() -> None:
    good = batch((key("pay", "orders"), VALUE), base=9)
    broken = [batch((b"\0", VALUE), base=at) for at in (4, 5)]
    read = CommitsRead(FetchClient(answer(b"".join([*broken, good]))))
    assert [commits[0] for commits in read.commits] == ["pay"]
    assert [fault.detail.split(" a batch")[0] for fault in read.faults] == ["__consumer_offsets-0 at 4:"]
    assert read.position == 10


def test_what_the_deadline_leaves_is_a_fault() -> None:
    times = iter([0.0, 0.0, 0.0, 0.0, 10.0])
    data = b"".join(batch((key("pay", "orders"), VALUE), base=at) for at in (8, 9))
    read = CommitsRead(FetchClient(answer(data)), deadline=Deadline(5.0, lambda: next(times, 10.0)))
    assert (len(read.commits), read.position) == (1, 9)
    assert [fault.reason for fault in read.faults] == [Reason.TIMEOUT]


def test_a_partition_that_was_left_out_of_a_full_answer_is_not_passed_over() -> None:
    read = CommitsRead(FetchClient(answer(b"")))
    assert (read.commits, read.position) == ([], 0)
    assert [fault.reason for fault in read.faults] == [Reason.TIMEOUT]
