"""The fields of a transaction record's value, as the state machine takes them: the partitions stay encoded. No I/O.

``records`` decodes everything. This is the hot path of the tail: a value of layout 1 of usual length is taken apart in
one step, by its length, and an encoded list of partitions that was seen before is not parsed again.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TypeAlias

from exporter.transactions.machine.entries import Entry
from exporter.transactions.machine.records import (
    HEAD,
    HEAD_SIZE,
    PREVIOUS_ID_TAGS,
    PREVIOUS_ID_TAGS_SIZE,
    TIMES,
    V2_CLIENT_TAGS,
    V2_CLIENT_TAGS_SIZE,
    V2_CLIENT_TAGS_START,
    Status,
    UndecodableRecord,
    head,
    partitions_end,
    tags_at,
)
from exporter.transactions.transaction import V2

Fields: TypeAlias = tuple[int, int, int, int, int, int, int, int, bytes | None]
"""See ``fields_of``."""
_LAST_STATUS = int(Status.COMPLETE_ABORT)
_NONE_FIXED = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00")  # layout 0: null, and an empty array
_NONE_COMPACT = (b"\x00", b"\x01")  # layout 1: the same
_LONGEST_SECTION = 200
_AROUND = HEAD_SIZE + TIMES.size + PREVIOUS_ID_TAGS_SIZE
"""Bytes of a value of layout 1 that are not its partitions; a V2 client's has some more."""
_V2_MORE = V2_CLIENT_TAGS_SIZE - PREVIOUS_ID_TAGS_SIZE
_FORMS = [Struct(f"{HEAD.format}{size}sqq3s8x").unpack for size in range(_LONGEST_SECTION + 1)]
"""By the length of the partitions: head, partitions, last update, start, and the tags before the previous id."""
_V2_FORMS = [Struct(f"{HEAD.format}{size}sqq3s8x{_V2_MORE}x").unpack for size in range(_LONGEST_SECTION + 1)]


def fields_of(value: bytes, entry: Entry | None) -> Fields:
    """Layout, producer id, epoch, timeout, status (a number of ``Status``), update and start (Unix ms), client version,
    section.

    The section is the encoded list of partitions, where the record names partitions and the list is not the one that
    ``entry`` has; else None. Raises UndecodableRecord.
    """
    size = len(value) - _AROUND
    if not 0 < size <= _LONGEST_SECTION:
        return _fields_of_any(value, entry)
    # One byte is looked at first: that is quicker, and hardly any value but those of V2 clients ends with it.
    if value[-1] == V2 and size > _V2_MORE and value.endswith(V2_CLIENT_TAGS):
        size -= _V2_MORE
        client_version, expected, form = V2, V2_CLIENT_TAGS_START, _V2_FORMS[size]
    else:
        client_version, expected, form = 0, PREVIOUS_ID_TAGS, _FORMS[size]
    layout, producer_id, epoch, timeout_ms, status, named, update_ms, start_ms, tags = form(value)
    if layout != 1 or tags != expected or not 0 <= status <= _LAST_STATUS:
        return _fields_of_any(value, entry)
    section: bytes | None = None
    if size == 1:  # null, or an empty array
        if named not in _NONE_COMPACT:
            return _fields_of_any(value, entry)
        if 0 < status < 4:
            section = b""
    elif entry is None or named != entry.section or entry.layout != 1:
        section = _checked(named)
        if section is None:
            return _fields_of_any(value, entry)
    return layout, producer_id, epoch, timeout_ms, status, update_ms, start_ms, client_version, section


@lru_cache(maxsize=4096)
def _checked(section: bytes) -> bytes | None:
    """The encoded partitions of layout 1, the same object each time: ids share it, and it is checked once, which takes
    1 µs. None where these bytes are anything else.
    """
    try:
        return section if partitions_end(bytes(HEAD_SIZE) + section, 1) == HEAD_SIZE + len(section) else None
    except UndecodableRecord:
        return None


def _fields_of_any(value: bytes, entry: Entry | None) -> Fields:
    """As ``fields_of``, of a value in any form."""
    # Where the record names partitions: their encoded form, when it is a new one.
    section: bytes | None = None
    if len(value) <= HEAD_SIZE:
        head(value)
        raise UndecodableRecord("a value that ends before its partitions")
    layout, producer_id, epoch, timeout_ms, status = HEAD.unpack_from(value)
    if not (0 <= layout <= 1 and 0 <= status <= _LAST_STATUS):
        head(value)
    if entry is not None and entry.section and entry.layout == layout and value.startswith(entry.section, HEAD_SIZE):
        end = HEAD_SIZE + len(entry.section)
    elif layout == 1 and value[HEAD_SIZE : HEAD_SIZE + 1] in _NONE_COMPACT:
        end = HEAD_SIZE + 1
        if 0 < status < 4:
            section = b""
    elif layout == 0 and value[HEAD_SIZE : HEAD_SIZE + 4] in _NONE_FIXED:
        end = HEAD_SIZE + 4
        if 0 < status < 4:
            section = b""
    else:
        end = partitions_end(value, layout)
        section = value[HEAD_SIZE:end]
    rest = len(value) - end - TIMES.size
    if rest < 0:
        raise UndecodableRecord("a value that ends within its times")
    update_ms, start_ms = TIMES.unpack_from(value, end)
    at = end + TIMES.size
    if layout == 0:
        client_version = 0
        if rest:
            tags_at(value, 0, at)
    elif rest == PREVIOUS_ID_TAGS_SIZE and value.startswith(PREVIOUS_ID_TAGS, at):
        client_version = 0
    elif rest == V2_CLIENT_TAGS_SIZE and value.endswith(V2_CLIENT_TAGS) and value.startswith(V2_CLIENT_TAGS_START, at):
        client_version = V2
    else:
        client_version = tags_at(value, 1, at).client_version
    return layout, producer_id, epoch, timeout_ms, status, update_ms, start_ms, client_version, section
