"""The groups whose offsets the holder of a stalled partition commits, and their live members.

A commit in a transaction has the producer id in the header of its batch (KIP-98), so the newest batches of
``__consumer_offsets`` show which groups are the holder's; its coordinator knows the members of a group with client.id
and address. Read for holders only, and until a group was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice

from exporter.cluster import Cluster
from exporter.groups.facts import HolderGroup, HolderGroups, HolderMember
from exporter.kafka.log.offset_commits import newest_commits
from exporter.kafka.requests.groups import GroupMember, group_members
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.lso.facts import Blocker, Stall
from exporter.model import Deadline, Fault
from exporter.transactions.facts import OffsetPartitions, OpenTransaction
from exporter.words import GroupKind, MemberMatch

MOST_HOLDERS = 20
MOST_GROUPS = 5
"""Groups of one holder."""
MOST_MEMBERS = 10
"""Members of a group that are listed, a matched one first."""
READ_SECONDS = 5.0
AGAIN_SECONDS = 120.0
"""Between two searches for the groups of the same holders."""
LEAST_NAME = 4
"""Letters of a name that may show which member an id is of."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class HolderGroupReader:
    """Remembers, while a producer holds partitions, what its groups are. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._groups: dict[int, tuple[str, ...]] = {}
        self._empty_since: dict[str, float] = {}
        self._without: frozenset[int] = frozenset()  # those that the last search found no group of
        self._searched = 0.0
        self._missing = ""

    def read(
        self,
        metadata: Metadata,
        stalls: Iterable[Stall],
        opened: Iterable[OpenTransaction],
        used: Mapping[str, OffsetPartitions] | None,
        kinds: Mapping[str, GroupKind],
        deadline: Deadline,
    ) -> HolderGroups:
        """``opened`` and ``used`` say which partitions of ``__consumer_offsets`` the holders' transactions name; all
        are read where the transaction log is not (``used`` is None).
        """
        every = {who.producer_id: who for who in (stall.blocker for stall in stalls) if who.producer_id is not None}
        holders = dict(islice(every.items(), MOST_HOLDERS))
        self._groups = {producer_id: groups for producer_id, groups in self._groups.items() if producer_id in holders}
        left, now = frozenset(holders.keys() - self._groups.keys()), self._cluster.clock.monotonic()
        if left - self._without or (left and now >= self._searched + AGAIN_SECONDS):
            self._missing = self._find(metadata, holders, opened, used, deadline)
            self._searched, self._without = now, left - self._groups.keys()
        named = sorted({group for groups in self._groups.values() for group in groups})
        described = group_members(
            self._cluster.client, metadata, {name: kinds.get(name, GroupKind.CLASSIC) for name in named}, deadline
        )
        self._empty_since = {
            name: self._empty_since.get(name, self._cluster.clock.wall())
            for name in named
            if (name in self._empty_since if name in described.unanswered else not described.values.get(name))
        }
        found: dict[int, tuple[HolderGroup, ...] | str] = {}
        for producer_id, blocker in holders.items():
            if groups := self._groups.get(producer_id):
                found[producer_id] = tuple(
                    HolderGroup(name, (), missing=described.unanswered[name].detail)
                    if name in described.unanswered
                    else self._group(name, described.values.get(name, frozenset()), blocker)
                    for name in groups
                )
            else:
                found[producer_id] = self._missing
        return HolderGroups(found)

    def _find(
        self,
        metadata: Metadata,
        holders: Mapping[int, Blocker],
        opened: Iterable[OpenTransaction],
        used: Mapping[str, OffsetPartitions] | None,
        deadline: Deadline,
    ) -> str:
        """Look for the groups of the holders that have none yet. Returns why some of them have none."""
        left = holders.keys() - self._groups.keys()
        every = {place.partition for place in metadata.partitions(CONSUMER_OFFSETS)}
        numbers = {
            place.partition
            for transaction in opened
            if transaction.producer_id in left
            for place in transaction.partitions
            if place.topic == CONSUMER_OFFSETS
        }
        for producer_id in left:
            own = used.get(holders[producer_id].application) if used is not None else None
            numbers |= own.partitions if own is not None else every
        if not every:
            return f"grant READ on Topic:{CONSUMER_OFFSETS}"
        faults: list[Fault] = []
        groups: dict[int, dict[str, None]] = {}
        wanted = sorted(numbers & every)
        for commit in newest_commits(self._cluster.client, metadata, wanted, faults, deadline.within(READ_SECONDS)):
            if commit.transactional and commit.producer_id in left:
                groups.setdefault(commit.producer_id, {})[commit.group] = None
        self._groups |= {producer_id: tuple(names)[:MOST_GROUPS] for producer_id, names in groups.items()}
        if faults:
            return faults[0].detail
        if not wanted:
            return "its transactions have committed no offsets of a group since the log is read"
        return "none of the newest offset commits is of its producer id"

    def _group(self, name: str, members: Iterable[GroupMember], blocker: Blocker) -> HolderGroup:
        matches = {member: member_match(blocker.transactional_id, name, member) for member in members}
        best = max(matches.values(), key=_STRENGTH.index, default=MemberMatch.NO)
        if list(matches.values()).count(best) > 1:  # names that several members share show none of them
            matches = dict.fromkeys(matches, MemberMatch.NO)
        if best is MemberMatch.NO and len(matches) == 1:
            matches = dict.fromkeys(matches, MemberMatch.LIKELY)
        ranked = sorted(matches, key=lambda member: (-_STRENGTH.index(matches[member]), member.client_id, member.host))
        return HolderGroup(
            name,
            tuple(HolderMember(member.client_id, member.host, matches[member]) for member in ranked[:MOST_MEMBERS]),
            len(matches),
            self._empty_since.get(name),
        )


_STRENGTH = (MemberMatch.NO, MemberMatch.LIKELY, MemberMatch.CERTAIN)


def member_match(transactional_id: str, group: str, member: GroupMember) -> MemberMatch:
    """Return whether the names of a member show that it is the producer of this id.

    Certain: the id has the UUID of the member's client.id, as Kafka Streams makes both of its process id. Likely: one
    of id and group.instance.id, client.id or address has the other in it, beyond the name of the group. Every instance
    counts Java's default client.ids, consumer-GROUP-1, from 1: they show nothing.
    """
    ids = set(_UUID.findall(transactional_id))
    if ids & set(_UUID.findall(member.client_id)):
        return MemberMatch.CERTAIN
    client_id = "" if member.client_id.startswith(f"consumer-{group}-") else member.client_id
    for name in (member.instance_id, client_id, member.host):
        own = name.removeprefix(group).strip("-._")
        if len(own) >= LEAST_NAME and transactional_id and (own in transactional_id or transactional_id in name):
            return MemberMatch.LIKELY
    return MemberMatch.NO
