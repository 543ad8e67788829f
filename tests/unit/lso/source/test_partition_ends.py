"""Which ends of partitions are requested, and that none that is not can have changed what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Ends
from exporter.lso.readings import Reading
from exporter.lso.source.partition_ends import HIGH_SECONDS, PartitionEnds
from exporter.model import Deadline, Reason, TopicPartition
from tests.helpers.cluster import FakeKafka, Partition

COMMITTED, UNCOMMITTED = 1, 0
INTERVAL = 5.0


class EndsReads:
    """Reads of one topic at intervals; keeps what the tracker of stalls would."""

    def __init__(self, *partitions: Partition) -> None:
        self.world = FakeKafka(brokers={1: "k1:9092", 2: "k2:9092"}, topics={"orders": list(partitions)})
        self._ends = PartitionEnds(self.world.cluster().client)
        self.readings: dict[TopicPartition, Reading] = {}
        self.wanted = frozenset[TopicPartition]()  # of the last read
        self.metadata: Metadata = self.world.metadata(self.deadline)

    @property
    def deadline(self) -> Deadline:
        return Deadline.after(10, self.world.time.clock.monotonic)

    @property
    def partitions(self) -> Sequence[Partition]:
        return self.world.topics["orders"]

    def refresh(self) -> None:
        self.metadata = self.world.metadata(self.deadline)

    def read(self, after: float = INTERVAL) -> Ends:
        self.world.asked.clear()
        self.world.time.pass_(after)
        now = self.world.time.monotonic
        self.wanted = wanted = frozenset(TopicPartition("orders", number) for number in range(len(self.partitions)))
        standing = [partition for partition, reading in self.readings.items() if reading.lag]
        ends = self._ends.read(self.metadata, wanted, self.readings, standing, self.deadline, now)
        assert ends.high.keys() <= ends.stable.keys()
        for partition, high in ends.high.items():
            self.readings[partition] = Reading(ends.stable[partition], high)
        return ends

    def asked(self) -> list[tuple[int, list[int]]]:
        """Of each request the isolation level, and the partitions."""
        return [
            (
                request.isolation_level,
                sorted(partition.partition_index for topic in request.topics for partition in topic.partitions),
            )
            for _, name, request in self.world.asked
            if name == "ListOffsets"
        ]


def by_number(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {partition.partition: offset for partition, offset in offsets.items()}


def test_at_first_both_ends_are_read_and_then_the_one_that_shows_a_change() -> None:
    reads = EndsReads(Partition(high_watermark=20, stable=10), Partition(high_watermark=7))
    for _ in range(2):
        reads.read(HIGH_SECONDS)
    assert reads.asked() == [(COMMITTED, [0]), (UNCOMMITTED, [0, 1])]
    ends = reads.read()
    assert reads.asked() == [(COMMITTED, [0]), (UNCOMMITTED, [1])]
    assert (by_number(ends.stable), by_number(ends.high)) == ({0: 10, 1: 7}, {0: 20, 1: 7})


def test_the_partitions_of_the_result_are_those_of_the_request_and_are_not_in_memory_twice() -> None:
    reads = EndsReads(Partition(high_watermark=20, stable=10), Partition(high_watermark=7))
    high = reads.read().high
    assert {id(partition) for partition in high} == {id(partition) for partition in reads.wanted}


def test_an_lso_that_moved_is_compared_with_a_high_watermark_that_is_requested_after_it() -> None:
    reads = EndsReads(Partition(high_watermark=20, stable=10))
    reads.read()
    reads.partitions[0].stable, reads.partitions[0].high_watermark = 30, 30
    ends = reads.read()
    assert reads.asked() == [(COMMITTED, [0]), (UNCOMMITTED, [0])]
    assert (by_number(ends.stable), by_number(ends.high)) == ({0: 30}, {0: 30})


def test_the_high_watermark_above_an_lso_that_stands_is_read_once_in_fifteen_seconds() -> None:
    reads = EndsReads(Partition(high_watermark=20, stable=10))
    seen = []
    for turn in range(7):
        reads.partitions[0].high_watermark = 20 + turn
        seen.append(by_number(reads.read().high)[0])
    assert seen == [20, 20, 20, 23, 23, 23, 26]


def test_a_transaction_that_begins_where_none_was_open_is_seen_by_the_next_read() -> None:
    reads = EndsReads(Partition(high_watermark=7))
    reads.read()
    reads.partitions[0].stable, reads.partitions[0].high_watermark = 7, 9
    ends = reads.read()
    assert reads.asked() == [(UNCOMMITTED, [0]), (COMMITTED, [0])]
    assert (by_number(ends.stable), by_number(ends.high)) == ({0: 7}, {0: 9})


def test_a_log_that_a_new_leader_cut_to_the_same_high_watermark_is_read_whole() -> None:
    reads = EndsReads(Partition(high_watermark=9), Partition(high_watermark=9))
    reads.read()
    reads.partitions[0].stable, reads.partitions[0].epoch = 5, 1
    reads.refresh()
    ends = reads.read()
    assert reads.asked() == [(COMMITTED, [0]), (UNCOMMITTED, [0, 1])]
    assert by_number(ends.stable) == {0: 5, 1: 9}
    assert reads.read() == ends
    assert reads.asked() == [(COMMITTED, [0]), (UNCOMMITTED, [1])]


def test_a_leader_that_only_its_refusal_shows_to_be_new_is_asked_for_both_ends() -> None:
    reads = EndsReads(Partition(high_watermark=9), Partition(high_watermark=20, stable=10))
    reads.read()
    reads.partitions[0].stable = 5
    for partition in reads.partitions:
        partition.leader, partition.epoch = 2, 1
    reads.partitions[1].high_watermark = 12
    ends = reads.read()
    assert (by_number(ends.stable), by_number(ends.high)) == ({0: 5, 1: 10}, {0: 9, 1: 12})


def test_a_broker_that_does_not_answer_is_asked_once_in_a_read() -> None:
    reads = EndsReads(Partition(high_watermark=20, stable=10), Partition(high_watermark=7), Partition(2, 7))
    reads.read()
    reads.world.down = {1}
    ends = reads.read()
    assert [node for node, name, _ in reads.world.asked if name == "ListOffsets"].count(
        1
    ) <= 2  # and once more elsewhere
    assert by_number(ends.high) == {2: 7}
    assert [fault.reason for fault in ends.faults] == [Reason.UNREACHABLE]


class Change(NamedTuple):
    """A change of a partition between two reads."""

    number: int
    written: int
    released: int
    """Offsets by which the LSO moves on, at most to the high watermark."""
    cut: int
    """Offsets that an election loses; 0: no election."""
    refreshed: bool


CHANGES = st.builds(
    Change, st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.sampled_from([0, 0, 0, 1, 3]), st.booleans()
)


@settings(max_examples=300)
@given(st.lists(st.lists(CHANGES, max_size=4), max_size=8))
def test_what_is_said_is_what_both_ends_would_say(reads_after: list[list[Change]]) -> None:
    """But for the high watermark above an LSO that stands, which may be of a read up to fifteen seconds ago."""
    reads = EndsReads(*(Partition(high_watermark=100, stable=100) for _ in range(3)))
    reads.read()
    for changes in reads_after:
        for change in changes:
            log = reads.partitions[change.number]
            assert log.stable is not None
            log.high_watermark += change.written
            log.stable = min(log.high_watermark, log.stable + change.released)
            if change.cut:
                log.epoch += 1
                log.leader = 3 - (log.leader or 1)
                log.high_watermark -= change.cut
                log.stable = min(log.stable, log.high_watermark)
            if change.refreshed:
                reads.refresh()
        ends = reads.read()
        assert not ends.faults
        for number, log in enumerate(reads.partitions):
            partition = TopicPartition("orders", number)
            assert ends.stable[partition] == log.stable
            assert (ends.stable[partition] < ends.high[partition]) == (ends.stable[partition] < log.high_watermark)
            if ends.stable[partition] == log.high_watermark:
                assert ends.high[partition] == log.high_watermark
            else:
                assert ends.high[partition] <= log.high_watermark
