"""The fields of a transaction record's value, as the state machine takes them: the partitions stay encoded. No I/O.

``records`` decodes everything. This is the hot path of the tail: the two forms that nearly all records have are
recognised by their bytes, and an encoded list of partitions that an id had before is not parsed again.
"""

from __future__ import annotations

from exporter.transactions.entries import Entry
from exporter.transactions.records import (
    HEAD,
    HEAD_SIZE,
    PLAIN,
    PLAIN_SIZE,
    PREVIOUS_ID_TAGS,
    PREVIOUS_ID_TAGS_SIZE,
    TIMES,
    V2_CLIENT_TAGS,
    V2_CLIENT_TAGS_SIZE,
    V2_CLIENT_TAGS_START,
    UndecodableRecord,
    head,
    partitions_end,
    tags_at,
)

V2 = 2
"""ClientTransactionVersion of a Transactions V2 client."""
_NONE_FIXED = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00")  # layout 0: null, and an empty array
_NOT_PLAIN: tuple[int, ...] = (-1,) * 8


def fields_of(value: bytes, entry: Entry | None) -> tuple[int, int, int, int, int, int, int, int, bytes | None]:
    """Layout, producer id, epoch, timeout, status (a number of ``Status``), update and start (Unix ms), client version,
    section.

    The section is the encoded list of partitions, where the record names partitions and the list is not the one that
    ``entry`` has; else None. Raises UndecodableRecord.
    """
    # Where the record names partitions: their encoded form, when it is a new one.
    section: bytes | None = None
    rest = len(value) - PLAIN_SIZE
    client_version = -1
    if rest == PREVIOUS_ID_TAGS_SIZE and value.startswith(PREVIOUS_ID_TAGS, PLAIN_SIZE):
        client_version = 0
    elif (
        rest == V2_CLIENT_TAGS_SIZE
        and value.endswith(V2_CLIENT_TAGS)
        and value.startswith(V2_CLIENT_TAGS_START, PLAIN_SIZE)
    ):
        client_version = V2
    layout, producer_id, epoch, timeout_ms, status, count, update_ms, start_ms = (
        PLAIN.unpack_from(value) if client_version >= 0 else _NOT_PLAIN
    )
    # Empty and Complete records have this form. All other records take the slow path.
    if layout != 1 or count > 1 or not (status == 0 or 4 <= status <= 5):
        if len(value) <= HEAD_SIZE:
            head(value)
            raise UndecodableRecord("a value that ends before its partitions")
        layout, producer_id, epoch, timeout_ms, status = HEAD.unpack_from(value)
        if not (0 <= layout <= 1 and 0 <= status <= 5):
            head(value)
        if (
            entry is not None
            and entry.section
            and entry.layout == layout
            and value.startswith(entry.section, HEAD_SIZE)
        ):
            end = HEAD_SIZE + len(entry.section)
        elif layout == 1 and value[HEAD_SIZE] < 2:  # null, or an empty array
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
        rest = len(value) - end - 16
        if rest < 0:
            raise UndecodableRecord("a value that ends within its times")
        update_ms, start_ms = TIMES.unpack_from(value, end)
        if layout == 0:
            client_version = 0
            if rest:
                tags_at(value, 0, end + 16)
        elif rest == PREVIOUS_ID_TAGS_SIZE and value.startswith(PREVIOUS_ID_TAGS, end + 16):
            client_version = 0
        elif (
            rest == V2_CLIENT_TAGS_SIZE
            and value.endswith(V2_CLIENT_TAGS)
            and value.startswith(V2_CLIENT_TAGS_START, end + 16)
        ):
            client_version = V2
        else:
            client_version = tags_at(value, 1, end + 16).client_version
    return layout, producer_id, epoch, timeout_ms, status, update_ms, start_ms, client_version, section
