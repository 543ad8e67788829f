"""The series of each topic: its lag to the LSO, its stalled partitions and its withheld records. No I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from exporter import catalogue
from exporter.core.derived import Derived
from exporter.lso.rules import Coordinators, LogProducer, Standing, holding_producer
from exporter.lso.tracker import StallTracker
from exporter.model import Sample, SampleBatch, TopicPartition
from exporter.transactions.facts import OpenTransaction

Earliest = Mapping[TopicPartition, float]


def earliest_starts(transactions: Iterable[OpenTransaction]) -> dict[TopicPartition, float]:
    """Return by partition when the oldest open transaction that writes to it began, in Unix seconds."""
    found: dict[TopicPartition, float] = {}
    for transaction in transactions:
        if transaction.started is None:
            continue
        for partition in transaction.partitions:
            found[partition] = min(transaction.started, found.get(partition, transaction.started))
    return found


class WithheldSince(NamedTuple):
    """The oldest withheld record of a topic: the first instant (monotonic) at which an LSO of it was seen to stay, and
    the first begin of a holder, in Unix seconds by the coordinators' clock, infinite where none is known.
    """

    seen: float
    began: float

    def age(self, now: float, monotonic: Callable[[float], float]) -> float:
        """Its age in seconds. ``now`` is a monotonic instant; ``monotonic`` gives that of the coordinators' clock."""
        return now - min(self.seen, monotonic(self.began))


def withheld_since(
    standing: Mapping[TopicPartition, Standing],
    producers: Callable[[TopicPartition], Iterable[LogProducer]],
    coordinators: Coordinators,
    earliest: Earliest,
) -> dict[str, WithheldSince]:
    """Return by topic since when its oldest record is there that read_committed readers are not given.

    A fetch with READ_COMMITTED ends at the last stable offset, the first record of the oldest open transaction of the
    partition. That record was written after its transaction began, and before the offset was seen to stay there.
    ``producers`` are the open transactions of a partition by DescribeProducers; while they are not known, ``earliest``
    decides. Where no coordinator has the holder, the record is at least as old as the LSO has stayed there.
    """
    found: dict[str, WithheldSince] = {}
    for partition, state in standing.items():
        who = holding_producer(producers(partition), state.last_stable_offset)
        if who is None:
            began = earliest.get(partition)
        else:
            known = coordinators.by_producer.get(who.producer_id)
            began = None if known is None else known.started
        seen, first = found.get(partition.topic, (math.inf, math.inf))
        found[partition.topic] = WithheldSince(min(seen, state.seen), first if began is None else min(first, began))
    return found


class _Withheld(NamedTuple):
    """Since when the records of topics are withheld, and the topics of which a producer with open records is known."""

    topics: dict[str, WithheldSince]
    described: frozenset[str]


class TopicSeries:
    """The topics of one cluster."""

    def __init__(self, watch: StallTracker) -> None:
        self._watch = watch
        self._lags = Derived(self._worst_lags)
        self._series = Derived(_lag_series)
        self._starts = Derived(earliest_starts)
        self._withheld = Derived(self._withheld_since)
        self._transactional: set[str] = set()  # topics in which a transaction was seen

    def lags(
        self,
        cluster: str,
        stalled: Counter[str],
        hanging: Mapping[str, int],
        unknown: AbstractSet[str],
    ) -> SampleBatch:
        """Return the series of every topic that was read. Of topics of ``unknown`` the hanging transactions are not
        known.
        """
        lags = dict.fromkeys(self._watch.readings.topics, 0) | self._lags(self._watch.version)
        return self._series(cluster, lags, dict(stalled), dict(hanging), frozenset(unknown))

    def withheld(
        self,
        cluster: str,
        transactions: tuple[OpenTransaction, ...],
        coordinators: Coordinators,
        now: float,
    ) -> Iterator[Sample]:
        """Yield the age of the oldest withheld record of each topic in which a transaction was seen; nothing where only
        partitions that cannot be read withheld one.
        """
        watch = self._watch
        starts = self._starts(transactions)
        since = self._withheld(watch.standing.version, watch.producers.version, coordinators, starts)
        ages = {topic: found.age(now, watch.anchor.monotonic) for topic, found in since.topics.items()}
        # Ends and LSOs are two answers: writes between them look like an open transaction for a moment, on any topic.
        stalled = (topic for topic, age in ages.items() if age >= watch.stall_after)
        self._transactional.update(since.described, stalled, (partition.topic for partition in starts))
        self._transactional.intersection_update(watch.readings.topics)
        for topic in sorted(self._transactional - ({place.topic for place in watch.unread_standing} - ages.keys())):
            yield catalogue.TOPIC_WITHHELD_RECORD_AGE_SECONDS(max(0.0, ages.get(topic, 0.0)), cluster, topic)

    def _withheld_since(
        self,
        _standing: int,
        _producers: int,
        coordinators: Coordinators,
        starts: Earliest,
    ) -> _Withheld:
        watch = self._watch
        topics = withheld_since(watch.standing, watch.producers.of, coordinators, starts)
        return _Withheld(topics, frozenset(place.topic for place in watch.standing if watch.producers.of(place)))

    def _worst_lags(self, _version: object) -> dict[str, int]:
        """By topic the largest lag: only where the LSO is below the high watermark is there one."""
        found: dict[str, int] = {}
        for partition in self._watch.standing:
            found[partition.topic] = max(found.get(partition.topic, 0), self._watch.readings[partition].lag)
        return found


def _lag_series(
    cluster: str, lags: dict[str, int], stalled: dict[str, int], hanging: dict[str, int], unknown: frozenset[str]
) -> SampleBatch:
    return SampleBatch(tuple(_lag_samples(cluster, lags, stalled, hanging, unknown)))


def _lag_samples(
    cluster: str, lags: dict[str, int], stalled: dict[str, int], hanging: dict[str, int], unknown: frozenset[str]
) -> Iterator[Sample]:
    for topic, lag in lags.items():
        yield catalogue.TOPIC_LSO_LAG_OFFSETS(float(lag), cluster, topic)
        yield catalogue.STALLED_PARTITIONS(float(stalled.get(topic, 0)), cluster, topic)
        if topic not in unknown:
            yield catalogue.HANGING_TRANSACTIONS(float(hanging.get(topic, 0)), cluster, topic)
