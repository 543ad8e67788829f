"""The groups that an unfinished transaction in a partition holds back, if they read read_committed.

Brokers do not know how a group reads: a group that has committed beyond the last stable offset does not wait there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from exporter.bounds.patterns import BoundedPattern
from exporter.cluster import Cluster
from exporter.config import ClusterConfig
from exporter.groups.facts import HolderGroups
from exporter.groups.source.groups import choose
from exporter.groups.source.holder_groups import HolderGroupReader
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import AskError
from exporter.kafka.requests.groups import committed_offsets, describe_group_grant, list_groups, unstable_offsets
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS
from exporter.lso.facts import Stall
from exporter.lso.proof.record_fate import RecordEnds
from exporter.model import Deadline, TopicPartition
from exporter.words import GroupKind


class WaitingGroup(NamedTuple):
    """A group whose commit is at or below the last stable offset. ``committed`` is None for a group that waits for its
    own offsets, in ``__consumer_offsets``.
    """

    name: str
    committed: int | None


class WaitingGroups(NamedTuple):
    """The groups, and messages about what could not be read: without any, these are all."""

    groups: tuple[WaitingGroup, ...]
    missing: tuple[str, ...]


class OwnOffsets(NamedTuple):
    """The groups whose offsets are committed in an open transaction, by partition of ``__consumer_offsets``: they get
    no position until it ends. ``missing`` are messages about what could not be read.
    """

    groups: Mapping[TopicPartition, tuple[str, ...]]
    missing: tuple[str, ...] = ()


def groups_of_offsets(cluster: Cluster, places: Collection[TopicPartition], deadline: Deadline) -> OwnOffsets:
    """The groups whose offsets wait in these partitions of ``__consumer_offsets``; no request where there are none."""
    wanted = {place.partition for place in places if place.topic == CONSUMER_OFFSETS}
    if not wanted:
        return OwnOffsets({})
    try:
        metadata = cluster.metadata(deadline, [CONSUMER_OFFSETS])
    except AskError as error:
        return OwnOffsets({}, (error.fault.detail,))
    count = len(metadata.topics.get(CONSUMER_OFFSETS, ())) or 1
    listed = list_groups(cluster.client, metadata, deadline)
    refused = describe_group_grant(cluster.client, metadata, deadline)
    names = sorted(name for some in listed.values.values() for name, kind in some if kind is not GroupKind.SHARE)
    here = [name for name in names if coordinator_partition(name, count) in wanted]
    unstable = unstable_offsets(cluster.client, metadata, here, deadline)
    found: dict[TopicPartition, tuple[str, ...]] = {}
    for name in sorted(name for name, its in unstable.values.items() if its):
        place = TopicPartition(CONSUMER_OFFSETS, coordinator_partition(name, count))
        found[place] = (*found.get(place, ()), name)
    faults = (*listed.faults, *([refused] if refused else ()), *unstable.faults)
    return OwnOffsets(found, tuple(dict.fromkeys(fault.detail for fault in faults)))


def groups_of_holders(cluster: Cluster, stalls: Sequence[Stall], deadline: Deadline) -> HolderGroups | None:
    """The groups of the holders of these partitions; None where no broker answers, and no request without stalls."""
    if not stalls:
        return None
    try:
        metadata = cluster.metadata(deadline, [CONSUMER_OFFSETS])
    except AskError:
        return None
    kinds = dict(row for rows in list_groups(cluster.client, metadata, deadline).values.values() for row in rows)
    return HolderGroupReader(cluster).read(metadata, stalls, (), None, kinds, deadline)


def waiting_groups(
    cluster: Cluster, settings: ClusterConfig, place: TopicPartition, ends: RecordEnds, deadline: Deadline
) -> WaitingGroups:
    """The groups with lag at the last stable offset of a partition. Raises AskError when no broker answers."""
    client = cluster.client
    metadata = cluster.metadata(deadline, [CONSUMER_OFFSETS])
    listed = list_groups(client, metadata, deadline)
    refused = describe_group_grant(client, metadata, deadline)
    faults = [fault.detail for fault in listed.faults] + ([refused.detail] if refused else [])
    names = sorted(name for some in listed.values.values() for name, kind in some if kind is not GroupKind.SHARE)
    include = [BoundedPattern(pattern, "groups.include") for pattern in settings.groups.include]
    exclude = [BoundedPattern(pattern, "groups.exclude") for pattern in settings.groups.exclude]
    names, dropped = choose(names, settings.groups.limit, include, exclude)
    if dropped:
        faults.append(f"{dropped} groups were not looked at: groups.limit, or groups.include")
    if place.topic == CONSUMER_OFFSETS:
        count = len(metadata.topics.get(CONSUMER_OFFSETS, ())) or 1
        here = [name for name in names if coordinator_partition(name, count) == place.partition]
        unstable = unstable_offsets(client, metadata, here, deadline)
        found = [WaitingGroup(name, None) for name, its in sorted(unstable.values.items()) if its]
        faults += [fault.detail for fault in unstable.faults]
    else:
        committed = committed_offsets(client, metadata, names, deadline)
        at = {name: its[place] for name, its in committed.values.items() if place in its}
        found = [WaitingGroup(name, offset) for name, offset in sorted(at.items()) if offset <= ends.stable]
        faults += [fault.detail for fault in committed.faults]
    return WaitingGroups(tuple(found), tuple(dict.fromkeys(faults)))
