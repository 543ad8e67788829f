"""The records of ``__transaction_state``, the coordinator's journal: the only data of Kafka on how transactions end.

Layouts: TransactionLogKey v0 and TransactionLogValue v0 (fixed lengths) and v1 (flexible, with tagged fields; written
since ``transaction.version`` 1), as in Kafka's transaction-coordinator/src/main/resources/common/message. A key or
value of an unknown version, which newer brokers may write, raises ``UndecodableRecord``.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from exporter.catalogue import INTERNAL_TOPICS
from exporter.kafka.varint import read_uvarint
from exporter.model import TopicPartition

TOPIC = INTERNAL_TOPICS[0]


class Status(IntEnum):
    """TransactionState.java; 6 (Dead) and 7 (PrepareEpochFence) are never written to the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a two-phase-commit transaction (KIP-939): it has none."""

HEAD = Struct(">hqhib")
"""Version, producer id, producer epoch, timeout in ms, status: the same in both layouts, at the start of the value."""
HEAD_SIZE = HEAD.size
TIMES = Struct(">qq")
"""Last update and start, Unix milliseconds; they follow the partitions in both layouts."""
NO_TAGS = b"\x00"
# The tagged fields of real records. TransactionLog.valueToBytes always writes PreviousProducerId (tag 0,
# 8 bytes), and ClientTransactionVersion (tag 2, 2 bytes) for clients of Transactions V2, in which case it is 2.
PREVIOUS_ID_TAGS = b"\x01\x00\x08"
PREVIOUS_ID_TAGS_SIZE = 3 + 8
V2_CLIENT_TAGS_START = b"\x02\x00\x08"
V2_CLIENT_TAGS = b"\x02\x02\x00\x02"
V2_CLIENT_TAGS_SIZE = 3 + 8 + 4

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


class UndecodableRecord(ValueError):  # noqa: N818 it says what came, not what failed
    """A key or value that does not decode; ``newer`` says that its version is one this program does not know."""

    def __init__(self, text: str, *, newer: bool = False) -> None:
        super().__init__(text)
        self.newer = newer


class Tags(NamedTuple):
    """The tagged fields of layout v1, with Kafka's defaults."""

    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_version: int = 0
    next_producer_epoch: int = -1


_TAG_FIELDS = {0: (0, _INT64), 1: (1, _INT64), 2: (2, _INT16), 3: (3, _INT16)}


class LogValue(NamedTuple):
    """One decoded value. Times are Unix milliseconds, -1 where Kafka has none.

    ``partitions`` is None in Empty records.
    """

    layout: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: Status
    partitions: tuple[TopicPartition, ...] | None
    last_update_ms: int
    start_ms: int
    tags: Tags


def decode_key(key: bytes) -> str:
    """The transactional.id. Raises UndecodableRecord."""
    if len(key) < 4:
        raise UndecodableRecord(f"a key of {len(key)} bytes")
    if (version := _INT16.unpack_from(key)[0]) != 0:
        raise UndecodableRecord(f"a key of version {version}", newer=True)
    length = _INT16.unpack_from(key, 2)[0]
    if length != len(key) - 4:
        raise UndecodableRecord(f"a key that says {length} bytes and holds {len(key) - 4}")
    try:
        return key[4:].decode()
    except UnicodeDecodeError:
        raise UndecodableRecord("a key that is not UTF-8") from None


def decode_value(value: bytes) -> LogValue:
    """The whole value, checked to its last byte. Raises UndecodableRecord."""
    layout, producer_id, epoch, timeout_ms, status = head(value)
    end, partitions = partitions_at(value, layout)
    if len(value) < end + 16:
        raise UndecodableRecord("a value that ends within its times")
    last_update_ms, start_ms = TIMES.unpack_from(value, end)
    tags = tags_at(value, layout, end + 16)
    return LogValue(layout, producer_id, epoch, timeout_ms, Status(status), partitions, last_update_ms, start_ms, tags)


def head(value: bytes) -> tuple[int, int, int, int, int]:
    """Layout, producer id, epoch, timeout in ms and status of a value. Raises UndecodableRecord."""
    if len(value) >= 2 and not 0 <= (version := _INT16.unpack_from(value)[0]) <= 1:
        raise UndecodableRecord(f"a value of version {version}", newer=True)
    if len(value) < HEAD_SIZE:
        raise UndecodableRecord(f"a value of {len(value)} bytes")
    fields: tuple[int, int, int, int, int] = HEAD.unpack_from(value)
    if not 0 <= fields[4] <= Status.COMPLETE_ABORT:
        raise UndecodableRecord(f"the unknown status {fields[4]}", newer=True)
    return fields


