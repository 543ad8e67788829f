"""The source that compares decisions with markers: what it reads, within how many bytes, and what it leaves out."""

from __future__ import annotations

import struct

import pytest

from exporter import catalogue
from exporter.model import Deadline, Fault, Notes, Reason, TopicPartition
from exporter.transactions.decided.marker_watch import CONFIRM_SECONDS, TornMarkers
from exporter.transactions.decided.recent_decisions import ClocksApart, RecentDecisions
from exporter.transactions.decided.torn import Decision
from exporter.transactions.facts import CoordinatorTime
from exporter.transactions.source.markers import INTERVAL, MarkersSource
from tests.helpers.cluster import FakeKafka, Partition, SourceRead, read

PLACE = TopicPartition("orders", 0)
HEADER = struct.Struct(">qiibIhiqqqhii")
BYTES = 1 << 20
NOT_AUTHORIZED = 29


def marker(offset: int, epoch: int, at_ms: int, *, commit: bool = True, producer_id: int = 7) -> bytes:
    body = b"\x20\x00\x00\x00\x08" + struct.pack(">hhBhi", 0, int(commit), 12, 0, 3) + b"\x00"
    return HEADER.pack(offset, 49 + len(body), 0, 2, 0, 0x30, 0, at_ms, at_ms, producer_id, epoch, -1, 1) + body


class MarkersWorld:
    """One partition of a topic, a source that watches it, and the decisions that the log has."""

    def __init__(self, bytes_per_minute: int = BYTES) -> None:
        self.partition = Partition(high_watermark=3, since=0)
        self.kafka = FakeKafka(topics={"orders": [self.partition]})
        self.source = MarkersSource(self.kafka.cluster(), bytes_per_minute)
        self.decided: tuple[Decision, ...] = ()
        self.begun_ms = round(self.kafka.time.wall * 1000)

    def decide(self, epoch: int = 3, *, v2: bool = True) -> None:
        times = self.begun_ms, self.begun_ms + 10, self.begun_ms + 20
        epochs = frozenset({epoch + v2}), frozenset({epoch})
        self.decided += (Decision("pay-1", 7, True, *epochs, *times, frozenset({PLACE}), v2=v2),)

    def write(self, *batches: bytes) -> None:
        self.partition.batches = b"".join(batches)

    def read(
        self, later: float = INTERVAL, *, apart: int = 0, known: frozenset[int] = frozenset(), doubtful: int = 0
    ) -> SourceRead:
        self.kafka.time.pass_(later)
        wall, monotonic = self.kafka.time.wall, self.kafka.time.monotonic
        clocks = ClocksApart(apart, known), CoordinatorTime(0.0, 0.0, wall - monotonic)
        return read(self.kafka, self.source, RecentDecisions(0, (self.decided,), doubtful), *clocks)


def compared(found: SourceRead) -> tuple[float, float]:
    """How many were compared, and how many were not."""
    values = found.values(catalogue.MARKER_COMPARISONS_TOTAL)
    return values[("compared",)], values[("not_compared",)]


def test_a_transaction_whose_partition_has_its_marker_is_compared_once() -> None:
    world = MarkersWorld()
    world.decide()
    world.write(marker(2, 4, world.begun_ms + 15))
    found = world.read()
    assert compared(found) == (1, 0)
    assert found.faults == []
    assert found.values(catalogue.TORN_TRANSACTIONS) == {}
    world.read()
    assert len(world.kafka.requests("Fetch")) == 1


def test_nothing_is_compared_while_the_clocks_of_brokers_are_further_apart_than_markers_can_be_told_by() -> None:
    """Markers are stamped by the leader of the partition, decisions by the coordinator."""
    world = MarkersWorld()
    world.decide()
    found = world.read(apart=5)
    assert compared(found) == (0, 1)
    notes = found.facts[Notes]
    assert isinstance(notes, Notes)
    assert "5 s apart" in notes.notes[0]
    assert world.read(CONFIRM_SECONDS).values(catalogue.TORN_TRANSACTIONS) == {}
    world = MarkersWorld()
    world.decide()
    assert compared(world.read(apart=4)) == (0, 0), "a suspect"


