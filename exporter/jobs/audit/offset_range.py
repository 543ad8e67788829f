"""Places in a topic, which offsets an audit covers, and what remains unknown.

The end is the last stable offset at the start, so that a topic that is being written to has an exact answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pyspark.sql import functions as f

from exporter.bounds.text import some
from exporter.kafka.ask import Answers
from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.log.markers import OffsetRange, read_markers
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import NONE_LATER, Isolation, end_offsets, offsets_at, start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column

POLICY = "cleanup.policy"
RETRY_SECONDS = 0.5
T = TypeVar("T")
_PLACES = re.compile(r"\d+:\d+(,\d+:\d+)*")


OFFSET_BITS = 44
"""A position is one integer: the partition above, the offset below. 17 trillion offsets, half a million partitions."""
_OFFSETS = (1 << OFFSET_BITS) - 1


class OffsetSpan(NamedTuple):
    """Half-open range of offsets of one partition."""

    partition: int
    start: int
    end: int


def place(packed: int) -> tuple[int, int]:
    """Partition and offset of a position."""
    return packed >> OFFSET_BITS, packed & _OFFSETS


def position_column() -> Column:
    """The position of a record with the columns ``partition`` and ``offset``."""
    return f.shiftleft(f.col("partition").cast("bigint"), OFFSET_BITS).bitwiseOR(f.col("offset")).alias("position")


def partition_of(position: str) -> Column:
    """The partition of a position in this column."""
    return f.shiftright(position, OFFSET_BITS).cast("int")


def offset_of(position: str) -> Column:
    """The offset of a position in this column."""
    return f.col(position).bitwiseAND(_OFFSETS)


def up_to(newest: Mapping[int, int]) -> str:
    """A condition on ``partition`` and ``offset``: not after the newest of its partition."""
    return before({number: offset + 1 for number, offset in newest.items()})


def before(ends: Mapping[int, int]) -> str:
    """A condition on ``partition`` and ``offset``: before the end of its partition."""
    tests = [f"(partition = {number} AND offset < {end})" for number, end in ends.items()]
    return " OR ".join(tests) or "false"


# --- The range of an audit ---


class BoundError(ValueError):
    """Neither an offset nor an instant; the text is what would be one."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range, see ``parse_bound``: ``whole`` is the very beginning, ``earliest`` the first offset that
    still exists.
    """

    text: str
    whole: bool = False
    earliest: bool = False
    instant_ms: int | None = None
    offset: int | None = None
    offsets: Mapping[int, int] | None = None


BEGINNING = Bound("beginning", whole=True)


def parse_bound(text: str) -> Bound:
    """Parse ``beginning``, ``earliest``, an offset, ``PARTITION:OFFSET,...`` or an ISO 8601 instant (UTC by default).

    Raises BoundError.
    """
    words = text.strip()
    if words == BEGINNING.text:
        return BEGINNING
    if words == "earliest":
        return Bound(words, earliest=True)
    if words.isascii() and words.isdigit():
        return Bound(words, offset=_offset(words))
    if _PLACES.fullmatch(words):
        pairs = [pair.split(":") for pair in words.split(",")]
        return Bound(words, offsets={int(partition): _offset(offset) for partition, offset in pairs})
    try:
        instant = datetime.fromisoformat(words)
    except ValueError:
        raise BoundError(
            f"{text!r} is no bound: give an offset, PARTITION:OFFSET,..., an instant like 2026-11-21T10:00:00Z,"
            " beginning or earliest"
        ) from None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    # ListOffsets has meanings of its own for negative times.
    return Bound(words, instant_ms=max(0, int(aware.timestamp() * 1000)))


def _offset(text: str) -> int:
    offset = int(text)
    if offset >= 1 << OFFSET_BITS:
        raise BoundError(f"{text} is beyond any offset")
    return offset


class Covered(NamedTuple):
    """``spans`` and high watermarks by partition. ``unknown`` has sentences on what was asked for and cannot be
    determined, ``notes`` other remarks. ``compacted``: records may have been removed.
    """

    spans: Mapping[int, OffsetSpan]
    high: Mapping[int, int]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    compacted: bool = False

    @property
    def offsets(self) -> int:
        return sum(span.end - span.start for span in self.spans.values())


def cover(
    client: ClusterClient,
    topic: str,
    begin: Bound,
    end: Bound | None,
    deadline: Deadline,
    at_most: Mapping[int, int] | None = None,
) -> Covered:
    """The offsets to audit. ``at_most`` bounds their ends further, by partition. Waits until the deadline
    for a leader that moves. Raises AskError.
    """
    return _settled(lambda: _cover(client, topic, begin, end, deadline, at_most), deadline)


def _cover(
    client: ClusterClient,
    topic: str,
    begin: Bound,
    end: Bound | None,
    deadline: Deadline,
    at_most: Mapping[int, int] | None,
) -> Covered:
    metadata = described(client, topic, deadline)
    partitions = [TopicPartition(topic, number) for number in sorted(metadata.topics[topic])]
    # The LSO first: the high watermark, read later, can then only overstate what is undecided.
    stable = _all(end_offsets(client, metadata, partitions, Isolation.READ_COMMITTED, deadline))
    high = _all(end_offsets(client, metadata, partitions, Isolation.READ_UNCOMMITTED, deadline))
    starts = _all(start_offsets(client, metadata, partitions, deadline))
    asked_start = _resolved(client, metadata, begin, starts, deadline)
    asked_end = stable if end is None else _resolved(client, metadata, end, high, deadline)
    spans = {}
    for partition in partitions:
        stop = min(asked_end[partition], stable[partition])
        if at_most is not None:
            stop = min(stop, at_most.get(partition.partition, 0))
        start = max(asked_start[partition], starts[partition])
        spans[partition.partition] = OffsetSpan(partition.partition, start, max(start, stop))
    config = client.config("topic", topic, (POLICY,), deadline)
    unknown = [*_retention(begin, asked_start, starts)]
    if isinstance(config, Fault):
        unknown.append(f"whether {topic} is compacted could not be asked: {config.detail}")
    compacted = not isinstance(config, Fault) and "compact" in config.get(POLICY, "")
    undecided = sum(max(0, high[partition] - stable[partition]) for partition in partitions)
    notes = []
    if end is not None and (
        beyond := [partition for partition in partitions if asked_end[partition] > stable[partition]]
    ):
        unknown.append(
            f"{some(beyond, 3)}: end {end.text} is beyond the last stable offset: what is there is not decided, or not"
            " written yet"
        )
    elif undecided:
        notes.append(f"{undecided} offsets at the end are not decided yet, and not audited")
    heads = {partition.partition: high[partition] for partition in partitions}
    return Covered(spans, heads, tuple(unknown), tuple(notes), compacted)


def lost_since(
    client: ClusterClient, topic: str, spans: Mapping[int, OffsetSpan], deadline: Deadline
) -> tuple[str, ...]:
    """Offsets of the spans that retention or DeleteRecords deleted during the read. Waits as ``cover``.

    Raises AskError.
    """
    partitions = [TopicPartition(topic, number) for number, span in spans.items() if span.end > span.start]
    starts = _settled(
        lambda: _all(start_offsets(client, described(client, topic, deadline), partitions, deadline)), deadline
    )
    gone = [partition for partition in partitions if starts[partition] > spans[partition.partition].start]
    return (f"{some(gone, 3)}: retention took records while they were read: run it again, from later",) if gone else ()


def markers_in(client: ClusterClient, topic: str, spans: Mapping[int, OffsetSpan], deadline: Deadline) -> int:
    """Number of transaction markers between these offsets; fewer where not all was read in time. Raises AskError."""
    ranges = {
        TopicPartition(topic, span.partition): OffsetRange(span.start, span.end)
        for span in spans.values()
        if span.end > span.start
    }
    read = read_markers(client, described(client, topic, deadline), ranges, deadline)
    return sum(len(part.markers) for part in read.values())


def _settled(read: Callable[[], T], deadline: Deadline) -> T:
    """Call ``read`` until no leader moves any more, and return its result: an audit of hours must not end for an
    election.
    """
    while True:
        try:
            return read()
        except AskError as error:
            if error.fault.reason is not Reason.NO_LEADER or deadline.remaining() < RETRY_SECONDS:
                raise
        time.sleep(RETRY_SECONDS)


def described(client: ClusterClient, topic: str, deadline: Deadline) -> Metadata:
    """Metadata with the topic in it. Raises AskError where there is none, or no leader."""
    metadata = client.metadata(deadline, [topic])
    if topic in metadata.errors:
        raise AskError(metadata.errors[topic])
    if not metadata.topics.get(topic):
        raise AskError(Fault(Reason.UNKNOWN_TOPIC, f"topic {topic} does not exist, or may not be seen"))
    return metadata


def _resolved(
    client: ClusterClient, metadata: Metadata, bound: Bound, else_: Mapping[TopicPartition, int], deadline: Deadline
) -> Mapping[TopicPartition, int]:
    if bound.whole:
        return dict.fromkeys(else_, 0)
    if bound.offset is not None:
        return dict.fromkeys(else_, bound.offset)
    if bound.offsets is not None:
        topic = next(iter(else_)).topic
        if missing := bound.offsets.keys() - {partition.partition for partition in else_}:
            raise AskError(Fault(Reason.UNKNOWN_TOPIC, f"topic {topic} has no partition {min(missing)} ({bound.text})"))
        return {partition: bound.offsets.get(partition.partition, else_[partition]) for partition in else_}
    if bound.instant_ms is not None:
        found = _all(offsets_at(client, metadata, dict.fromkeys(else_, bound.instant_ms), deadline))
        ends = _all(end_offsets(client, metadata, else_, Isolation.READ_UNCOMMITTED, deadline))
        return {partition: ends[partition] if offset == NONE_LATER else offset for partition, offset in found.items()}
    return else_


def _retention(
    begin: Bound, asked: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
) -> Iterable[str]:
    gone = [] if begin.earliest else [partition for partition in starts if asked[partition] < starts[partition]]
    if gone:
        yield (
            f"{some(gone, 3)}: the log begins later than {begin.text}: what retention took cannot be compared"
            " (begin: earliest asks about what is still there)"
        )


def _all(answers: Answers[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    if answers.faults:
        raise AskError(answers.faults[0])
    return answers.values
