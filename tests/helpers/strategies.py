"""Generated input for properties: records of the transaction log, encoded by an encoder of its own.

The encoder follows Kafka's TransactionLogKey.json and TransactionLogValue.json and shares nothing with the decoder that
it checks.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from exporter.model import TopicPartition
from exporter.transactions.machine.records import LogValue, Status, Tags

INT16 = (-(2**15), 2**15 - 1)
INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)

Topics = Sequence[tuple[str, Sequence[int]]]


def encode_key(transactional_id: str) -> bytes:
    text = transactional_id.encode()
    return struct.pack(">hh", 0, len(text)) + text


def uvarint(number: int) -> bytes:
    """ByteUtils.writeUnsignedVarint: seven bits a byte, the lowest first."""
    groups = [number & 0x7F]
    while number := number >> 7:
        groups.append(number & 0x7F)
    return bytes([group | 0x80 for group in groups[:-1]] + [groups[-1]])


def encode_value(
    layout: int,
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    status: int,
    topics: Topics | None,
    last_update_ms: int,
    start_ms: int,
    tags: Mapping[int, bytes] | None = None,
) -> bytes:
    """A value of layout 0 or 1; ``tags`` are raw fields by number, written in that order (layout 1 only)."""
    out = struct.pack(">hqhib", layout, producer_id, epoch, timeout_ms, status)
    out += _flexible(topics) if layout else _fixed(topics)
    out += struct.pack(">qq", last_update_ms, start_ms)
    if layout:
        out += uvarint(len(tags or {}))
        for number, raw in sorted((tags or {}).items()):
            out += uvarint(number) + uvarint(len(raw)) + raw
    return out


def _fixed(topics: Topics | None) -> bytes:
    if topics is None:
        return struct.pack(">i", -1)
    out = struct.pack(">i", len(topics))
    for name, numbers in topics:
        text = name.encode()
        out += struct.pack(">h", len(text)) + text + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return out


def _flexible(topics: Topics | None) -> bytes:
    if topics is None:
        return uvarint(0)
    out = uvarint(len(topics) + 1)
    for name, numbers in topics:
        text = name.encode()
        out += uvarint(len(text) + 1) + text
        out += uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers) + uvarint(0)
    return out


def kafka_tags(previous_producer_id: int, next_producer_id: int, client_version: int) -> dict[int, bytes]:
    """The tagged fields as TransactionLog.valueToBytes writes them: what has its default is left out."""
    tags = {}
    if previous_producer_id != -1:
        tags[0] = struct.pack(">q", previous_producer_id)
    if next_producer_id != -1:
        tags[1] = struct.pack(">q", next_producer_id)
    if client_version:
        tags[2] = struct.pack(">h", client_version)
    return tags


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
topics = st.none() | st.lists(
    st.tuples(names, st.lists(st.integers(*INT32), max_size=6)), max_size=5, unique_by=lambda topic: topic[0]
)
_KNOWN_TAGS = {
    0: st.integers(*INT64).map(lambda number: struct.pack(">q", number)),
    1: st.integers(*INT64).map(lambda number: struct.pack(">q", number)),
    2: st.integers(*INT16).map(lambda number: struct.pack(">h", number)),
    3: st.integers(*INT16).map(lambda number: struct.pack(">h", number)),
}
_UNKNOWN_TAGS = st.dictionaries(st.integers(4, 2**31 - 1), st.binary(max_size=200), max_size=3)
# What real coordinators write, so that the fast paths are met often: all of them, V1 and V2 clients, rotation.
_USUAL_TAGS = st.builds(
    kafka_tags, st.integers(-1, 2**40), st.just(-1) | st.integers(0, 2**40), st.sampled_from([0, 2])
)
tags = _USUAL_TAGS | st.builds(
    lambda known, unknown: {**known, **unknown}, st.fixed_dictionaries({}, optional=_KNOWN_TAGS), _UNKNOWN_TAGS
)


def decoded(
    layout: int,
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    status: int,
    named: Topics | None,
    last_update_ms: int,
    start_ms: int,
    raw: Mapping[int, bytes],
) -> LogValue:
    """Return what a decoder must make of it."""
    forms = {0: ">q", 1: ">q", 2: ">h", 3: ">h"}
    fields = list(Tags())
    for number, form in forms.items():
        if layout and number in raw:
            fields[number] = struct.unpack(form, raw[number])[0]
    partitions = None if named is None else tuple(TopicPartition(name, number) for name, row in named for number in row)
    return LogValue(
        layout, producer_id, epoch, timeout_ms, Status(status), partitions, last_update_ms, start_ms, Tags(*fields)
    )


@st.composite
def values(draw: st.DrawFn) -> tuple[bytes, LogValue]:
    """An encoded value and what it says."""
    layout = draw(st.integers(0, 1))
    fields = (
        layout,
        draw(st.integers(*INT64)),
        draw(st.integers(*INT16)),
        draw(st.integers(*INT32)),
        draw(st.integers(0, 5)),
        draw(topics),
        draw(st.integers(*INT64)),
        draw(st.integers(*INT64)),
    )
    raw = draw(tags) if layout else {}
    return encode_value(*fields, raw), decoded(*fields, raw)
