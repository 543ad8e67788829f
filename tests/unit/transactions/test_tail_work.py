"""The work of the tail where it is exact: the functions that are called for a finished transaction, and what is parsed.

No time is measured: what is counted here is the same on each machine.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import cast

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from exporter.applications.applications import Grouping
from exporter.kafka.log.tail import Polled
from exporter.model import Clock
from exporter.settings.sections import TransactionsConfig
from exporter.transactions.counting.aggregates import Aggregates
from exporter.transactions.machine import record_fields
from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.progress import LogPosition, PartitionProgress
from exporter.transactions.machine.record_fields import fields_of
from exporter.transactions.machine.records import TOPIC, Status, UndecodableRecord
from exporter.transactions.tail import LogTail
from tests.helpers.calls import calls_of
from tests.helpers.cluster import FakeKafka
from tests.helpers.coordinator import BEGIN_MS
from tests.helpers.strategies import encode_key, encode_value, kafka_tags, values

TRANSACTIONS = 40
STEPS = (Status.ONGOING, Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)
CALLS = {
    "StateMachine.apply": 3,
    "fields_of": 3,
    "_prepare": 1,
    "StateMachine._complete": 1,
    "KnownLog.count": 1,
    "PartitionProgress.count": 1,
    "Aggregates.take": 1,
    "Aggregates._ended": 1,
    "_Ring.take": 1,
    "Jobs.ended": 0,
    "ApplicationCounters.count": 1,
    "Histogram.observe": 2,
    "ApplicationCounters.date": 1,
}
"""For the three records of a transaction whose id and partitions are known."""


class WrittenLog:
    """One partition of the log, as messages of librdkafka."""

    def __init__(self, *, v2: bool) -> None:
        self.offset = 0
        self._v2 = v2

    def transactions(self, count: int) -> list[Polled]:
        return [cast("Polled", self._message(number, status)) for number in range(count) for status in STEPS]

    def _message(self, number: int, status: Status) -> Message:
        ms = BEGIN_MS + self.offset
        topics = [("orders", [number])] if status < Status.COMPLETE_COMMIT else []
        epoch = 1 if self._v2 and status > Status.ONGOING else 0
        fields = (1, number, epoch, 60_000, status, topics, ms, BEGIN_MS + self.offset // 3 * 3)
        value = encode_value(*fields, kafka_tags(number, -1, 2 if self._v2 else 0))
        self.offset += 1
        return Message(
            topic=TOPIC,
            partition=0,
            offset=self.offset - 1,
            key=encode_key(f"service-{number}x"),
            value=value,
            timestamp=(1, ms),
        )


@pytest.mark.parametrize("v2", [False, True])
def test_the_calls_for_a_finished_transaction_do_not_grow(v2: bool) -> None:
    log, aggregates = WrittenLog(v2=v2), Aggregates(Grouping(), TransactionsConfig())
    tail = LogTail(aggregates, lambda: FakeKafka().tail, Clock())  # type: ignore[arg-type,return-value]  # it is not polled
    tail.known.progress[0] = PartitionProgress(0, LogPosition(0))
    tail.records.take(log.transactions(TRANSACTIONS))
    again = log.transactions(TRANSACTIONS)
    found = calls_of(lambda: tail.records.take(again))
    assert {name: found[name] / TRANSACTIONS for name in CALLS} == CALLS
    batch = sum(found.values()) - TRANSACTIONS * sum(CALLS.values())
    assert batch <= 30  # once for all of them
    assert sum(application.named for application in aggregates._by_name.values()) == 2 * TRANSACTIONS


@pytest.mark.parametrize("tags", [kafka_tags(7, -1, 0), kafka_tags(7, -1, 2)])
@pytest.mark.parametrize("status", Status)
def test_the_values_that_kafka_writes_are_taken_apart_in_one_step(status: Status, tags: dict[int, bytes]) -> None:
    topics = [("orders", [3])] if 0 < status < Status.COMPLETE_COMMIT else None if status is Status.EMPTY else []
    value = encode_value(1, 7, 0, 60_000, status, topics, BEGIN_MS, BEGIN_MS, tags)
    fields_of(value, Entry("service-1", 0))
    found = calls_of(lambda: fields_of(value, Entry("service-2", 0)))
    assert found["fields_of"] == 1
    assert not found["_fields_of_any"]
    assert not found["partitions_end"]  # another id had the same partitions


INT64 = st.integers(-(2**63), 2**63 - 1)
USUAL = st.builds(
    encode_value,
    st.just(1),
    INT64,
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 5),
    st.sampled_from([None, [], [("orders", [3])], [("orders", [1, 2]), ("t" * 100, list(range(30)))]]),
    INT64,
    INT64,
    st.builds(kafka_tags, INT64, st.just(-1), st.sampled_from([0, 2])),
)
ANY = USUAL | values().map(itemgetter(0))


@given(ANY, st.none() | ANY, st.data())
def test_both_ways_to_take_a_value_apart_give_the_same(value: bytes, before: bytes | None, data: st.DataObject) -> None:
    encoded = bytearray(value)
    if data.draw(st.booleans(), label="broken"):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
        encoded = encoded[: data.draw(st.integers(0, len(encoded)))]
    entry = None if before is None else Entry("app-1", 0)
    if entry is not None and before is not None:
        layout, *_, section = fields_of(before, None)
        entry.layout, entry.section = layout, section or b""
    assert _tried(fields_of, bytes(encoded), entry) == _tried(record_fields._fields_of_any, bytes(encoded), entry)


def _tried(decode: Callable[[bytes, Entry | None], object], value: bytes, entry: Entry | None) -> object:
    try:
        return decode(value, entry)
    except UndecodableRecord as problem:
        return str(problem), problem.newer
