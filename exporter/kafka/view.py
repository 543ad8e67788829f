"""The newest view of the cluster among its brokers' answers, which brokers answer from an older view, and which cluster
it is.

A broker that is cut off from the controller still answers Metadata, ListOffsets and DescribeProducers from its last
view of the cluster. No I/O; instants are on the monotonic clock.

An address may lead to another cluster while the process runs (a DNS name that moves, a standby). A cluster that was
formatted again with its old cluster id has a new topic id of ``__transaction_state`` (KIP-516): its offsets, epochs and
producer ids begin again, and say nothing about the earlier ones.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from exporter.kafka.faults import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata, PartitionMetadata
from exporter.model import Fault, Reason, TopicPartition

STALE_SECONDS = 5.0
"""Seconds by which a broker's view must be proven old before that is a fault: an election reaches a healthy broker
within a second.
"""
CONTRADICTION_SECONDS = 30.0
"""Seconds for which an old answer about leaders marks a broker as stale. Stale brokers are asked last."""
MILESTONES = 512
"""How many positions of the newest view are kept: a cluster with KRaft's defaults writes one every half second."""

WHAT_ENDS_IT = (
    "nothing of it is taken. This ends when the first one answers again, or with a restart of kafka-eos-exporter, which"
    " then reads this one"
)


class Merged(NamedTuple):
    """An answer with older partitions replaced by newer known ones, and which partitions were older."""

    metadata: Metadata
    older: tuple[TopicPartition, ...]


class _Topic(NamedTuple):
    topic_id: str
    seen: float
    partitions: Mapping[int, PartitionMetadata]


class NewestLeaders:
    """The highest leader epoch seen of each partition, and who leads in it."""

    def __init__(self) -> None:
        self._cluster_id = ""
        self._topics: dict[str, _Topic] = {}
        self._elected: dict[TopicPartition, float] = {}

    def merge(self, answer: Metadata, now: float) -> Merged:
        """Refuse entries older than the newest seen of the same topic, and store the others.

        Another cluster id, or another topic id under the same name, starts over: epochs of two topics do not compare.
        """
        if answer.cluster_id != self._cluster_id:
            self._cluster_id = answer.cluster_id
            self.forget()
        older: list[TopicPartition] = []
        topics = dict(answer.topics)
        for name, partitions in answer.topics.items():
            topic_id = answer.topic_ids.get(name, "")
            known = self._topics.get(name)
            if known is None or known.topic_id != topic_id:
                self._topics[name] = _Topic(topic_id, now, partitions)
            elif known.partitions != partitions:
                topics[name] = self._newer(name, known.partitions, partitions, older, now)
                self._topics[name] = known._replace(partitions=topics[name])
            elif known.partitions is not partitions:  # equal: the earlier answer need not stay in memory
                self._topics[name] = known._replace(partitions=partitions)
        return Merged(replace(answer, topics=topics) if older else answer, tuple(older))

    def elected(self, partition: TopicPartition) -> float:
        """When the newest leader epoch of this partition was first seen."""
        return self._elected.get(partition, self._topics[partition.topic].seen)

    def forget(self) -> None:
        """Start over: no broker confirms the earlier view."""
        self._topics.clear()
        self._elected.clear()

    def keep(self, topics: Mapping[str, object]) -> None:
        """Drop the topics that are gone."""
        for name in self._topics.keys() - topics.keys():
            del self._topics[name]
        self._elected = {partition: at for partition, at in self._elected.items() if partition.topic in self._topics}

    def _newer(
        self,
        topic: str,
        known: Mapping[int, PartitionMetadata],
        said: Mapping[int, PartitionMetadata],
        older: list[TopicPartition],
        now: float,
    ) -> Mapping[int, PartitionMetadata]:
        merged = dict(said)
        for number, before in known.items():
            after = said.get(number)
            if after is None or after.leader_epoch == before.leader_epoch:
                continue
            partition = TopicPartition(topic, number)
            if after.leader_epoch < before.leader_epoch:
                older.append(partition)
                merged[number] = before
            else:
                self._elected[partition] = now
        return merged


