"""Finds groups that read uncommitted records: looks at their commits, often for a while, and at last stable offsets.

Last stable offsets do not go back (KIP-207 for those of a new leader), so a committed offset above one that was read
after it was read before it was committed: one look is proof. A transaction of 100 ms ends before the next look of a
slow poll, so looks are a few milliseconds apart. Kafka's own reset to the latest offset commits the high watermark: it
needs a group without members, so the offset has to move while the same members run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from exporter.cluster import Cluster
from exporter.groups.facts import GroupsBeyondLso
from exporter.kafka.requests.groups import GroupMember, committed_offsets, group_members
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.model import Deadline, TopicPartition
from exporter.words import GroupKind

MOST_AT_ONCE = 20
"""Groups that are looked at together."""
LOOKING_SECONDS = 2.5
"""How long the looks of one read go on: it delays the other results of the read, and a stop of the agent."""
MOST_ROUNDS = 20
AGAIN_SECONDS = 3600.0
"""After so many rounds of looks, ten minutes by default, a group has one in this time."""
ANSWER_SECONDS = 3.0
"""Of a read, for what is asked after the looks."""
MOST_CREDIT = 40.0
CREDIT_SECONDS = 300.0
"""Rounds of looks of all groups together at once, and seconds until there may be one more: a round takes some 0.3 s of
CPU time, and a cluster may have thousands of groups.
"""
LEAST_PAUSE = 0.005
SHARE = 2.0
"""Between two looks is a pause of so many times what a look takes, so that brokers are not asked all the time."""


class Proof(NamedTuple):
    """The topics of which a group was seen above a last stable offset, and its members then."""

    members: frozenset[GroupMember]
    topics: frozenset[str]


@dataclass(slots=True)
class Looks:
    """What was seen of a group without a proof. ``last`` is monotonic."""

    rounds: int = 0
    commits: int = 0
    last: float = 0.0
    running: bool = False


class IsolationLooks:
    """The looks at the groups of one cluster. Not thread-safe."""

    def __init__(self, cluster: Cluster, seconds: float, pause: Callable[[float], None]) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._pause = pause
        self._proven: dict[str, Proof] = {}
        self._looks: dict[str, Looks] = {}
        self._credit = MOST_CREDIT
        self._credited = cluster.clock.monotonic()

    def look(
        self,
        metadata: Metadata,
        readers: Mapping[str, AbstractSet[TopicPartition]],
        kinds: Mapping[str, GroupKind],
        deadline: Deadline,
    ) -> GroupsBeyondLso:
        """Look at some of the ``readers``: groups with their partitions of topics that transactions write to.

        A proof counts while a member runs that did at the time of the proof.
        """
        now = self._cluster.clock.monotonic()
        self._looks = {group: self._looks.get(group) or Looks() for group in readers if group not in self._proven}
        chosen = sorted(
            (group for group, looks in self._looks.items() if _is_due(looks, now)),
            key=lambda group: (self._looks[group].rounds, self._looks[group].last, group),
        )[: MOST_AT_ONCE if self._may_look(now) else 0]
        described = self._members({*chosen, *self._proven}, kinds, metadata, deadline)
        self._proven = {
            group: proof
            for group, proof in self._proven.items()
            if group not in described or described[group] & proof.members
        }
        for group in chosen:
            looks = self._looks[group]
            looks.rounds += 1
            looks.last = now
            looks.running = bool(described.get(group))
        running = {group: readers[group] for group in chosen if described.get(group)}
        if running:
            self._credit -= 1
        beyond = self._beyond(metadata, running, deadline) if running else {}
        again = self._members(beyond.keys(), kinds, metadata, deadline)
        for group, topics in beyond.items():
            if again.get(group) == described[group]:
                self._proven[group] = Proof(described[group], frozenset(topics))
                del self._looks[group]
        return GroupsBeyondLso(
            frozenset((group, topic) for group, proof in self._proven.items() for topic in proof.topics),
            {group: looks.commits for group, looks in sorted(self._looks.items()) if looks.running},
        )

    def _may_look(self, now: float) -> bool:
        self._credit = min(MOST_CREDIT, self._credit + (now - self._credited) / CREDIT_SECONDS)
        self._credited = now
        return self._credit >= 1

    def _members(
        self, groups: AbstractSet[str], kinds: Mapping[str, GroupKind], metadata: Metadata, deadline: Deadline
    ) -> Mapping[str, frozenset[GroupMember]]:
        asked = {group: kinds.get(group, GroupKind.CLASSIC) for group in sorted(groups)}
        return group_members(self._cluster.client, metadata, asked, deadline).values

    def _beyond(
        self, metadata: Metadata, running: Mapping[str, AbstractSet[TopicPartition]], deadline: Deadline
    ) -> Mapping[str, AbstractSet[str]]:
        """Groups that committed on to above a last stable offset, each with the topics: commits are read first."""
        client, clock = self._cluster.client, self._cluster.clock
        until = clock.monotonic() + min(self._seconds, deadline.remaining() - ANSWER_SECONDS)
        beyond: defaultdict[str, set[str]] = defaultdict(set)
        before = committed_offsets(client, metadata, running, deadline).values
        took = 0.0
        while before and beyond.keys() < running.keys() and clock.monotonic() < until:
            self._pause(max(LEAST_PAUSE, SHARE * took))
            began = clock.monotonic()
            committed = committed_offsets(client, metadata, running, deadline).values
            moved = [
                (group, place)
                for group, offsets in committed.items()
                for place in running[group] & offsets.keys()
                if offsets[place] > before.get(group, offsets).get(place, offsets[place])
            ]
            stable = end_offsets(client, metadata, {place for _, place in moved}, Isolation.READ_COMMITTED, deadline)
            for group, place in moved:
                if committed[group][place] > stable.values.get(place, committed[group][place]):
                    beyond[group].add(place.topic)
            for group, places in Counter(group for group, place in moved if place in stable.values).items():
                self._looks[group].commits += places
            before = {**before, **committed}
            took = clock.monotonic() - began
        return beyond


def _is_due(looks: Looks, now: float) -> bool:
    return looks.rounds < MOST_ROUNDS or now - looks.last >= AGAIN_SECONDS
