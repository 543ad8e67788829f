from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from exporter.kafka.requests.bulk_offsets import (
    FIRST_VERSION,
    FLEXIBLE,
    LAST_VERSION,
    Offsets,
    offsets_request,
    read_offsets,
)
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.kafka.requests.offsets import LATEST
from exporter.model import TopicPartition

VERSIONS = st.integers(FIRST_VERSION, LAST_VERSION)
NAMES = st.text("abcé.-", min_size=1, max_size=300)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
INDEXES = st.integers(0, 2**31 - 1)
ROWS = st.dictionaries(INDEXES, st.tuples(st.integers(-1, 120), INT64, INT64, INT32), max_size=200)


def metadata(epochs: dict[TopicPartition, int]) -> Metadata:
    topics: dict[str, dict[int, PartitionMetadata]] = {}
    for (topic, index), epoch in epochs.items():
        topics.setdefault(topic, {})[index] = PartitionMetadata(1, (1,), (1,), leader_epoch=epoch)
    return Metadata("id", {1: "k:1"}, topics, frozenset(), {})


@given(VERSIONS, st.dictionaries(st.tuples(NAMES, INDEXES), st.tuples(INT32, INT64), max_size=40), st.booleans())
def test_a_request_has_the_bytes_that_kafka_python_gives_it(
    version: int, rows: dict[tuple[str, int], tuple[int, int]], framed: bool
) -> None:
    wanted = {TopicPartition(*place): row for place, row in rows.items()}
    routes = metadata({place: epoch for place, (epoch, _) in wanted.items()})
    timestamps = {place: timestamp for place, (_, timestamp) in wanted.items()}
    ours = offsets_request(list(wanted), routes, timestamps, 1, -1, 2500)
    theirs = ours.plain()
    for side in (ours, theirs):
        side.API_VERSION = version
        side.with_header(correlation_id=7, client_id="bench")
    assert type(theirs) is ListOffsetsRequest
    assert ours.encode(header=True, framed=framed) == bytes(theirs.encode(header=True, framed=framed))
    assert ours.encode() == bytes(theirs.encode())


def response(version: int, topics: dict[str, dict[int, tuple[int, int, int, int]]]) -> bytes:
    kind = ListOffsetsResponse.ListOffsetsTopicResponse
    made = ListOffsetsResponse(
        throttle_time_ms=3,
        topics=[
            kind(
                name=name,
                partitions=[
                    kind.ListOffsetsPartitionResponse(
                        partition_index=index, error_code=code, timestamp=timestamp, offset=offset, leader_epoch=epoch
                    )
                    for index, (code, timestamp, offset, epoch) in rows.items()
                ],
            )
            for name, rows in topics.items()
        ],
    )
    made.API_VERSION = version
    return bytes(made.encode())


@given(VERSIONS, st.dictionaries(NAMES, ROWS, max_size=5))
def test_an_answer_says_what_kafka_python_reads_in_it(version: int, topics: dict[str, Any]) -> None:
    found = read_offsets(response(version, topics), flexible=version >= FLEXIBLE)
    rows = {TopicPartition(name, index): row for name, topic in topics.items() for index, row in topic.items()}
    assert found is not None
    assert found.throttle_time_ms == 3
    assert found.offsets == {place: row[2] for place, row in rows.items() if not row[0] and row[2] >= 0}
    assert {(place, code, offset) for place, code, offset in found.refused} == {
        (place, row[0], row[2]) for place, row in rows.items() if row[0] or row[2] < 0
    }
    assert all(type(place) is TopicPartition for place in found.offsets)


@given(VERSIONS, st.dictionaries(NAMES, ROWS, min_size=1, max_size=3), st.data())
def test_an_answer_that_was_cut_is_an_error(version: int, topics: dict[str, Any], data: st.DataObject) -> None:
    body = response(version, topics)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    with pytest.raises((ValueError, IndexError, struct.error)):
        read_offsets(cut, flexible=version >= FLEXIBLE)


def test_a_count_without_an_end_is_an_error_after_five_bytes() -> None:
    """Read on and on, it would take a time that is quadratic in the size of the answer: 100 MB at most."""
    with pytest.raises(ValueError, match="more than 5 bytes"):
        read_offsets(bytes(4) + b"\xff" * 1000, flexible=True)


@given(VERSIONS, st.binary(max_size=60))
def test_garbage_is_an_error_or_small(version: int, body: bytes) -> None:
    try:
        found = read_offsets(body, flexible=version >= FLEXIBLE)
    except (ValueError, IndexError, struct.error):
        return
    assert found is None or len(found.offsets) + len(found.refused) <= len(body)


def test_an_answer_with_tagged_fields_is_left_to_kafka_python() -> None:
    request = offsets_request([], metadata({}), {}, 0, -1, 0)
    request.API_VERSION = LAST_VERSION
    request.with_header()
    kind = request.header.get_response_class()
    plain = response(LAST_VERSION, {"a": {0: (0, -1, 9, 1)}})
    tagged = plain[:-1] + b"\x01\x63\x01\x00"
    assert read_offsets(tagged, flexible=True) is None
    assert isinstance(request.read_answer(plain, kind), Offsets)
    assert request.read_answer(tagged, kind).topics[0].partitions[0].offset == 9


def test_the_topics_of_a_request_can_be_asked_for() -> None:
    place = TopicPartition("a", 3)
    request = offsets_request([place], metadata({place: 8}), {place: LATEST}, 0, -1, 0)
    (topic,) = request.topics
    (row,) = topic.partitions
    assert (topic.name, row.partition_index, row.current_leader_epoch, row.timestamp) == ("a", 3, 8, LATEST)