class Views:
    """How far each broker has read the cluster's metadata, and by how much it is behind another broker.

    The position is the epoch of the finalized features in ApiVersions, which KRaftMetadataCache.features fills with the
    offset of the metadata image. It grows by itself: the controller writes a record every half second
    (metadata.max.idle.interval.ms). With ZooKeeper it does not move on any broker, and none is behind.
    """

    def __init__(self) -> None:
        self._milestones: deque[tuple[float, int]] = deque(maxlen=MILESTONES)
        self._positions: dict[int, int] = {}
        self._behind: dict[int, float] = {}

    def saw(self, positions: Mapping[int, int], asked_at: float, now: float) -> None:
        """Take in the positions of brokers that were asked at ``asked_at`` and had answered by ``now``.

        A broker is behind by the time between the instant at which a later position was seen at another broker and the
        instant at which it was asked itself, so a slow answer does not count against it.
        """
        self._positions.update(positions)
        for node, position in positions.items():
            later = next((at for at, reached in self._milestones if reached > position), None)
            self._behind[node] = 0.0 if later is None else max(0.0, asked_at - later)
        newest = max(positions.values(), default=-1)
        if newest >= 0 and (not self._milestones or newest > self._milestones[-1][1]):
            self._milestones.append((now, newest))

    def furthest(self) -> int | None:
        """The broker that was seen at the latest position; None when none gave one."""
        return max(self._positions, key=self._positions.__getitem__, default=None)

    def position(self, node: int) -> int:
        """The position at which this broker was last seen; -1 when it gave none."""
        return self._positions.get(node, -1)

    def behind(self, node: int) -> float:
        """Seconds by which this broker's view was proven to be older than another one's, when it was last asked."""
        return self._behind.get(node, 0.0)

    def keep(self, nodes: Container[int]) -> None:
        """Drop the brokers that are gone."""
        self._behind = {node: seconds for node, seconds in self._behind.items() if node in nodes}
        self._positions = {node: position for node, position in self._positions.items() if node in nodes}


class ClusterView:
    """The combined view of one cluster's brokers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leaders = NewestLeaders()
        self._views = Views()
        self._contradicts: dict[int, tuple[float, float]] = {}  # how old a broker's last answer was, and when it came

    def merge(self, said: Metadata, node: int | None, asked_at: float, now: float) -> tuple[Metadata, bool]:
        """A broker's answer with older entries replaced by newer known ones, and whether any was older.

        ``node`` is None for a bootstrap server that is not known as a broker.
        """
        with self._lock:
            merged = self._leaders.merge(said, now)
            if node is not None:
                ages = (asked_at - self._leaders.elected(partition) for partition in merged.older)
                self._contradicts[node] = max(ages, default=0.0), now
        return merged.metadata, bool(merged.older)

    def saw(self, positions: Mapping[int, int], asked_at: float, now: float) -> None:
        """As ``Views.saw``. A broker that has read the newest metadata, or whose old answer is long ago, is current."""
        with self._lock:
            self._views.saw(positions, asked_at, now)
            self._contradicts = {
                node: (age, at)
                for node, (age, at) in self._contradicts.items()
                if now - at < CONTRADICTION_SECONDS and (node not in positions or self._views.behind(node))
            }

    def age(self, node: int) -> float:
        """Seconds by which this broker's last answer was proven old."""
        with self._lock:
            return max(self._views.behind(node), self._contradicts.get(node, (0.0, 0.0))[0])

    def is_stale(self, node: int) -> bool:
        return self.age(node) >= STALE_SECONDS

    def further_than(self, node: int) -> int | None:
        """The broker that has read the most of the cluster's metadata, if that is more than this broker has."""
        with self._lock:
            best = self._views.furthest()
            if best is None or self._views.position(best) <= self._views.position(node):
                return None
            return best

    def forget_leaders(self) -> None:
        """Drop the newest known leaders: no broker confirms them."""
        with self._lock:
            self._leaders.forget()

    def keep(self, topics: Mapping[str, object], nodes: Iterable[int]) -> None:
        """Drop the topics and brokers that are gone."""
        kept = frozenset(nodes)
        with self._lock:
            self._leaders.keep(topics)
            self._views.keep(kept)
            self._contradicts = {node: found for node, found in self._contradicts.items() if node in kept}


class ClusterIdentityCheck:
    """The cluster id and the topic id of the transaction log that were seen first. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cluster_id = ""
        self._topic_id = ""

    @property
    def known(self) -> bool:
        """Return whether a cluster was seen."""
        return bool(self._cluster_id)

    def check(self, label: str, said: Metadata) -> None:
        """Compare an answer to Metadata with the first. Raises AskError where it is of another cluster or another log.

        What an answer does not have (a topic id before Kafka 2.8, a topic that is missing) is not compared.
        """
        topic_id = said.topic_ids.get(TRANSACTION_STATE, "")
        with self._lock:
            self._cluster_id = self._cluster_id or said.cluster_id
            if said.cluster_id and said.cluster_id != self._cluster_id:
                text = f"{label} belongs to the cluster {said.cluster_id}, and this process reads {self._cluster_id}"
                raise AskError(Fault(Reason.IDENTITY, f"{text}: {WHAT_ENDS_IT}"))
            self._topic_id = self._topic_id or topic_id
            if topic_id and topic_id != self._topic_id:
                text = f"{label} has another {TRANSACTION_STATE}, with the topic id {topic_id} and not {self._topic_id}"
                why = "the cluster was formatted again with the same cluster id, or the topic was deleted"
                raise AskError(Fault(Reason.IDENTITY, f"{text}: {why}; {WHAT_ENDS_IT}"))
