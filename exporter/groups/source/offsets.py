"""Offset commits of one cluster, in transactions and outside of them: opt-in, as it reads ``__consumer_offsets``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from exporter import catalogue
from exporter.cluster import Cluster, KafkaSource
from exporter.groups.facts import CommitTimes, GroupCommits
from exporter.groups.source.rewinds import OffsetRewinds
from exporter.kafka.client import AskError
from exporter.kafka.log.offset_commits import CommitReader, EndedCommits, OffsetCommits
from exporter.kafka.requests.metadata import CONSUMER_OFFSETS, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, offsets_at
from exporter.model import Deadline, Fact, Facts, Fault, Sample, TopicPartition

HOUR = 3600.0
MOST_SERIES = 5000
"""Largest number of pairs of group and topic that are counted. The others are counted as dropped series."""
MOST_GROUPS = 20_000
"""Largest number of groups whose instants are kept, for each way to commit: a client may commit for any names."""
MOST_DROPPED = 50_000
"""Pairs without a series that are told apart; there may be more."""
SPACING = 10.0
"""Resolution in seconds of the commit instants kept of a group: at most 360 in an hour."""


class OffsetsSource(KafkaSource):
    """Source ``offsets`` of one cluster. Counters begin at its start; the posture uses the hour before it as well."""

    name = "offsets"

    def __init__(self, cluster: Cluster, interval: float, timeout: float = 20.0) -> None:
        super().__init__(cluster, interval, timeout)
        self._reader = CommitReader()
        self._began: float | None = None
        self._counts: dict[tuple[str, str, bool], int] = {}
        self._times: dict[tuple[str, bool], deque[float]] = {}
        self._dropped: set[tuple[str, str]] = set()
        self._generations: dict[tuple[str, str], int] = {}
        self._rewinds = OffsetRewinds()
        self._rebalances: dict[tuple[str, str], int] = {}

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | Fault | Fact]:  # noqa: ARG002 the protocol's
        try:
            metadata = self._cluster.metadata(deadline, [CONSUMER_OFFSETS])
        except AskError as error:
            yield error.fault
            yield from self._counters()
            return
        if (refused := metadata.errors.get(CONSUMER_OFFSETS)) is not None:
            yield refused
        places = metadata.partitions(CONSUMER_OFFSETS)
        ends = end_offsets(self._cluster.client, metadata, places, Isolation.READ_UNCOMMITTED, deadline)
        yield from ends.faults
        by_number = {place.partition: end for place, end in ends.values.items()}
        wall = self._cluster.clock.wall()
        if self._began is None:
            self._began = wall
        yield from self._begin(metadata, by_number, wall, deadline)
        for commits in self._reader.read(self._cluster.client, metadata, by_number, deadline):
            if isinstance(commits, EndedCommits):
                self._rewinds.end(commits, self._began)
                continue
            self._rewinds.take(commits, self._began)
            if commits.records:
                self._take(commits)
        self._take_generations()
        yield from dict.fromkeys(self._reader.faults)
        yield from self._counters()
        self._forget_silent(wall)
        ended = all(ends.values.get(place) == self._reader.positions.get(place.partition, -1) for place in places)
        if refused is None and not self._reader.faults and ended:
            yield self._fact()

    def _begin(self, metadata: Metadata, ends: dict[int, int], wall: float, deadline: Deadline) -> Iterator[Fault]:
        """Give every partition without a position the offset of an hour ago."""
        fresh = [TopicPartition(CONSUMER_OFFSETS, number) for number in ends if number not in self._reader.positions]
        if not fresh:
            return
        since = dict.fromkeys(fresh, round((wall - HOUR) * 1000))
        starts = offsets_at(self._cluster.client, metadata, since, deadline)
        yield from starts.faults
        for place, start in starts.values.items():
            end = ends[place.partition]
            self._reader.positions[place.partition] = end if start < 0 else min(start, end)

    def _take(self, commits: OffsetCommits) -> None:
        at = commits.timestamp_ms / 1000
        who = (commits.group, commits.transactional)
        instants = self._times.get(who)
        if instants is None and len(self._times) < 2 * MOST_GROUPS:
            instants = self._times[who] = deque()
        if instants is not None and (not instants or at >= instants[-1] + SPACING):
            instants.append(at)
        if self._began is None or at < self._began:
            return  # before the start of this process, whose counters begin at 0
        key = (commits.group, commits.topic, commits.transactional)
        if key not in self._counts and len(self._counts) >= MOST_SERIES:
            if len(self._dropped) < MOST_DROPPED:
                self._dropped.add((commits.group, commits.topic))
            return
        self._counts[key] = self._counts.get(key, 0) + commits.records

    def _take_generations(self) -> None:
        """Count how far generations moved. A lower one is of a group that was deleted and made again."""
        found, self._reader.generations = self._reader.generations, []
        for group, kind, number in found:
            key = (group, kind)
            if key not in self._generations and len(self._generations) >= MOST_SERIES:
                continue
            before = self._generations.get(key, number)
            self._rebalances[key] = self._rebalances.get(key, 0) + max(0, number - before)
            self._generations[key] = number

    def _forget_silent(self, wall: float) -> None:
        """Drop what is older than an hour, and groups without a commit since: also while a partition cannot be read."""
        for key, instants in list(self._times.items()):
            while instants and instants[0] < wall - HOUR:
                instants.popleft()
            if not instants:
                del self._times[key]

    def _fact(self) -> GroupCommits:
        """The commits of the last hour."""
        groups = {group for group, _ in self._times}
        return GroupCommits(
            {
                group: CommitTimes(
                    tuple(self._times.get((group, True), ())),
                    tuple(self._times.get((group, False), ())),
                )
                for group in groups
            }
        )

    def _counters(self) -> Iterator[Sample]:
        for (group, topic, transactional), count in self._counts.items():
            word = "true" if transactional else "false"
            yield catalogue.GROUP_OFFSET_COMMITS_TOTAL(float(count), self.cluster, group, topic, word)
        for (group, topic), count in self._rewinds.counts.items():
            yield catalogue.GROUP_OFFSET_REWINDS_TOTAL(float(count), self.cluster, group, topic)
        for (group, kind), count in self._rebalances.items():
            yield catalogue.GROUP_REBALANCES_TOTAL(float(count), self.cluster, group, kind)
        if self._dropped:
            yield catalogue.SERIES_DROPPED(float(len(self._dropped)), catalogue.GROUP_OFFSET_COMMITS_TOTAL.name)
