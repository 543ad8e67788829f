"""Consumer groups: how far a read_committed reader is behind, and how much of that an open transaction causes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from exporter import catalogue
from exporter.kafka.client import AskError
from exporter.kafka.requests.groups import committed_offsets, describe_group_grant, list_groups
from exporter.kafka.requests.offsets import both_ends
from exporter.model import Deadline, Fact, Facts, Fault, GroupsBeyondLso, Sample, TopicPartition
from exporter.sources.cluster import Cluster


@dataclass(frozen=True, slots=True)
class GroupsSettings:
    """All groups while there are at most ``limit``; above that only those that ``include`` finds."""

    interval: float = 30.0
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    limit: int = 500
    timeout: float = 20.0


class GroupsSource:
    """Source ``groups`` of one cluster."""

    name = "groups"

    def __init__(self, cluster: Cluster, settings: GroupsSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self.pace = self.interval = settings.interval
        self.timeout = settings.timeout

    @property
    def target(self) -> str:
        return self._cluster.target

    @property
    def cluster(self) -> str:
        return self._cluster.name

    def close(self) -> None:
        """Nothing is held."""

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:  # noqa: ARG002 the protocol's
        client = self._cluster.client
        try:
            metadata = self._cluster.metadata(deadline, max_age=self.interval)
        except AskError as error:
            yield error.fault
            return
        listed = list_groups(client, metadata, deadline)
        yield from listed.faults
        # Groups without DESCRIBE are left out in silence.
        if (refused := describe_group_grant(client, metadata, deadline)) is not None:
            yield refused
        shard = self._cluster.shard
        names = sorted({group for groups in listed.values.values() for group in groups if shard.holds(group)})
        chosen, dropped = choose(names, self._settings)
        committed = committed_offsets(client, metadata, chosen, deadline)
        yield from committed.faults
        wanted = {partition for offsets in committed.values.values() for partition in offsets}
        # Commits first, then the ends: what moves in between can only overstate a lag. Groups keep offsets of topics
        # that are long gone.
        ends = both_ends(client, metadata, wanted, deadline)
        yield from ends.faults
        for group, offsets in committed.values.items():
            yield from group_samples(self.cluster, group, offsets, ends.stable, ends.high)
        yield GroupsBeyondLso(
            frozenset(
                (group, partition.topic)
                for group, offsets in committed.values.items()
                for partition, offset in offsets.items()
                if offset > ends.stable.get(partition, offset)
            )
        )
        if dropped:
            yield catalogue.SERIES_DROPPED(float(dropped), catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS.name)


def choose(groups: Iterable[str], settings: GroupsSettings) -> tuple[list[str], int]:
    """The groups to measure, and how many the limit leaves out. What ``exclude`` finds is never meant."""
    meant = [group for group in groups if not any(re.search(each, group) for each in settings.exclude)]
    if len(meant) <= settings.limit:
        return meant, 0
    chosen = [group for group in meant if any(re.search(each, group) for each in settings.include)]
    return chosen, len(meant) - len(chosen)


def group_samples(
    cluster: str,
    group: str,
    committed: Mapping[TopicPartition, int],
    stable: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Iterator[Sample]:
    """Sums over the group's partitions of each topic; absent for a topic of which a partition did not answer."""
    lag: dict[str, int] = {}
    blocked: dict[str, int] = {}
    unknown = {partition.topic for partition in committed if partition not in ends}
    for partition, offset in committed.items():
        topic = partition.topic
        if topic in unknown:
            continue
        lag[topic] = lag.get(topic, 0) + max(0, stable[partition] - offset)
        blocked[topic] = blocked.get(topic, 0) + max(0, ends[partition] - stable[partition])
    for topic, offsets in lag.items():
        yield catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS(float(offsets), cluster, group, topic)
        yield catalogue.GROUP_BLOCKED_OFFSETS(float(blocked[topic]), cluster, group, topic)
