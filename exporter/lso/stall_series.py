"""The series and the fact of the stalled partitions. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from exporter import catalogue
from exporter.lso.facts import Stall, Stalls
from exporter.lso.holder_series import shown
from exporter.model import Sample, SampleBatch, TopicPartition


class ShownStalls(NamedTuple):
    """The stalls of one read: how many by topic, the series by partition, the fact for others."""

    by_topic: Counter[str]
    series: SampleBatch
    fact: Stalls

    @classmethod
    def of(
        cls,
        cluster: str,
        found: Sequence[Stall],
        unread: frozenset[TopicPartition],
    ) -> Self:
        kept = shown(found)
        samples = [sample for stall in kept for sample in stall_samples(cluster, stall)]
        dropped = float(len(found) - len(kept))
        samples.append(catalogue.SERIES_DROPPED(dropped, catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS.name))
        fact = Stalls(tuple(found), unread)
        return cls(Counter(stall.partition.topic for stall in found), SampleBatch(tuple(samples)), fact)


def stall_samples(cluster: str, stall: Stall) -> Iterator[Sample]:
    """The series of one stalled partition."""
    topic, partition = stall.partition.topic, str(stall.partition.partition)
    blocker = stall.blocker
    yield catalogue.LSO_STALLED_SINCE_TIMESTAMP_SECONDS(stall.since, cluster, topic, partition)
    lag = max(0, stall.high_watermark - stall.last_stable_offset)
    yield catalogue.LSO_LAG_OFFSETS(float(lag), cluster, topic, partition)
    if stall.leader is not None:
        yield catalogue.LSO_STALLED_LEADER_ID(float(stall.leader), cluster, topic, partition)
    yield catalogue.LSO_BLOCKER_INFO(
        1.0,
        cluster,
        blocker.application,
        topic,
        partition,
        blocker.transactional_id,
        "" if blocker.producer_id is None else str(blocker.producer_id),
        "" if blocker.producer_epoch is None else str(blocker.producer_epoch),
        str(blocker.start_offset),
        blocker.kind.value,
    )