def lost_marker(*, v2: bool = False) -> MarkersWorld:
    """A decision whose marker is missing, on two brokers."""
    world = MarkersWorld()
    world.kafka.brokers = {1: "k1:9092", 2: "k2:9092"}
    world.decide(v2=v2)
    world.write(marker(2, 2, world.begun_ms - 9_000))
    return world


@pytest.mark.parametrize(("v2", "known", "doubtful", "found"), [
    (False, {1, 2}, 0, 1), (False, {2}, 0, 0), (False, {1, 2}, 1, 0), (True, {2}, 1, 1),
])  # fmt: skip
def test_a_marker_is_missed_only_where_the_clocks_of_leader_and_coordinator_are_known(
    v2: bool, known: set[int], doubtful: int, found: int
) -> None:
    """In Transactions V2 the epoch says whose marker is missing, whatever the clocks."""
    world = lost_marker(v2=v2)
    reads = [world.read(CONFIRM_SECONDS, known=frozenset(known), doubtful=doubtful) for _ in range(8)]
    assert sum(reads[2].values(catalogue.TORN_TRANSACTIONS).values()) == found
    assert compared(reads[-1]) == ((1, 0) if found else (0, 1))


@pytest.mark.parametrize(("skew", "found"), [(0.0, 1), (6.0, 0), (-6.0, 0), (90.0, 0), (-90.0, 0)])
def test_the_clock_of_a_leader_that_coordinates_nothing_is_known_by_when_new_markers_come(
    skew: float, found: int
) -> None:
    """Two markers: one just before a read, one just after it."""
    world = lost_marker()
    world.read(1.0)
    written = [marker(2, 2, world.begun_ms - 9_000)]
    for offset, age in ((3, 1.0), (4, INTERVAL - 1.0)):
        at_ms = round((world.kafka.time.wall + INTERVAL - age + skew) * 1000)
        written.append(marker(offset, 4, at_ms, producer_id=8))
        world.partition.high_watermark = offset + 1
        world.write(*written)
        world.read()
    assert sum(world.read(CONFIRM_SECONDS).values(catalogue.TORN_TRANSACTIONS).values()) == found


def test_a_lost_marker_is_exposed_and_told_until_the_next_commit_of_its_producer() -> None:
    world = MarkersWorld()
    world.decide()
    world.write(marker(2, 3, world.begun_ms - 9_000))
    assert world.read().values(catalogue.TORN_TRANSACTIONS) == {}
    found = world.read(CONFIRM_SECONDS)
    assert found.values(catalogue.TORN_TRANSACTIONS) == {("orders", "commit", "nothing"): 1}
    fact = found.facts[TornMarkers]
    assert isinstance(fact, TornMarkers)
    assert [found.torn.partition for found in fact.found] == [PLACE]
    world.partition.high_watermark = 4
    world.write(marker(3, 5, world.begun_ms + 60_000))
    assert world.read().values(catalogue.TORN_TRANSACTIONS) == {}


def test_what_was_decided_long_before_the_newest_transaction_is_not_said_to_lack_its_marker() -> None:
    world = MarkersWorld()
    world.decide()
    world.begun_ms += 600_000
    world.decide(5)
    world.write(marker(1, 4, world.begun_ms - 599_985), marker(2, 6, world.begun_ms + 15))
    reads = [world.read(CONFIRM_SECONDS) for _ in range(3)]
    assert [found.values(catalogue.TORN_TRANSACTIONS) for found in reads] == [{}, {}, {}]
    assert compared(reads[-1]) == (1, 1)


def test_a_marker_that_is_missing_where_nothing_was_written_since_is_found() -> None:
    world = MarkersWorld()
    world.partition.since = -1
    world.write(marker(1, 3, world.begun_ms - 99_000))
    world.decide()
    world.read()
    world.read()
    assert world.read(CONFIRM_SECONDS).values(catalogue.TORN_TRANSACTIONS) == {("orders", "commit", "nothing"): 1}
    fetches = len(world.kafka.requests("Fetch"))
    world.read()
    assert len(world.kafka.requests("Fetch")) == fetches, "looked back once"


