"""Consumer groups: how far a read_committed reader is behind, and how much of that an open transaction causes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from exporter import catalogue
from exporter.bounds.patterns import BoundedPattern, given_up
from exporter.bounds.text import some
from exporter.cluster import Cluster, KafkaSource
from exporter.groups.facts import (
    Blocked,
    BlockedGroup,
    BlockedGroups,
    GroupsHeld,
    TopicReaders,
)
from exporter.groups.source.holder_groups import HolderGroupReader
from exporter.groups.source.isolation import LOOKING_SECONDS, IsolationLooks
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import AskError
from exporter.kafka.log.unread_records import UnreadSpan, count_unread
from exporter.kafka.requests.groups import (
    committed_offsets,
    describe_group_grant,
    group_members,
    list_groups,
    unstable_offsets,
)
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.kafka.requests.offsets import Ends, both_ends
from exporter.lso.facts import Stalls
from exporter.model import Deadline, Fact, Facts, Fault, Notes, Sample, TopicPartition
from exporter.settings.sections import GroupsConfig
from exporter.transactions.facts import OpenTransactions, TransactionUse
from exporter.words import GroupKind

MOST_NAMED = 3
MOST_BLOCKED = 5
"""Blocked groups that are named for one partition: there may be hundreds of groups and thousands of partitions."""
NEWER = frozenset({GroupKind.CONSUMER, GroupKind.SHARE, GroupKind.STREAMS})
"""Kinds of groups whose members are counted: few clusters have them in numbers, and each has a request of its own."""
TIMEOUT_SECONDS = 20.0
REFUSALS_KEPT = 20
"""Number of reads after which topics that could not be read are tried again."""


class GroupsSource(KafkaSource):
    """Source ``groups`` of one cluster."""

    name = "groups"

    def __init__(
        self,
        cluster: Cluster,
        settings: GroupsConfig,
        looking: float = LOOKING_SECONDS,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """``looking``: for how many seconds of each read groups are looked at for their isolation."""
        super().__init__(cluster, settings.interval, TIMEOUT_SECONDS + looking)
        self._settings = settings
        self._include = tuple(BoundedPattern(pattern, "groups.include") for pattern in settings.include)
        self._exclude = tuple(BoundedPattern(pattern, "groups.exclude") for pattern in settings.exclude)
        self._holders = HolderGroupReader(cluster)
        self._looks = IsolationLooks(cluster, looking, pause)
        self._counted: dict[UnreadSpan, int] = {}
        self._unreadable: frozenset[str] = frozenset()
        self._reads = 0

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:
        client = self._cluster.client
        try:
            metadata = self._cluster.metadata(deadline, max_age=self.interval)
        except AskError as error:
            yield error.fault
            return
        listed = list_groups(client, metadata, deadline)
        yield from listed.faults
        # Brokers leave out groups without DESCRIBE and report no error.
        if (refused := describe_group_grant(client, metadata, deadline)) is not None:
            yield refused
        kinds = {group: kind for groups in listed.values.values() for group, kind in groups}
        names = sorted(group for group, kind in kinds.items() if kind is not GroupKind.SHARE)
        chosen, dropped = choose(names, self._settings.limit, self._include, self._exclude)
        yield from given_up((*self._include, *self._exclude))
        committed = committed_offsets(client, metadata, chosen, deadline)
        yield from committed.faults
        wanted = {partition for offsets in committed.values.values() for partition in offsets}
        # Commits first, then the ends: changes in between can only overstate a lag. Groups keep offsets of deleted
        # topics.
        ends = both_ends(client, metadata, wanted, deadline)
        yield from ends.faults
        for group, offsets in committed.values.items():
            yield from group_samples(self.cluster, group, offsets, ends.stable, ends.high)
        every = not (dropped or listed.faults or refused or committed.faults)
        yield blocked_groups(facts.get(Stalls), committed.values, ends, every_group=every)
        yield from self._records(metadata, committed.values, ends.stable, deadline)
        yield from self._members(metadata, kinds, chosen, deadline)
        yield from self._held(metadata, chosen, facts.get(Stalls), deadline)
        yield from self._of_holders(metadata, kinds, facts, deadline)
        if dropped:
            yield catalogue.SERIES_DROPPED(float(dropped), catalogue.GROUP_READ_COMMITTED_LAG_OFFSETS.name)
        use = facts.get(TransactionUse)
        readers = readers_of_transactions(committed.values, ends, use.topics if use is not None else frozenset())
        yield TopicReaders.of(committed.values)
        yield self._looks.look(metadata, readers, kinds, deadline)

    def _records(
        self,
        metadata: Metadata,
        committed: Mapping[str, Mapping[TopicPartition, int]],
        stable: Mapping[TopicPartition, int],
        deadline: Deadline,
    ) -> Iterator[Sample | Fact]:
        """The lag in records, where it is known. The count between two offsets does not change, so it is cached."""
        pieces = {
            UnreadSpan(partition, offset, stable[partition])
            for offsets in committed.values()
            for partition, offset in offsets.items()
            if offset < stable.get(partition, offset)
        }
        self._counted = {piece: count for piece, count in self._counted.items() if piece in pieces}
        asked = {piece for piece in pieces - self._counted.keys() if piece.partition.topic not in self._unreadable}
        found = count_unread(self._cluster.client, metadata, asked, deadline)
        self._counted.update(found.counts)
        self._unreadable = (self._unreadable | found.refused) if self._reads % REFUSALS_KEPT else found.refused
        self._reads += 1
        for group, offsets in committed.items():
            yield from record_samples(self.cluster, group, offsets, stable, self._counted)
        if self._unreadable:
            topics = sorted(self._unreadable)
            text = f"the lag in records is not known of {some(topics, MOST_NAMED)}: grant READ on Topic:{topics[0]}"
            yield Notes((text,))

    def _members(
        self, metadata: Metadata, kinds: Mapping[str, GroupKind], chosen: Sequence[str], deadline: Deadline
    ) -> Iterator[Sample | Fault | Fact]:
        """The members of groups of the newer protocols."""
        client = self._cluster.client
        shares, dropped = choose(
            sorted(group for group, kind in kinds.items() if kind is GroupKind.SHARE),
            self._settings.limit,
            self._include,
            self._exclude,
        )
        newer = {group: kinds[group] for group in (*chosen, *shares) if kinds[group] in NEWER}
        described = group_members(client, metadata, newer, deadline)
        yield from described.faults
        for group, members in described.values.items():
            yield catalogue.GROUP_MEMBERS(float(len(members)), self.cluster, group, kinds[group])
        if dropped:
            yield catalogue.SERIES_DROPPED(float(dropped), catalogue.GROUP_MEMBERS.name)

    def _of_holders(
        self, metadata: Metadata, kinds: Mapping[str, GroupKind], facts: Facts, deadline: Deadline
    ) -> Iterator[Sample | Fact]:
        stalls, opened, use = facts.get(Stalls), facts.get(OpenTransactions), facts.get(TransactionUse)
        found = self._holders.read(
            metadata,
            stalls.stalls if stalls is not None else (),
            opened.transactions if opened is not None else (),
            use.offset_partitions if use is not None else None,
            kinds,
            deadline,
        )
        yield found
        for producer_id, groups in found.by_producer.items():
            for own in groups if isinstance(groups, tuple) else ():
                if not own.missing:
                    labels = (self.cluster, str(producer_id), own.group)
                    yield catalogue.LSO_HOLDER_GROUP_MEMBERS(float(own.member_count), *labels)

    def _held(
        self, metadata: Metadata, names: Sequence[str], stalls: Stalls | None, deadline: Deadline
    ) -> Iterator[Sample | Fault | Fact]:
        """The groups that wait for the transaction which holds their partition of ``__consumer_offsets``.

        Only groups of such partitions are read, and the coordinator says which of them wait: others of the same
        partition do not.
        """
        held = {
            stall.partition for stall in (stalls.stalls if stalls else ()) if stall.partition.topic == CONSUMER_OFFSETS
        }
        count = len(metadata.topics.get(CONSUMER_OFFSETS, ()))
        asked = names if held and count else ()
        places = {group: TopicPartition(CONSUMER_OFFSETS, coordinator_partition(group, count)) for group in asked}
        unstable = unstable_offsets(
            self._cluster.client, metadata, [group for group, place in places.items() if place in held], deadline
        )
        yield from unstable.faults
        waiting: dict[TopicPartition, list[str]] = {}
        for group, partitions in sorted(unstable.values.items()):
            if partitions:
                waiting.setdefault(places[group], []).append(group)
            for topic, number in sorted(Counter(partition.topic for partition in partitions).items()):
                yield catalogue.GROUP_UNSTABLE_OFFSET_PARTITIONS(float(number), self.cluster, group, topic)
        yield GroupsHeld({place: tuple(groups) for place, groups in waiting.items()})


def record_samples(
    cluster: str,
    group: str,
    committed: Mapping[TopicPartition, int],
    stable: Mapping[TopicPartition, int],
    counted: Mapping[UnreadSpan, int],
) -> Iterator[Sample]:
    """Sums over the group's partitions of each topic; absent for a topic with an unknown partition."""
    lag: dict[str, int | None] = {}
    for partition, offset in committed.items():
        end = stable.get(partition)
        known = 0 if end is not None and offset >= end else None
        if end is not None and known is None:
            known = counted.get(UnreadSpan(partition, offset, end))
        before = lag.get(partition.topic, 0)
        lag[partition.topic] = None if known is None or before is None else before + known
    for topic, records in lag.items():
        if records is not None:
            yield catalogue.GROUP_READ_COMMITTED_LAG_RECORDS(float(records), cluster, group, topic)


