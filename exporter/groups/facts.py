"""Consumer groups: values that other rooms take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from exporter.model import Fact, TopicPartition
from exporter.words import MemberMatch


@dataclass(frozen=True, slots=True)
class GroupsBeyondLso(Fact):
    """Groups, with the topic, whose running members committed on beyond a last stable offset that was read later.

    That is proof that they read uncommitted records: a reset of the group's offsets needs a group without members.
    ``unproven`` are other running groups that read topics of transactions, each with how many of its commits were seen
    soon after they were made: with read_committed, or behind.
    """

    pairs: frozenset[tuple[str, str]]
    unproven: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicReaders(Fact):
    """By topic, the groups with committed offsets of it, of the groups that are measured."""

    by_topic: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, committed: Mapping[str, Mapping[TopicPartition, int]]) -> Self:
        """From the committed offsets of groups."""
        found: dict[str, set[str]] = {}
        for group, offsets in committed.items():
            for place in offsets:
                found.setdefault(place.topic, set()).add(group)
        return cls({topic: tuple(sorted(groups)) for topic, groups in found.items()})


class BlockedGroup(NamedTuple):
    """A consumer group with offsets in a stalled partition, and how many offsets of it are withheld from the group."""

    group: str
    offsets: int


class Blocked(NamedTuple):
    """The groups of one partition: the ``worst`` few, those with most withheld offsets in all stalled partitions first,
    and the number of all.
    """

    worst: tuple[BlockedGroup, ...]
    total: int


@dataclass(frozen=True, slots=True)
class BlockedGroups(Fact):
    """By stalled partition, the groups whose committed offset is not beyond its last stable offset, of the groups that
    are measured. A partition that was not stalled or not answered at the last read is not in it.
    """

    by_partition: Mapping[TopicPartition, Blocked]


class HolderMember(NamedTuple):
    """A member of a group of a holder. ``match`` says whether its names show that it is the holder itself."""

    client_id: str
    host: str
    match: MemberMatch


class HolderGroup(NamedTuple):
    """A group whose offsets a holder's producer id committed in transactions.

    ``members`` are some of its ``member_count`` members, a matched one first.
    ``empty_since`` is when it was first seen without a member, Unix seconds, None while it has one. ``missing`` is why
    the members are not known, "" where they are.
    """

    group: str
    members: tuple[HolderMember, ...]
    member_count: int = 0
    empty_since: float | None = None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class HolderGroups(Fact):
    """By producer id of a holder its groups, or why none is known."""

    by_producer: Mapping[int, tuple[HolderGroup, ...] | str]


@dataclass(frozen=True, slots=True)
class GroupsHeld(Fact):
    """Groups that wait for an open transaction over their own offsets, by partition of ``__consumer_offsets``.

    A consumer of such a group that starts, or takes over a partition, gets no offset until the transaction ends.
    """

    by_partition: Mapping[TopicPartition, tuple[str, ...]]
