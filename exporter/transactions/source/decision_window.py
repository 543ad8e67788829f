"""The decisions about one producer id around an instant, from the partition of the transaction log that has its id."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from exporter.cluster import Cluster
from exporter.kafka.ask import Answers
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, offsets_at
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.transactions.decided.decisions import LogRecord, decisions_of
from exporter.transactions.decided.record_owner import LogWindow
from exporter.transactions.machine.records import Status, UndecodableRecord, decode_key, decode_value, head
from exporter.transactions.source.log_range import Range, RangeReader, read_ranges

BEFORE_SECONDS = 960.0
"""Read from so long before the instant: the begin of a transaction tells the version of its client."""
AFTER_SECONDS = 120.0
MOST_RECORDS = 5_000_000


class _LogPosition(NamedTuple):
    offset: int
    leader_epoch: int | None
    at: float


def read_window(
    cluster: Cluster,
    metadata: Metadata,
    number: int,
    producer_id: int,
    instant: float,
    connect: Callable[[], RangeReader],
    deadline: Deadline,
) -> LogWindow:
    """Read partition ``number`` of the log around an instant, Unix seconds.

    Raises AskError where it may not be read, or has more records than ``MOST_RECORDS``.
    """
    place = TopicPartition(TRANSACTION_STATE, number)
    end = _only(end_offsets(cluster.client, metadata, [place], Isolation.READ_UNCOMMITTED, deadline), place)
    start = _offset_at(cluster, metadata, place, instant - BEFORE_SECONDS, end, deadline)
    until = _offset_at(cluster, metadata, place, instant + AFTER_SECONDS, end, deadline)
    reader = connect()
    records: list[LogRecord] = []
    breaks: list[tuple[float, float]] = []
    last: _LogPosition | None = None
    count = 0
    ranges = {number: Range(number, start, until)}
    try:
        for messages in read_ranges(reader, ranges, max(1.0, deadline.remaining()), cluster.clock):
            count += len(messages)
            if deadline.over or count > MOST_RECORDS:
                why = "was not read in time" if deadline.over else f"has more than {MOST_RECORDS:,} records"
                raise AskError(Fault(Reason.TIMEOUT, f"{place} {why} around {instant:.0f}"))
            for message in messages:
                at = message.timestamp()[1] / 1000
                seen = _LogPosition(message.offset(), message.leader_epoch(), at)
                breaks += _breaks(last, seen)
                last = seen
                key, value = message.key() or b"", message.value()
                if value is None or not _is_of(producer_id, value):
                    continue
                records.append(
                    LogRecord(seen.offset, seen.leader_epoch, round(at * 1000), decode_key(key), decode_value(value))
                )
    except UndecodableRecord as problem:
        raise AskError(Fault(Reason.MALFORMED, f"a record of {place} has {problem}")) from None
    finally:
        reader.close()
    return LogWindow(decisions_of(producer_id, records), tuple(breaks))


def _breaks(last: _LogPosition | None, seen: _LogPosition) -> list[tuple[float, float]]:
    """The span before a record in which others may be missing, if there is one."""
    if last is None:
        return [] if seen.offset == 0 else [(float("-inf"), seen.at)]
    if seen.offset == last.offset + 1 and seen.leader_epoch == last.leader_epoch is not None:
        return []
    return [(last.at, seen.at)]


def _is_of(producer_id: int, value: bytes) -> bool:
    """Return whether the record is of this producer id, or may have it as its previous. Raises UndecodableRecord."""
    _, found, epoch, _, status = head(value)
    if found == producer_id:
        return True
    rotated = epoch == 0 and status >= Status.COMPLETE_COMMIT
    return rotated and decode_value(value).tags.previous_producer_id == producer_id


def _offset_at(
    cluster: Cluster, metadata: Metadata, place: TopicPartition, instant: float, end: int, deadline: Deadline
) -> int:
    """The first offset at or after an instant; the end where there is none."""
    found = _only(offsets_at(cluster.client, metadata, {place: max(0, round(instant * 1000))}, deadline), place)
    return found if found >= 0 else end


def _only(answers: Answers[TopicPartition, int], place: TopicPartition) -> int:
    """The answer about the one partition. Raises AskError."""
    if place not in answers.values:
        unknown = Fault(Reason.UNKNOWN_TOPIC, f"the cluster does not show {place}")
        raise AskError(answers.unanswered.get(place, unknown))
    return answers.values[place]
