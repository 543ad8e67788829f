"""ListOffsets of thousands of partitions without an object for each: kafka-python's request, packed and read in bulk.

The layouts are those of ListOffsetsRequest.json and ListOffsetsResponse.json, versions 4 to 11 (Kafka 2.1 and later);
all others, and an answer with tagged fields, are left to kafka-python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest

from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.varint import read_uvarint, uvarint
from exporter.model import TopicPartition

FIRST_VERSION, LAST_VERSION = 4, 11
FLEXIBLE = 6
"""The first version with tagged fields and compact lengths."""
WITH_TIMEOUT = 10

_INT16, _INT32 = Struct(">h"), Struct(">i")
_HEAD = Struct(">ib")
_ASKED, _ASKED_FLEXIBLE = Struct(">iiq"), Struct(">iiqB")
_ANSWERED, _ANSWERED_FLEXIBLE = Struct(">ihqqi"), Struct(">ihqqib")


class Refused(NamedTuple):
    """An answer for a partition that is no offset: an error code, or none and a negative number."""

    partition: TopicPartition
    code: int
    offset: int


class Offsets(NamedTuple):
    """The answer: an offset for each partition that has one."""

    throttle_time_ms: int
    offsets: dict[TopicPartition, int]
    refused: tuple[Refused, ...]


class OffsetsRequest(ListOffsetsRequest, init=False):
    """As kafka-python's, about partitions that a broker leads; ``topics`` is made only when somebody asks for it."""

    __slots__ = ("batch", "routes", "timestamps")
    batch: Sequence[TopicPartition]
    routes: Metadata
    timestamps: Mapping[TopicPartition, int]

    @property
    def asked(self) -> Mapping[str, Sequence[tuple[int, int, int]]]:
        """By topic the partitions, each with its leader epoch and timestamp."""
        asked: dict[str, list[tuple[int, int, int]]] = {}
        for partition in self.batch:
            row = partition.partition, self.routes.leader_epoch(partition), self.timestamps[partition]
            if (rows := asked.get(partition.topic)) is None:
                rows = asked[partition.topic] = []
            rows.append(row)
        return asked

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- kafka-python's fields
        if name != "topics":
            return super().__getattr__(name)  # type: ignore[no-untyped-call]  # kafka-python's
        kind = ListOffsetsRequest.ListOffsetsTopic
        return [
            kind(
                name=topic,
                partitions=[
                    kind.ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
                    for index, epoch, timestamp in rows
                ],
            )
            for topic, rows in self.asked.items()
        ]

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        """The request as bytes."""
        if version is not None:
            self.API_VERSION = version
        version = int(self.API_VERSION)
        if not FIRST_VERSION <= version <= LAST_VERSION:
            return bytes(self.plain().encode(version, header=header, framed=framed))
        flexible = version >= FLEXIBLE
        out = bytearray()
        if header:
            out += self.encode_header(flexible=flexible)  # type: ignore[no-untyped-call]  # kafka-python's
        out += _HEAD.pack(self.replica_id, self.isolation_level)
        out += _packed(self.asked, flexible=flexible)
        if version >= WITH_TIMEOUT:
            out += _INT32.pack(self.timeout_ms)
        out += b"\0" * flexible
        return _INT32.pack(len(out)) + bytes(out) if framed else bytes(out)

    def plain(self) -> ListOffsetsRequest:
        """The same as kafka-python's own."""
        fields = ("replica_id", "isolation_level", "timeout_ms", "topics")
        made = ListOffsetsRequest(**{name: getattr(self, name) for name in fields})
        if self.API_VERSION is not None:
            made.API_VERSION = self.API_VERSION
        made._header = self.header  # noqa: SLF001 -- kafka-python sets it by with_header alone
        return made

    def read_answer(self, body: bytes, kind: Any) -> Any:  # noqa: ANN401 -- kafka-python's class of the response
        """The answer as ``Offsets``, or as kafka-python reads it where its layout is another one.

        Raises what a corrupt answer makes of either.
        """
        version = self.API_VERSION
        if not FIRST_VERSION <= version <= LAST_VERSION:
            return kind.decode(body)
        found = read_offsets(body, flexible=version >= FLEXIBLE)
        return kind.decode(body) if found is None else found


def offsets_request(
    batch: Sequence[TopicPartition],
    routes: Metadata,
    timestamps: Mapping[TopicPartition, int],
    isolation: int,
    replica: int,
    timeout_ms: int,
) -> OffsetsRequest:
    """Asks for the offset of a timestamp in each partition, with the leader epochs of ``routes``."""
    request = OffsetsRequest(replica_id=replica, isolation_level=isolation, timeout_ms=timeout_ms)
    request.batch, request.routes, request.timestamps = batch, routes, timestamps
    return request


def _packed(asked: Mapping[str, Sequence[tuple[int, int, int]]], *, flexible: bool) -> bytes:
    """The topics of a request."""
    row = _ASKED_FLEXIBLE.pack if flexible else _ASKED.pack
    none = (0,) if flexible else ()
    out = bytearray(_count(len(asked), flexible=flexible))
    for topic, rows in asked.items():
        name = topic.encode()
        out += (uvarint(len(name) + 1) if flexible else _INT16.pack(len(name))) + name
        out += _count(len(rows), flexible=flexible)
        out += b"".join([row(*partition, *none) for partition in rows])
        out += b"\0" * flexible
    return bytes(out)


def read_offsets(body: bytes, *, flexible: bool) -> Offsets | None:
    """A response of version 4 to 11; None for one that has tagged fields.

    Raises ValueError, IndexError or struct.error for what is corrupt.
    """
    row, size = (_ANSWERED_FLEXIBLE, _ANSWERED_FLEXIBLE.size) if flexible else (_ANSWERED, _ANSWERED.size)
    view = memoryview(body)
    throttled: int = _INT32.unpack_from(body)[0]
    topics, at = _read_count(body, 4, flexible=flexible)
    offsets: dict[TopicPartition, int] = {}
    refused: list[Refused] = []
    make = tuple.__new__
    for _ in range(topics):
        if flexible:
            length, at = read_uvarint(body, at)
            length -= 1
        else:
            length, at = _INT16.unpack_from(body, at)[0], at + 2
        name = body[at : at + length].decode()
        rows, at = _read_count(body, at + length, flexible=flexible)
        end = at + rows * size
        if length < 0 or rows < 0 or end > len(body):
            raise ValueError("a list that is longer than its answer")
        for index, code, _, offset, _, *tags in row.iter_unpack(view[at:end]):
            partition: TopicPartition = make(TopicPartition, (name, index))  # as the class does, without its checks
            if tags and tags[0]:
                return None
            if code or offset < 0:
                refused.append(Refused(partition, code, offset))
            else:
                offsets[partition] = offset
        at = end
        if flexible:
            if body[at]:
                return None
            at += 1
    if flexible:
        if body[at]:
            return None
        at += 1
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes after the end of an answer")
    return Offsets(throttled, offsets, tuple(refused))


def _count(number: int, *, flexible: bool) -> bytes:
    return uvarint(number + 1) if flexible else _INT32.pack(number)


def _read_count(body: bytes, at: int, *, flexible: bool) -> tuple[int, int]:
    if not flexible:
        return _INT32.unpack_from(body, at)[0], at + 4
    number, at = read_uvarint(body, at)
    return number - 1, at
