"""Offsets of a stream over the transaction log: its position, and what it reads next. No I/O, no clock.

The position of the job is one ``PartitionOffset`` for each partition of the log. What a batch commits has ``next`` of
them; a batch that was not committed is planned anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from exporter.transactions.outcome import DELIVERY_SLACK_MS, FENCE_WINDOW_MS
from exporter.transactions.source.log_range import Range

SETTLED_MS = FENCE_WINDOW_MS + DELIVERY_SLACK_MS + 1
"""Milliseconds without new records of a partition after which another read settles every abort in it."""


class PartitionOffset(NamedTuple):
    """``next`` is the offset to read next in one partition.

    ``seen_ms`` is the instant, in Unix milliseconds, at which the partition was known to end there, and -1 when it had
    more records; ``moved_ms`` is the instant of its last new record.
    """

    next: int
    seen_ms: int = -1
    moved_ms: int = -1


StreamOffset: TypeAlias = Mapping[int, PartitionOffset]

START = PartitionOffset(0)


class BatchRange(NamedTuple):
    """The offsets that one batch reads of one partition, and for how many ms no record had followed; -1: the partition
    had more records.

    A duration, not an instant: this clock and the brokers' may differ.
    """

    range: Range
    quiet_ms: int


class Look(NamedTuple):
    """High watermarks by partition, and those of the partitions where nothing waited for replication behind it.

    Asked for after ``asked_ms`` and answered before ``answered_ms``, in Unix milliseconds.
    """

    ends: Mapping[int, int]
    whole: frozenset[int]
    asked_ms: int
    answered_ms: int


def advanced(marks: StreamOffset, look: Look, most: int) -> dict[int, PartitionOffset]:
    """The marks to which the next batch reads, at most ``most`` offsets on: equal marks mean that nothing is to do.

    A partition keeps its mark without an answer, and for an end below its position, which is from a broker that is
    behind. A partition without new records is read once more after a while, which settles aborts that could have been
    fences; not while records wait for replication, as one of them may show the fence.
    """
    ends, whole, now_ms = look.ends, look.whole, look.asked_ms
    shares = shared_out({number: end - marks.get(number, START).next for number, end in ends.items()}, most)
    found = dict(marks)
    for number, end in ends.items():
        mark = marks.get(number, START)
        if end > mark.next or number not in marks:
            stop = min(end, mark.next + shares.get(number, 0))
            found[number] = PartitionOffset(stop, now_ms if stop == end and number in whole else -1, look.answered_ms)
        elif end == mark.next and number in whole and mark.seen_ms < mark.moved_ms + SETTLED_MS <= now_ms:
            found[number] = mark._replace(seen_ms=now_ms)
    return found


def shared_out(wanted: Mapping[int, int], most: int) -> dict[int, int]:
    """``most`` divided fairly: what one does not need of its share goes to the others."""
    left = most
    shares: dict[int, int] = {}
    waiting = sorted((number for number in wanted if wanted[number] > 0), key=lambda number: wanted[number])
    for at, number in enumerate(waiting):
        shares[number] = min(wanted[number], -(-left // (len(waiting) - at)))
        left -= shares[number]
    return shares


def planned(start: StreamOffset, end: StreamOffset, tasks: int) -> list[tuple[BatchRange, ...]]:
    """The ranges of a batch, for at most so many tasks of about the same size. Every partition has one, even if empty.

    A partition of the log is never split: its records are folded in their order.
    """
    pieces = [
        BatchRange(
            Range(number, start.get(number, START).next, mark.next),
            max(0, mark.seen_ms - mark.moved_ms) if mark.seen_ms >= 0 else -1,
        )
        for number, mark in end.items()
    ]
    bins: list[list[BatchRange]] = [[] for _ in range(max(1, min(tasks, len(pieces))))]
    sizes = [0] * len(bins)
    for piece in sorted(pieces, key=lambda piece: piece.range.start - piece.range.end):
        smallest = sizes.index(min(sizes))
        bins[smallest].append(piece)
        sizes[smallest] += max(0, piece.range.end - piece.range.start) + 1
    return [tuple(ranges) for ranges in bins if ranges]