def data(offset: int, epoch: int, at_ms: int) -> bytes:
    return HEADER.pack(offset, 49, 0, 2, 0, 0x10, 0, at_ms, at_ms, 7, epoch, 0, 1)


@pytest.mark.parametrize("v2", [True, False])
@pytest.mark.parametrize("written", [False, True])
def test_a_topic_that_may_be_younger_than_a_transaction_lacks_no_marker_of_it(v2: bool, written: bool) -> None:
    """A topic that was made again is empty, or has later transactions, and records with timestamps of any time."""
    world = MarkersWorld()
    world.decide(v2=v2)
    if written:
        world.write(
            data(0, 5 if v2 else 3, world.begun_ms - 86_400_000),
            data(1, 5 if v2 else 3, world.begun_ms + 30_000),
            marker(2, 6 if v2 else 3, world.begun_ms + 30_100),
        )
    else:
        world.partition.high_watermark = 0
    reads = [world.read(CONFIRM_SECONDS) for _ in range(5)]
    assert [found.values(catalogue.TORN_TRANSACTIONS) for found in reads] == [{}] * 5
    assert compared(reads[-1]) == (0, 1)


@pytest.mark.parametrize("v2", [True, False])
def test_a_marker_is_missing_after_the_records_of_its_transaction(v2: bool) -> None:
    world = MarkersWorld()
    world.decide(v2=v2)
    world.write(data(2, 3, world.begun_ms + 5))
    world.read()
    found = world.read(CONFIRM_SECONDS)
    assert found.values(catalogue.TORN_TRANSACTIONS) == {("orders", "commit", "nothing"): 1}


def test_what_was_found_in_a_topic_that_is_made_again_is_dropped_with_it() -> None:
    world = MarkersWorld()
    world.kafka.topic_ids = {"orders": "one"}
    world.decide()
    world.write(data(2, 3, world.begun_ms + 5))
    world.read()
    assert world.read(CONFIRM_SECONDS).values(catalogue.TORN_TRANSACTIONS)
    world.kafka.topic_ids = {"orders": "two"}
    world.write()
    world.decide(5)
    reads = [world.read(CONFIRM_SECONDS) for _ in range(5)]
    assert [found.values(catalogue.TORN_TRANSACTIONS) for found in reads] == [{}] * 5


def test_what_was_found_in_a_topic_that_is_deleted_is_dropped_once_no_broker_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = MarkersWorld()
    world.decide()
    world.write(data(2, 3, world.begun_ms + 5))
    world.read()
    found = {("orders", "commit", "nothing"): 1}
    assert world.read(CONFIRM_SECONDS).values(catalogue.TORN_TRANSACTIONS) == found
    newest = world.kafka.metadata(Deadline.after(1))
    for reason in (Reason.AUTHORIZATION, Reason.NO_LEADER):
        world.kafka.hidden = {"orders": Fault(reason, "the cluster does not say")}
        assert world.read().values(catalogue.TORN_TRANSACTIONS) == found
    world.kafka.hidden = {"orders": Fault(Reason.UNKNOWN_TOPIC, "no topic orders")}
    with monkeypatch.context() as patch:  # one broker is behind the others
        patch.setattr(world.kafka, "confirmed", lambda *_: newest)
        assert world.read().values(catalogue.TORN_TRANSACTIONS) == found
    assert world.read().values(catalogue.TORN_TRANSACTIONS) == {}


def test_records_that_were_deleted_before_they_were_read_prove_nothing() -> None:
    world = MarkersWorld()
    world.partition.since = world.partition.log_start = 3
    world.decide()
    world.read()
    assert world.read(CONFIRM_SECONDS).values(catalogue.TORN_TRANSACTIONS) == {}


