"""The record decoder, against an encoder that shares nothing with it."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.transactions.machine.records import LogValue, UndecodableRecord, decode_key, decode_value
from tests.helpers.strategies import encode_key, encode_value, names, uvarint, values


@given(values())
def test_a_value_decodes_to_what_was_encoded_to_its_last_byte(value: tuple[bytes, LogValue]) -> None:
    encoded, meant = value
    assert decode_value(encoded) == meant
    with pytest.raises(UndecodableRecord):
        decode_value(encoded + b"\x00")


@given(names)
def test_a_key_decodes_to_its_transactional_id(transactional_id: str) -> None:
    assert decode_key(encode_key(transactional_id)) == transactional_id


@given(values())
def test_a_value_cut_at_any_byte_is_undecodable(value: tuple[bytes, LogValue]) -> None:
    encoded, _ = value
    for length in range(len(encoded)):
        with pytest.raises(UndecodableRecord) as found:
            decode_value(encoded[:length])
        assert not found.value.newer


@given(names)
def test_a_key_cut_or_continued_at_any_byte_is_undecodable(transactional_id: str) -> None:
    encoded = encode_key(transactional_id)
    for key in [encoded[:length] for length in range(len(encoded))] + [encoded + b"x"]:
        with pytest.raises(UndecodableRecord):
            decode_key(key)


@given(st.binary(max_size=300))
@example(b"\x00\x01" + bytes(15) + b"\xff\xff\xff\xff\x0f" + bytes(40))
@example(b"\x00\x00" + bytes(15) + b"\x7f\xff\xff\xff" + bytes(40))
def test_garbage_raises_nothing_but_undecodable(garbage: bytes) -> None:
    for decode in (decode_value, decode_key):
        with suppress(UndecodableRecord):
            assert decode(garbage) is not None


@given(values(), st.data())
def test_a_flipped_byte_raises_nothing_but_undecodable(value: tuple[bytes, LogValue], data: st.DataObject) -> None:
    broken = bytearray(value[0])
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(UndecodableRecord):
        assert decode_value(bytes(broken)).layout in (0, 1)


@pytest.mark.parametrize(
    "lie",
    [
        b"\x00\x01" + bytes(15) + uvarint(2**31) + bytes(100),
        b"\x00\x00" + bytes(15) + struct.pack(">i", 2**31 - 1) + bytes(100),
        b"\x00\x00" + bytes(15) + struct.pack(">ih1si", 1, 1, b"t", 2**31 - 1) + bytes(100),
        b"\x00\x01" + bytes(15) + uvarint(2) + uvarint(2) + b"t" + uvarint(2**31) + bytes(100),
    ],
    ids=["topics, compact", "topics", "partitions", "partitions, compact"],
)
def test_a_length_that_lies_costs_no_memory(lie: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UndecodableRecord):
            decode_value(lie)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@given(st.integers(2, 2**15 - 1) | st.integers(-(2**15), -1), st.binary(max_size=50))
def test_an_unknown_version_is_newer_not_garbage(version: int, rest: bytes) -> None:
    encoded = struct.pack(">h", version) + rest
    with pytest.raises(UndecodableRecord) as value:
        decode_value(encoded)
    with pytest.raises(UndecodableRecord) as key:
        decode_key(struct.pack(">h", version) + b"\x00\x00")
    assert value.value.newer
    assert key.value.newer


@pytest.mark.parametrize("status", [6, 7, 127, -1])
def test_a_status_that_no_known_broker_writes_is_newer(status: int) -> None:
    with pytest.raises(UndecodableRecord) as found:
        decode_value(encode_value(1, 1, 1, 1, status, None, 1, 1))
    assert found.value.newer


@pytest.mark.parametrize("tag", [{0: b"1234567"}, {1: b""}, {2: b"123"}, {3: b"1"}])
def test_a_known_tagged_field_of_a_wrong_size_is_undecodable(tag: dict[int, bytes]) -> None:
    with pytest.raises(UndecodableRecord):
        decode_value(encode_value(1, 1, 1, 1, 1, [], 1, 1, tag))


def test_a_name_that_is_not_utf_8_is_undecodable() -> None:
    with pytest.raises(UndecodableRecord):
        decode_key(b"\x00\x00\x00\x02\xc3\x28")
    with pytest.raises(UndecodableRecord):
        decode_value(encode_value(0, 1, 1, 1, 1, [("ab", [1])], 1, 1).replace(b"ab", b"\xc3\x28"))
