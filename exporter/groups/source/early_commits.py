"""Finds groups that read uncommitted records after the fact: by the stamps of their commits and of markers.

A reader of committed records gets a record after the marker of its transaction was written, so its commit is stamped
later. A commit that is stamped before the marker of a transaction with records below it was of records that could yet
be aborted. The coordinator of the group stamps the one, the leader of the partition the other: only where they are one
broker, and have been since (by the leader epochs of both batches), it is one clock. A clock that is set back could show
one such commit, and so could a reset of the group's offsets to the latest: two are needed, some seconds apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.cluster import Cluster
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.log.batch_writers import sample_batches
from exporter.kafka.log.batches import FetchedBatch
from exporter.kafka.log.offset_commits import OffsetCommits
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.model import Deadline, TopicPartition

MOST_COMMITS = 10
"""Newest commits of a group that are looked at in one read."""
MOST_LOOKS = 200
SAMPLE_BYTES = 32 << 10
"""Read of a partition for one commit: its newest record, and the markers after it."""
MARGIN_MS = 2
LEAST_SPAN = 8.0
RECENT = 1800.0
"""Seconds for which an early commit counts: a group that was mended is not accused for longer."""


class _GroupCommit(NamedTuple):
    group: str
    place: TopicPartition
    offset: int
    at_ms: int


@dataclass(slots=True)
class _Markers:
    """The batches around a commit. ``early``: a transaction with records below its offset was ended after it."""

    commit: _GroupCommit
    leader_epoch: int
    early: bool = False
    _open: set[int] = field(default_factory=set)

    def take(self, batch: FetchedBatch) -> None:
        if batch.control:
            if batch.producer_id in self._open and batch.leader_epoch == self.leader_epoch:
                self.early = self.early or batch.max_ms >= self.commit.at_ms + MARGIN_MS
            self._open.discard(batch.producer_id)
        elif batch.transactional and batch.base_offset < self.commit.offset:
            self._open.add(batch.producer_id)


class EarlyCommits:
    """The early commits of the groups of one cluster. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._newest: dict[str, deque[_GroupCommit]] = {}
        self._early: dict[tuple[str, str], list[float]] = {}

    def noted(
        self, commits: Iterable[OffsetCommits], metadata: Metadata, internal: Metadata, topics: AbstractSet[str]
    ) -> Iterator[OffsetCommits]:
        """Pass commits on, and note the newest ones of each group in these topics that are of one clock."""
        self._newest = {}
        count = len(internal.topics.get(CONSUMER_OFFSETS, ()))
        for commit in commits:
            if commit.topic in topics and count:
                own = TopicPartition(CONSUMER_OFFSETS, coordinator_partition(commit.group, count))
                if commit.leader_epoch == internal.leader_epoch(own):
                    for partition, offset in commit.positions:
                        if offset > 0 and metadata.leader(commit.topic, partition) == internal.leader(*own):
                            newest = self._newest.setdefault(commit.group, deque(maxlen=MOST_COMMITS))
                            place = TopicPartition(commit.topic, partition)
                            newest.append(_GroupCommit(commit.group, place, offset, commit.timestamp_ms))
            yield commit

    def look(self, metadata: Metadata, deadline: Deadline) -> frozenset[tuple[str, str]]:
        """Return the groups that are proven, with the topics, after a look at the noted commits."""
        rows = [list(reversed(commits)) for commits in self._newest.values()]
        left = [row[at] for at in range(MOST_COMMITS) for row in rows if at < len(row)][:MOST_LOOKS]
        while left and not deadline.over:
            now: dict[TopicPartition, _GroupCommit] = {}
            for commit in left:
                now.setdefault(commit.place, commit)
            left = [commit for commit in left if now[commit.place] is not commit]
            starts = {place: commit.offset - 1 for place, commit in now.items()}
            found, _ = sample_batches(
                self._cluster.client,
                metadata,
                starts,
                deadline,
                lambda place, now=now: _Markers(now[place], metadata.leader_epoch(place)),  # type: ignore[misc]
                SAMPLE_BYTES,
            )
            for place, markers in found.items():
                if markers.early:
                    instants = self._early.setdefault((markers.commit.group, place.topic), [])
                    if (at := markers.commit.at_ms / 1000) not in instants:
                        instants.append(at)
        since = self._cluster.clock.wall() - RECENT
        kept = {who: [at for at in instants if at >= since] for who, instants in self._early.items()}
        self._early = {who: instants for who, instants in kept.items() if instants}
        return frozenset(who for who, instants in self._early.items() if max(instants) - min(instants) >= LEAST_SPAN)