@pytest.mark.parametrize("refused", [True, False], ids=["settings not known", "compacted"])
def test_no_marker_is_missed_where_a_cleaner_may_have_taken_it(refused: bool) -> None:
    world = MarkersWorld()
    world.partition.since = -1
    world.kafka.settings["orders"] = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}
    if refused:
        world.kafka.refuse["DescribeConfigs"] = NOT_AUTHORIZED
    world.decide()
    world.read()
    found = world.read(CONFIRM_SECONDS)
    assert found.values(catalogue.TORN_TRANSACTIONS) == {}
    assert compared(found) == (0, 1)
    text = (
        "a missing marker is not found in 1 topics, whose cleaner may have taken it: grant DESCRIBE_CONFIGS on Topic:"
    )
    assert found.facts.get(Notes) == (Notes((f"{text}orders",)) if refused else None)


def test_a_topic_that_may_not_be_read_is_a_note_and_counts_as_not_compared() -> None:
    world = MarkersWorld()
    world.kafka.refuse["Fetch"] = NOT_AUTHORIZED
    world.decide()
    found = world.read()
    assert found.faults == []
    assert found.facts[Notes] == Notes(("markers of 1 topics are not compared: grant READ on Topic:orders",))
    assert compared(found) == (0, 1)
    fetches = len(world.kafka.requests("Fetch"))
    world.decide(4)
    world.read()
    assert len(world.kafka.requests("Fetch")) == fetches


def test_markers_of_a_log_that_was_truncated_are_read_again() -> None:
    """Records of the new leader lie below the offset that was reached in the old one's log."""
    world = MarkersWorld()
    world.decide()
    world.write(marker(2, 4, world.begun_ms + 15))
    assert compared(world.read()) == (1, 0)
    world.partition.epoch, world.partition.epoch_end = 1, (0, 1)
    world.decide(5)
    world.write(marker(1, 6, world.begun_ms + 16), marker(2, 8, world.begun_ms + 17))
    found = world.read()
    assert compared(found) == (2, 0)
    assert world.read(CONFIRM_SECONDS).values(catalogue.TORN_TRANSACTIONS) == {}


def test_markers_are_not_read_again_where_the_new_leader_has_them() -> None:
    world = MarkersWorld()
    world.decide()
    world.write(marker(2, 4, world.begun_ms + 15))
    world.read()
    world.partition.epoch, world.partition.epoch_end = 1, (0, 3)
    world.partition.high_watermark = 4
    world.decide(5)
    world.write(marker(3, 6, world.begun_ms + 16))
    assert compared(world.read()) == (2, 0)
    assert len(world.kafka.requests("ListOffsets")) == len(world.kafka.requests("Fetch")) + 1, "one begin"


def test_nothing_is_compared_before_the_new_leader_says_what_it_has() -> None:
    world = MarkersWorld()
    world.decide()
    world.write(marker(2, 4, world.begun_ms + 15))
    world.read()
    world.partition.epoch = 1
    world.kafka.refuse["OffsetForLeaderEpoch"] = NOT_AUTHORIZED
    world.decide(5)
    assert compared(world.read()) == (1, 0)
    del world.kafka.refuse["OffsetForLeaderEpoch"]
    world.write(marker(2, 6, world.begun_ms + 16))
    world.partition.epoch_end = 0, 1
    assert compared(world.read()) == (2, 0)


def test_no_more_is_read_than_the_bytes_of_a_minute() -> None:
    world = MarkersWorld(bytes_per_minute=600)
    world.partition.high_watermark = 1_000
    batches = [marker(offset, 9, world.begun_ms - 9_000) for offset in range(1_000)]
    world.decide()
    read_bytes = []
    for _ in range(8):
        own = world.source._watch.followed.get(PLACE)
        start = own.reached if own is not None else 0
        size = max(1, int(world.source._bytes) + 100)
        world.write(*batches[start : start + 1 + size // 78])
        world.read()
        read_bytes.append(world.source._watch.followed[PLACE].reached)
    assert read_bytes[-1] * 78 < 3 * 600
    assert compared(world.read())[1] == 1


def test_partitions_without_a_leader_are_a_fault_of_another_source() -> None:
    world = MarkersWorld()
    world.partition.leader = None
    world.decide()
    assert Reason.NO_LEADER not in world.read().reasons


def test_without_the_transaction_log_nothing_is_said() -> None:
    world = MarkersWorld()
    assert read(world.kafka, world.source).samples == []