def blocked_groups(
    stalls: Stalls | None,
    committed: Mapping[str, Mapping[TopicPartition, int]],
    ends: Ends,
    *,
    every_group: bool,
) -> BlockedGroups:
    """Return the groups that stalled partitions withhold offsets from.

    A group that committed beyond the last stable offset does not wait for it. That no group waits for a partition is
    known only where the commits of ``every_group`` were read.
    """
    read = {partition for offsets in committed.values() for partition in offsets} if stalls else set()
    counts = {
        stall.partition: 0
        for stall in (stalls.stalls if stalls else ())
        if stall.partition in ends.high or (every_group and stall.partition not in read)
    }
    waits: dict[str, list[TopicPartition]] = {}
    for group, offsets in committed.items() if counts else ():
        for partition, offset in offsets.items():
            if partition in counts and offset <= ends.stable[partition] < ends.high[partition]:
                waits.setdefault(group, []).append(partition)
                counts[partition] += 1
    withheld = {partition: ends.high[partition] - ends.stable[partition] for partition in counts if counts[partition]}
    worst: dict[TopicPartition, list[BlockedGroup]] = {partition: [] for partition in counts}
    for group in sorted(waits, key=lambda name: (-sum(withheld[place] for place in waits[name]), name)):
        for partition in waits[group]:
            if len(worst[partition]) < MOST_BLOCKED:
                worst[partition].append(BlockedGroup(group, withheld[partition]))
    found = {place: Blocked(tuple(worst[place]), count) for place, count in counts.items() if count or every_group}
    return BlockedGroups(found)


def readers_of_transactions(
    committed: Mapping[str, Mapping[TopicPartition, int]], ends: Ends, topics: AbstractSet[str]
) -> dict[str, frozenset[TopicPartition]]:
    """The groups with commits in topics of transactions, each with its partitions of them: ``topics``, and those of
    partitions below their high watermark.
    """
    written = topics | {place.topic for place, high in ends.high.items() if ends.stable[place] < high}
    places = {
        group: frozenset(place for place in offsets if place.topic in written) for group, offsets in committed.items()
    }
    return {group: own for group, own in places.items() if own}


def choose(
    groups: Iterable[str], limit: int, include: Sequence[BoundedPattern], exclude: Sequence[BoundedPattern]
) -> tuple[list[str], int]:
    """The groups to measure, and how many the limit leaves out. Groups that ``exclude`` matches are never measured."""
    meant = [group for group in groups if not any(pattern.matches(group) for pattern in exclude)]
    if len(meant) <= limit:
        return meant, 0
    chosen = [group for group in meant if any(pattern.matches(group) for pattern in include)]
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
