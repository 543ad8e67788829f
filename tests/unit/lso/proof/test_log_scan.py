"""The scan of the transaction log: what is open at given offsets, however it is cut, and what it makes of odd logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from exporter.kafka.client import AskError
from exporter.kafka.log.tail import Polled
from exporter.lso.proof.log_scan import LogScan
from exporter.model import Deadline, Fault, Reason
from exporter.transactions.machine.records import NO_TIMEOUT_MS, Status
from exporter.words import TransactionState
from tests.helpers.cluster import FakeMessage, ManualClock
from tests.helpers.strategies import encode_key, encode_value, kafka_tags


def record(
    number: int, offset: int, name: str, status: Status | None, producer_id: int = 7, *, timeout_ms: int = 60_000,
    previous: int = -1, following: int = -1,
) -> FakeMessage:  # fmt: skip
    """A record of the log; without a status a tombstone."""
    value = None
    if status is not None:
        topics = [("orders", [0, 1])] if Status.ONGOING <= status <= Status.PREPARE_ABORT else None
        tags = kafka_tags(previous, following, 0)
        value = encode_value(1, producer_id, 3, timeout_ms, status, topics, 5000, 2000, tags)
    return FakeMessage(None, number, offset, 0, encode_key(name), value)


class MemoryLog:
    """A reader of records in memory. Positions before ``first`` are gone; ``batch`` records come at a time."""

    def __init__(self, records: Sequence[FakeMessage], ends: Mapping[int, int], batch: int = 100) -> None:
        self.records = list(records)
        self.ends = dict(ends)
        self.batch = batch
        self.first: dict[int, int] = {}
        self.refused = False
        self.silent = False
        self.time = ManualClock()
        self.assigned: list[dict[int, int]] = []
        self.closed = 0
        self._at: dict[int, int] = {}

    def assign(self, positions: Mapping[int, int]) -> None:
        self.assigned.append(dict(positions))
        self._at = {number: max(at, self.first.get(number, 0)) for number, at in positions.items()}

    def leave(self, partition: int) -> None:
        self._at.pop(partition, None)

    def poll(self, limit: int, seconds: float) -> list[Polled]:
        self.time.pass_(seconds)
        found: list[Polled] = []
        if self.silent:
            return found
        for number, at in self._at.items():
            if self.refused:
                return [FakeMessage(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), number, -1001)]
            mine = [message for message in self.records if message.number == number and message.at >= at][: self.batch]
            found += mine
            self._at[number] = mine[-1].at + 1 if mine else self.ends[number]
            if not mine:
                found.append(FakeMessage(KafkaError(KafkaError._PARTITION_EOF), number, self.ends[number]))
        return found

    def trouble(self) -> Fault | None:
        return Fault(Reason.UNREACHABLE, "all brokers are down") if self.silent else None

    def close(self) -> None:
        self.closed += 1

    def scan(self) -> LogScan:
        return LogScan(lambda: self, self.time.clock)

    def deadline(self, seconds: float = 30.0) -> Deadline:
        return Deadline.after(seconds, self.time.clock.monotonic)


def test_what_is_open_at_the_end_is_known_by_its_producer_ids() -> None:
    log = MemoryLog(
        [
            record(0, 0, "a-1", Status.ONGOING, 7),
            record(0, 1, "b-1", Status.ONGOING, 8),
            record(0, 2, "b-1", Status.COMPLETE_ABORT, 8),
            record(1, 0, "c-1", Status.PREPARE_COMMIT, 9, previous=90, following=99),
            record(1, 1, "d-1", Status.EMPTY, 10),
            record(1, 2, "e-1", Status.ONGOING, 11, timeout_ms=NO_TIMEOUT_MS),
            record(1, 3, "f-1", Status.ONGOING, 12),
            record(1, 4, "f-1", None),
        ],
        {0: 3, 1: 5},
    )
    scan = log.scan()
    assert scan.read({0: 3, 1: 5}, log.deadline())
    assert scan.found().owners() == {7: "a-1", 9: "c-1", 90: "c-1", 99: "c-1", 11: "e-1"}
    assert (scan.reached, scan.found().undecodable, scan.cost.records) == ({0: 3, 1: 5}, (), 8)
    assert log.closed == 1
    found = {transaction.transactional_id: transaction for transaction in scan.found().transactions(lambda _: "app")}
    assert found["a-1"].started == 2.0
    assert (found["a-1"].timeout, found["e-1"].timeout) == (60.0, None)
    assert (found["c-1"].state, found["c-1"].prepared) == (TransactionState.PREPARE_COMMIT, 5.0)
    assert len(found["a-1"].partitions) == 2


def test_the_owner_of_a_producer_id_is_the_id_of_its_newest_record_also_once_it_expired() -> None:
    log = MemoryLog(
        [
            record(0, 0, "ghost-1", Status.EMPTY, 7),
            record(0, 1, "ghost-1", Status.COMPLETE_ABORT, 7),
            record(0, 2, "ghost-1", None),
            record(0, 3, "other-1", Status.EMPTY, 8),
        ],
        {0: 4},
    )
    scan = log.scan()
    scan.look_for({7, 9})
    assert scan.read({0: 4}, log.deadline())
    assert (scan.owner(7), scan.owner(9), scan.owner(8)) == ("ghost-1", "", "")


def test_an_empty_log_needs_no_connection() -> None:
    log = MemoryLog([], {})
    assert log.scan().read({0: 0, 1: 0}, log.deadline())
    assert log.assigned == []


def test_records_that_compaction_took_are_not_waited_for() -> None:
    log = MemoryLog([record(0, 5, "a-1", Status.ONGOING)], {0: 40})
    log.first = {0: 3}
    scan = log.scan()
    assert scan.read({0: 40}, log.deadline())
    assert scan.reached == {0: 40}


def test_an_end_that_comes_before_the_asked_offset_is_no_end() -> None:
    log = MemoryLog([record(0, 0, "a-1", Status.ONGOING)], {0: 5})
    scan = log.scan()
    assert not scan.read({0: 9}, log.deadline(3.0))
    assert scan.reached == {0: 5}
    log.ends[0] = 9
    assert scan.read({0: 9}, log.deadline())


def test_a_refusal_is_raised_with_the_grant_and_ends_the_connection() -> None:
    log = MemoryLog([record(0, 0, "a-1", Status.ONGOING)], {0: 1})
    log.refused = True
    with pytest.raises(AskError, match="grant READ on Topic:__transaction_state"):
        log.scan().read({0: 1}, log.deadline())
    assert log.closed == 1


def test_silence_until_the_deadline_is_raised_where_the_client_knows_why() -> None:
    log = MemoryLog([record(0, 0, "a-1", Status.ONGOING)], {0: 1})
    log.silent = True
    scan = log.scan()
    # A first message takes long at a distant cluster, and one broker of the bootstrap servers may be down.
    assert not scan.read({0: 1}, log.deadline(1.0))
    assert not scan.read({0: 1}, log.deadline(1.0))
    with pytest.raises(AskError, match="all brokers are down"):
        scan.read({0: 1}, log.deadline(1.5))


def test_a_broker_that_is_down_does_not_end_a_read_that_begins_late() -> None:
    log = MemoryLog([record(0, 0, "a-1", Status.ONGOING)], {0: 1})
    log.silent = True
    scan = log.scan()
    assert not scan.read({0: 1}, log.deadline(1.0))
    log.silent = False
    assert scan.read({0: 1}, log.deadline(1.0))
    assert log.closed == 1


def test_a_log_that_is_shorter_than_it_was_is_read_anew() -> None:
    log = MemoryLog([record(0, n, "a-1", Status.COMPLETE_COMMIT) for n in range(9)], {0: 9})
    scan = log.scan()
    assert scan.read({0: 9}, log.deadline())
    log.records, log.ends = [record(0, 0, "a-1", Status.ONGOING)], {0: 4}
    assert scan.read({0: 4}, log.deadline())
    assert scan.found().owners() == {7: "a-1"}


@pytest.mark.parametrize(
    "bad",
    [
        (b"\x00\x09", b""),
        (encode_key("a-1"), b"\x00\x09"),
        (encode_key("a-1"), b"\x00\x01"),
        (encode_key("a-1"), (record(0, 0, "a-1", Status.ONGOING).value() or b"")[:-1]),  # only its head can be read
    ],
)
def test_a_record_that_is_not_understood_is_named_until_a_newer_one_of_its_key_is(bad: tuple[bytes, bytes]) -> None:
    log = MemoryLog([FakeMessage(None, 0, 0, 0, *bad)], {0: 1})
    scan = log.scan()
    assert scan.read({0: 1}, log.deadline())
    assert "__transaction_state-0 offset 0" in scan.found().undecodable[0]
    assert scan.found().owners() == {}
    if bad[0] == encode_key("a-1"):
        log.records.append(record(0, 1, "a-1", Status.EMPTY))
        log.ends[0] = 2
        assert scan.read({0: 2}, log.deadline())
        assert scan.found().undecodable == ()


stories = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abcd"), st.sampled_from([None, *Status])), max_size=60)


@given(stories, st.integers(1, 7), st.lists(st.integers(0, 60), max_size=4))
def test_wherever_it_is_cut_the_scan_ends_with_the_newest_record_of_every_id(
    story: list[tuple[int, str, Status | None]], batch: int, cuts: list[int]
) -> None:
    # An id lives on one partition, as in Kafka.
    records = [record(ord(name) % 3, offset, name, status) for offset, (_, name, status) in enumerate(story)]
    ends = dict.fromkeys(range(3), len(story))
    log = MemoryLog(records, ends, batch)
    scan = log.scan()
    for cut in sorted(cuts):
        scan.read(dict.fromkeys(range(3), min(cut, len(story))), log.deadline())
    assert scan.read(ends, log.deadline(1000.0))
    newest = {name: status for _, name, status in story}
    expected = {name for name, status in newest.items() if status is not None and 1 <= status <= 3}
    assert {transaction.transactional_id for transaction in scan.found().transactions(str)} == expected


def test_it_goes_on_where_it_was_stopped_and_reads_nothing_twice() -> None:
    log = MemoryLog([record(0, n, f"a-{n}", Status.ONGOING) for n in range(20)], {0: 20}, batch=3)
    scan = log.scan()
    passed: list[int] = []
    while not scan.read({0: 20}, log.deadline(0.6), passed.append):
        pass
    assert (scan.cost.records, sum(passed), log.assigned) == (20, 20, [{0: 0}])