def partitions_at(value: bytes, layout: int) -> tuple[int, tuple[TopicPartition, ...] | None]:
    """Where the partitions end, and what they are. Raises UndecodableRecord."""
    reader = _Reader(value, HEAD_SIZE)
    compact = layout == 1
    topics = reader.length(compact)
    if topics < 0:
        return reader.at, None
    found: list[TopicPartition] = []
    for _ in range(topics):
        topic = reader.text(reader.length(compact, short=True))
        count = reader.length(compact)
        if count < 0:
            raise UndecodableRecord("a topic without partitions")
        found += [TopicPartition(topic, reader.fixed(_INT32)) for _ in range(reader.fits(count, 4))]
        if compact:
            reader.skip_tags()
    return reader.at, tuple(found)


def partitions_end(value: bytes, layout: int) -> int:
    """Where the partitions end, without naming them. Raises UndecodableRecord.

    Short lists of plain names are skipped here; ``partitions_at`` decodes every other form.
    """
    end = _end_flexible(value) if layout == 1 else _end_fixed(value)
    return end or partitions_at(value, layout)[0]


def _end_flexible(value: bytes) -> int:
    topics = value[HEAD_SIZE]
    at = HEAD_SIZE + 1
    if topics >= 0x80:
        return 0
    try:
        for _ in range(topics - 1):
            name = at + 1
            length = value[at]  # one more than it is, as is the count: 0 means null
            at += length
            count = value[at]
            if not (0 < length < 0x80 > count > 0 and value[name:at].isascii()):
                return 0
            at += 4 * count - 3
            if value[at]:  # tagged fields
                return 0
            at += 1
    except IndexError:
        return 0
    return at


def _end_fixed(value: bytes) -> int:
    at = HEAD_SIZE + 4
    try:
        for _ in range(_INT32.unpack_from(value, HEAD_SIZE)[0]):
            name = at + 2
            at = name + _INT16.unpack_from(value, at)[0]
            count = _INT32.unpack_from(value, at)[0]
            if at < name or count < 0 or not value[name:at].isascii():
                return 0
            at += 4 + 4 * count
    except struct.error:
        return 0
    return at if at <= len(value) else 0


def tags_at(value: bytes, layout: int, at: int) -> Tags:
    """The tagged fields that end a value of layout v1; unknown ones are passed over. Raises UndecodableRecord."""
    fields = list(Tags())
    reader = _Reader(value, at)
    if layout == 1:
        for _ in range(reader.uvarint()):
            tag, size = reader.uvarint(), reader.uvarint()
            if tag in _TAG_FIELDS:
                index, form = _TAG_FIELDS[tag]
                if size != form.size:
                    raise UndecodableRecord(f"the tagged field {tag} of {size} bytes")
                fields[index] = reader.fixed(form)
            else:
                reader.skip(size)
    if reader.at != len(value):
        raise UndecodableRecord(f"{len(value) - reader.at} bytes after the end of a value")
    return Tags(*fields)


class _Reader:
    """Reads Kafka's primitive types and never past the end."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def fixed(self, form: Struct) -> int:
        self.skip(form.size)
        number: int = form.unpack_from(self.data, self.at - form.size)[0]
        return number

    def skip(self, size: int) -> None:
        self.at += size
        if size < 0 or self.at > len(self.data):
            raise UndecodableRecord("a value that ends too early")

    def fits(self, count: int, size: int) -> int:
        """The count, when that many items of this size can still follow: garbage must not cost memory."""
        if count * size > len(self.data) - self.at:
            raise UndecodableRecord("a value that ends too early")
        return count

    def uvarint(self) -> int:
        try:
            number, self.at = read_uvarint(self.data, self.at)
        except IndexError:
            raise UndecodableRecord("a value that ends too early") from None
        except ValueError as error:
            raise UndecodableRecord(str(error)) from None
        return number

    def length(self, compact: bool, *, short: bool = False) -> int:
        """The length of an array or string, -1 for null."""
        if compact:
            return self.uvarint() - 1
        return self.fixed(_INT16 if short else _INT32)

    def text(self, length: int) -> str:
        self.skip(length)
        try:
            return self.data[self.at - length : self.at].decode()
        except UnicodeDecodeError:
            raise UndecodableRecord("a topic that is not UTF-8") from None

    def skip_tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.skip(self.uvarint())
