"""The partitions whose offsets are read: those of the topics of the settings, by the metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from exporter.bounds.patterns import BoundedPattern, given_up
from exporter.cluster import Cluster
from exporter.core.derived import Derived
from exporter.kafka.requests.metadata import Metadata
from exporter.model import Deadline, Fault, TopicPartition


class SelectedPartitions:
    """The partitions of one cluster. ``metadata`` is None until it was read, and after ``read_again``."""

    def __init__(self, cluster: Cluster, include: tuple[str, ...], exclude: tuple[str, ...]) -> None:
        """``include`` and ``exclude`` are regular expressions, searched in the names of topics."""
        self._cluster = cluster
        self._include = tuple(BoundedPattern(pattern, "topics.include") for pattern in include)
        self._exclude = tuple(BoundedPattern(pattern, "topics.exclude") for pattern in exclude)
        self.metadata: Metadata | None = None
        self.read_at: float | None = None
        """The monotonic instant of the last metadata of all topics."""
        self.in_order: tuple[TopicPartition, ...] = ()
        """Those of a topic side by side."""
        self.own: frozenset[TopicPartition] = frozenset()
        """The same as a set."""
        self.faults: tuple[Fault, ...] = ()
        """Patterns that took too long on a topic."""
        self._unknown: frozenset[str] = frozenset()
        self._listed = Derived(self._partitions_of)
        self._of_leaders = Derived(_one_of_each_leader)
        self._topics = Derived(_topics_of)

    def read(self, deadline: Deadline, now: float) -> Metadata:
        """Read the metadata of all topics. Raises AskError without an answer."""
        self.metadata = metadata = self._cluster.metadata(deadline)
        self.read_at = now
        in_order = self._listed(metadata)
        if in_order is not self.in_order:
            self.in_order, self.own = in_order, frozenset(in_order)
        self.faults = tuple(given_up((*self._include, *self._exclude)))
        return metadata

    def read_again(self) -> None:
        """Drop the metadata: it lacks a topic, or has one that was deleted."""
        self.metadata = None

    def notice_topics(self, written: frozenset[TopicPartition]) -> None:
        """Read the metadata again, once, when a transaction writes to a topic that it does not have: the topic is new
        or deleted.
        """
        if self.metadata is not None:
            unknown = self._topics(written) - self.metadata.topics.keys()
            if unknown - self._unknown:
                self.read_again()
            self._unknown = unknown

    def of_leaders(self, metadata: Metadata) -> frozenset[TopicPartition]:
        """One partition of every leader, so that a failed broker without open transactions is noticed before the next
        sweep.
        """
        return self._of_leaders(metadata, self.in_order)

    def is_meant(self, topic: str, metadata: Metadata) -> bool:
        """Return whether the settings include a topic."""
        included = topic in metadata.internal or any(pattern.matches(topic) for pattern in self._include)
        return included and not any(pattern.matches(topic) for pattern in self._exclude)

    def _partitions_of(self, metadata: Metadata) -> tuple[TopicPartition, ...]:
        return tuple(
            TopicPartition(topic, number)
            for topic, partitions in metadata.topics.items()
            if self.is_meant(topic, metadata)
            for number in partitions
        )


def with_answer(metadata: Metadata, newest: Metadata) -> Metadata:
    """Return the metadata with a newer answer about some of its topics; the same object if that says the same."""
    if newest.brokers == metadata.brokers and all(
        metadata.topics.get(topic) == partitions and metadata.topic_ids.get(topic) == newest.topic_ids.get(topic)
        for topic, partitions in newest.topics.items()
    ):
        return metadata
    return replace(
        metadata,
        brokers=newest.brokers,
        topics={**metadata.topics, **newest.topics},
        topic_ids={**metadata.topic_ids, **newest.topic_ids},
    )


def _one_of_each_leader(metadata: Metadata, partitions: tuple[TopicPartition, ...]) -> frozenset[TopicPartition]:
    leaders = metadata.leaders(partitions)
    return frozenset({leader: partition for partition, leader in leaders.items()}.values())


def _topics_of(partitions: frozenset[TopicPartition]) -> frozenset[str]:
    return frozenset({partition.topic for partition in partitions})


class Sweep:
    """The partitions in turn: all are read in ``seconds``, with a read each ``interval`` seconds."""

    def __init__(self, seconds: float, interval: float) -> None:
        self._seconds, self._interval = seconds, interval
        self._least = 1 / max(1, math.floor(seconds / interval))  # a read a little early must not put off the last part
        self._order: tuple[TopicPartition, ...] = ()
        self._next = 0
        self._due = 0
        self._read_at: float | None = None
        self._at = 0.0

    def of(self, partitions: Iterable[TopicPartition]) -> None:
        """Sweep these from now on; those of a topic side by side."""
        self._order = tuple(partitions)
        self._next %= max(1, len(self._order))

    def due(self, now: float) -> frozenset[TopicPartition]:
        """The partitions to read at ``now`` (monotonic): the share of all that an interval is, or the time since
        ``read`` where that is longer, or less than half of an interval.
        """
        since = self._seconds if self._read_at is None else now - self._read_at
        least = self._least if since > self._interval / 2 else 0.0
        self._at, self._due = now, math.ceil(min(1.0, max(least, since / self._seconds)) * len(self._order))
        ahead = islice(self._order, self._next, self._next + self._due)
        again = islice(self._order, max(0, self._next + self._due - len(self._order)))
        return frozenset((*ahead, *again))

    def read(self) -> None:
        """Note that those of the last ``due`` were requested. Without that they are due again."""
        self._read_at = self._at
        self._next = (self._next + self._due) % max(1, len(self._order))
