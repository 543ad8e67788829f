"""The records that compaction may have removed from a topic, by the offsets that hold nothing any more."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.jobs.audit.fold import OffsetSpan
from exporter.jobs.audit.offset_range import described
from exporter.jobs.audit.read import TopicAccess
from exporter.kafka.log.control import OffsetRange, read_markers
from exporter.model import TopicPartition


def markers_in(access: TopicAccess, topic: str, spans: Mapping[int, OffsetSpan]) -> int:
    """Number of transaction markers between these offsets; fewer where not all was read in time. Raises AskError."""
    deadline = access.deadline()
    metadata = described(access.client, topic, deadline)
    ranges = {
        TopicPartition(topic, span.partition): OffsetRange(span.start, span.end)
        for span in spans.values()
        if span.end > span.start
    }
    return sum(len(part.markers) for part in read_markers(access.client, metadata, ranges, deadline).values())


def sentence(topic: str, taken: int) -> str:
    """Reasons for which the result of a compacted topic is unknown."""
    if not taken:
        return f"{topic} is compacted, and compaction has taken nothing of these offsets"
    return (
        f"{topic} is compacted, and up to {taken:,} of its records are no longer there: what is still there was judged"
        " (--from earliest asks about that alone)"
    )
