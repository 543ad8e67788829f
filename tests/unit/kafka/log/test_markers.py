"""The markers of an answer to Fetch: of the usual control batch, and of any other."""

from __future__ import annotations

import struct

import pytest
from kafka.record.default_records import DefaultRecordBatch

from exporter.kafka.log.batches import UNREADABLE, Marker
from exporter.kafka.log.markers import BEGINS_MS, PartitionMarkers, take_batches

ABORT, COMMIT = 0, 1
HEADER = struct.Struct(">qiibIhiqqqhii")
RECORDS, CONTROL = 0x10, 0x30
APPEND_TIME = 0x08


def batch(offset: int, attributes: int, body: bytes, *, first_ms: int = 5, max_ms: int = 5, magic: int = 2) -> bytes:
    head = (offset, 49 + len(body), 7, magic, 0, attributes, 0, first_ms, max_ms, 9, 4, -1, 1)
    return HEADER.pack(*head) + body


def marker_body(kind: int, coordinator_epoch: int = 3, *, more: bytes = b"") -> bytes:
    """The record of EndTransactionMarker: key (version, type), value (version, coordinator epoch, ``more``)."""
    value = struct.pack(">hi", 0, coordinator_epoch) + more
    fields = b"\x00\x00\x00\x08" + struct.pack(">hh", 0, kind) + bytes([2 * len(value)]) + value + b"\x00"
    return bytes([2 * len(fields)]) + fields


def taken(data: bytes, end: int = 100, start: int = 0) -> PartitionMarkers:
    own = PartitionMarkers(start, reached=start)
    take_batches(own, data, end)
    return own


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_of_the_usual_form_is_what_the_library_reads(kind: int) -> None:
    data = batch(7, CONTROL, marker_body(kind))
    (record,) = DefaultRecordBatch(data)
    assert (record.offset, record.timestamp, record.key) == (7, 5, struct.pack(">hh", 0, kind))
    assert taken(data).markers == [Marker(7, 5, 9, 4, kind == COMMIT, 3)]


def test_a_marker_with_a_longer_value_is_read_as_well() -> None:
    assert taken(batch(7, CONTROL, marker_body(COMMIT, more=b"\x02"))).markers == [Marker(7, 5, 9, 4, True, 3)]


def test_the_time_of_a_marker_is_the_brokers_where_the_topic_has_append_time() -> None:
    data = batch(7, CONTROL | APPEND_TIME, marker_body(COMMIT), first_ms=5, max_ms=8)
    assert taken(data).markers[0].timestamp_ms == 8


def test_the_first_time_is_that_of_a_marker_and_transactions_are_named_until_some_seconds_after_it() -> None:
    """Records have the timestamps of their producers."""
    data = batch(0, RECORDS, b"anything", max_ms=1) + batch(1, CONTROL, marker_body(COMMIT), first_ms=50_000)
    data += batch(2, RECORDS, b"anything", max_ms=2) + batch(3, RECORDS, b"anything", max_ms=3)
    data += batch(4, CONTROL, marker_body(COMMIT), first_ms=50_001 + BEGINS_MS)
    own = taken(data + batch(5, RECORDS, b"anything", max_ms=4))
    assert own.first_ms == 50_000
    assert own.begins == [(9, 4, 1), (9, 4, 2)]


def test_records_and_other_control_records_are_passed_over() -> None:
    leader_change = marker_body(2)
    own = taken(batch(7, RECORDS, b"anything") + batch(8, CONTROL, leader_change) + batch(9, CONTROL, marker_body(0)))
    assert [marker.offset for marker in own.markers] == [9]
    assert own.reached == 10


def test_batches_before_the_start_and_from_the_end_on_are_left_out() -> None:
    data = b"".join(batch(offset, CONTROL, marker_body(COMMIT)) for offset in range(5))
    own = taken(data, end=4, start=2)
    assert [marker.offset for marker in own.markers] == [2, 3]
    assert own.reached == 4


def test_a_batch_that_is_cut_off_at_the_end_of_the_answer_is_left_for_the_next() -> None:
    data = batch(7, CONTROL, marker_body(COMMIT))
    own = taken(data + batch(8, CONTROL, marker_body(COMMIT))[:-1])
    assert own.reached == 8


def test_batches_of_before_kafka_0_11_have_no_producer() -> None:
    assert taken(batch(7, 0, b"x" * 30, magic=1)).markers == []


@pytest.mark.parametrize(
    "data",
    [batch(7, CONTROL, b"\xff" * 17), batch(7, CONTROL, b""), struct.pack(">qi", 0, -1) + bytes(80)],
    ids=["no record", "empty", "negative length"],
)
def test_what_cannot_be_read_raises_one_of_the_errors_that_are_caught(data: bytes) -> None:
    with pytest.raises(UNREADABLE):
        taken(data)
