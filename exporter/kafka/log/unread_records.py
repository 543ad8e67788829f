"""How many records lie between a read_committed group's commit and the last stable offset, by the headers of batches.

Control records and aborted batches have offsets and are no records for such a group (FetchResponse's list of aborted
transactions, as the Java consumer uses it in CompletedFetch). Records stay compressed, and none is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.faults import TOPIC_AUTHORIZATION_FAILED
from exporter.kafka.log.batches import UNREADABLE, batches
from exporter.kafka.log.fetch import fetch_each
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation
from exporter.model import Deadline, Fault, TopicPartition

MOST_OFFSETS = 100
"""Offsets of the longest range that is counted."""
PARTITION_BYTES = 64 * 1024
MOST_PIECES = 200
"""Ranges of one call; with ``PARTITION_BYTES`` this limits a call to about 12 MB."""


class UnreadSpan(NamedTuple):
    """Offsets of a partition: ``start`` is the first, ``end`` the first not to look at."""

    partition: TopicPartition
    start: int
    end: int


class Unread(NamedTuple):
    """How many records each range has, where it could be read, and the topics without READ."""

    counts: Mapping[UnreadSpan, int]
    refused: frozenset[str] = frozenset()


def count_unread(client: BrokerAccess, metadata: Metadata, pieces: Iterable[UnreadSpan], deadline: Deadline) -> Unread:
    """Count the records of short ranges with one Fetch for each leader. A range without an answer is left out."""
    short = sorted(piece for piece in set(pieces) if 0 < piece.end - piece.start <= MOST_OFFSETS)[:MOST_PIECES]
    # When a partition has two ranges, the one that starts first is requested: it covers the other.
    starts = {piece.partition: piece.start for piece in reversed(short)}
    counts: dict[UnreadSpan, int] = {}
    refused: set[str] = set()
    for item in fetch_each(client, metadata, starts, PARTITION_BYTES, Isolation.READ_COMMITTED, deadline):
        if isinstance(item, Fault):
            continue
        place, part = item
        if part.error_code == TOPIC_AUTHORIZATION_FAILED:
            refused.add(place.topic)
        if part.error_code or not part.records:
            continue
        aborted = [
            (transaction.producer_id, transaction.first_offset) for transaction in part.aborted_transactions or ()
        ]
        for piece in (piece for piece in short if piece.partition == place):
            count = count_records(part.records, aborted, piece.start, piece.end)
            if count is not None:
                counts[piece] = count
    return Unread(counts, frozenset(refused))


def count_records(data: bytes, aborted: Sequence[tuple[int, int]], start: int, end: int) -> int | None:
    """Records from ``start`` to before ``end`` that a read_committed consumer gets; None where the data ends before.

    ``aborted`` has producer id and first offset of aborted transactions. In a batch with records removed by compaction,
    offsets are counted, at most as many as the batch has records.
    """
    waiting = sorted(aborted, key=itemgetter(1), reverse=True)
    active: set[int] = set()
    count, reached = 0, start
    try:
        for batch in batches(data):
            if reached >= end:
                break
            last = batch.last_offset
            while waiting and waiting[-1][1] <= last:
                active.add(waiting.pop()[0])
            if batch.control:
                # The marker of an aborted transaction: producers of commits are not in the list.
                active.discard(batch.producer_id)
            elif not (batch.transactional and batch.producer_id in active):
                offsets = min(end - 1, last) - max(start, batch.base_offset) + 1
                count += max(0, min(offsets, batch.records))
            reached = max(reached, last + 1)
    except UNREADABLE:
        return None
    return count if reached >= end else None
