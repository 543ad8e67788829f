"""The reasons for which decided transactions wait: markers that are not written yet, and the replicas of the
partitions.

A missing answer is no fault here: the stall is shown without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from exporter.core.derived import Derived
from exporter.kafka.ask import NAMED_TOPICS
from exporter.kafka.client import AskError, ClusterClient
from exporter.kafka.requests.configs import MIN_ISR
from exporter.kafka.requests.metadata import Metadata, PartitionMetadata
from exporter.kafka.requests.transactions import describe_transactions
from exporter.lso.rules import Replication
from exporter.model import Clock, Deadline, Fault, TopicPartition

MIN_ISR_INTERVAL = 60.0
"""Seconds between two reads of min.insync.replicas of topics in which a decided transaction waits."""
DECIDED = frozenset({"PrepareCommit", "PrepareAbort"})
"""TransactionState.java."""
MOST_ASKED = 200
"""Largest number of decided transactions whose missing markers are requested in one read."""


class Markers:
    """Reads the state of decided transactions that hold stalled partitions of one cluster."""

    def __init__(self, client: ClusterClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._min_isr: dict[str, int] = {}
        self._asked: frozenset[str] = frozenset()
        self._asked_at = float("-inf")
        self._replicas = Derived(replication)

    def pending(
        self, metadata: Metadata, transactional_ids: Iterable[str], deadline: Deadline
    ) -> dict[int, frozenset[TopicPartition]]:
        """The partitions whose markers the coordinators still wait for, by producer id.

        The log names all partitions of a decided transaction; its coordinator removes those whose marker is written and
        replicated (TransactionMetadata.removePartition). None for one that has completed since.
        """
        asked = sorted(transactional_ids)[:MOST_ASKED]
        described = describe_transactions(self._client, metadata, asked, deadline)
        return {
            answer.producer_id: answer.partitions if answer.state in DECIDED else frozenset()
            for answer in described.values.values()
        }

    def in_sync(self, metadata: Metadata, topics: AbstractSet[str], deadline: Deadline) -> Metadata:
        """Metadata with the current replicas of these topics; also reads their min.insync.replicas."""
        named = sorted(topics)[:NAMED_TOPICS]
        now = self._clock.monotonic()
        if now - self._asked_at >= MIN_ISR_INTERVAL or not self._asked.issuperset(named):
            self._asked, self._asked_at = frozenset(named), now
            answers = self._client.configs("topic", named, (MIN_ISR,), deadline)
            self._min_isr = {
                topic: int(answer[MIN_ISR])
                for topic, answer in answers.items()
                if not isinstance(answer, Fault) and answer.get(MIN_ISR, "").isdigit()
            }
        try:
            newest = self._client.metadata(deadline, named)
        except AskError:
            return metadata
        return replace(metadata, topics={**metadata.topics, **newest.topics})

    def replication(
        self, metadata: Metadata, partitions: Mapping[TopicPartition, object]
    ) -> Mapping[TopicPartition, Replication]:
        """The replicas of those partitions that the metadata has; the same object while both are."""
        return self._replicas(metadata.topics, self._min_isr, frozenset(partitions))


def replication(
    topics: Mapping[str, Mapping[int, PartitionMetadata]],
    min_isr: Mapping[str, int],
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, Replication]:
    """Return the replicas of those partitions that the metadata has."""
    found = {}
    for partition in partitions:
        if (known := topics.get(partition.topic, {}).get(partition.partition)) is not None:
            found[partition] = Replication(known.leader, known.replicas, known.isr, min_isr.get(partition.topic))
    return found
