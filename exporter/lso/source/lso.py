"""The last stable offset of every partition, and the stalled partitions. `holders.py` has the transactions in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from exporter import catalogue
from exporter.bounds.patterns import BoundedPattern, given_up
from exporter.cluster.cluster import Cluster, KafkaSource
from exporter.core.kept import KeptValue
from exporter.flink.facts import FlinkTransactions
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.routing import NAMED_TOPICS
from exporter.lso.facts import Stall, StallWatch
from exporter.lso.freshness import earliest_starts, withheld_ages
from exporter.lso.pace import ReadPace
from exporter.lso.proof.evidence import OpenStart
from exporter.lso.proof.prover import Prover
from exporter.lso.rules import Coordinators
from exporter.lso.source.partition_ends import PartitionEnds
from exporter.lso.source.stall_holders import StallHolders
from exporter.lso.stall_series import ShownStalls
from exporter.lso.sweep import Sweep
from exporter.lso.tracker import StallTracker
from exporter.model import Deadline, Fact, Facts, Fault, Sample, SampleBatch, TopicPartition
from exporter.transactions.facts import CoordinatorTime, OpenTransactions, ReleaseTimes

CONFIRM_SECONDS = 10.0
"""Seconds between two requests to all brokers for the leaders of stalled partitions."""


@dataclass(frozen=True, slots=True)
class LsoSettings:
    """Seconds, and regular expressions searched in topic names. Internal topics are included unless they match
    ``exclude``.
    """

    interval: float = 5.0
    sweep_interval: float = 60.0
    stall_after: float = 30.0
    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    timeout: float = 10.0


class LsoSource(KafkaSource):
    """Source ``lso`` of one cluster.

    Cost follows open transactions, not partitions: those of open transactions, and those last seen with the LSO below
    the high watermark, are read at every ``interval``; all others once in ``sweep_interval``, a part at every read. The
    first read is of all.

    A shard reads its own topics. Of other topics it reads the partitions in which its own applications have had a
    transaction open for a while: these get no series, but a transaction that holds one is shown by id like any holder.
    """

    name = "lso"

    def __init__(self, cluster: Cluster, settings: LsoSettings, prover: Prover | None = None) -> None:
        """Without a prover, a holder that no coordinator has stays of kind unknown."""
        super().__init__(cluster)
        self._settings = settings
        self.pace = self.interval = settings.interval
        self.timeout = settings.timeout
        self._watch = StallTracker(settings.stall_after)
        self._pace = ReadPace(settings.interval, self._watch)
        self._include = tuple(BoundedPattern(each, "topics.include") for each in settings.include)
        self._exclude = tuple(BoundedPattern(each, "topics.exclude") for each in settings.exclude)
        self._given_up: tuple[Fault, ...] = ()
        self._metadata: Metadata | None = None
        self._listed: Metadata | None = None  # the answer that ``_watched`` is of
        self._watched: frozenset[TopicPartition] = frozenset()
        self._elsewhere: frozenset[TopicPartition] = frozenset()  # of other shards' topics
        self._pulses: frozenset[TopicPartition] = frozenset()
        self._pulse_of: Metadata | None = None
        self._ends = PartitionEnds(cluster.client)
        self._sweep = Sweep(settings.sweep_interval, settings.interval)
        self._listed_at: float | None = None  # the metadata of all topics
        self._grown = False  # there may be partitions that were never read
        self._remembered = False
        self._stale = False
        self._unknown: frozenset[str] = frozenset()
        self._holders = StallHolders(cluster, self._watch, prover)
        self._shown = KeptValue(ShownStalls.of("", (), frozenset()))
        self._hot = KeptValue(frozenset[TopicPartition]())  # the partitions of open transactions
        self._hot_topics = KeptValue(frozenset[str]())
        self._lags = KeptValue(dict[str, int]())
        self._starts = KeptValue(dict[TopicPartition, float]())
        self._transactional: set[str] = set()  # topics in which a transaction was seen
        self._memory: tuple[object, ...] = ()  # as it was last saved
        self._watching: StallWatch | None = None

    def close(self) -> None:
        self._save()
        self._holders.close()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        clock = self._cluster.clock
        now = clock.monotonic()
        self.pace = self.interval
        opened = facts.get(OpenTransactions)
        hot = self._written(opened)
        time = facts.get(CoordinatorTime) or CoordinatorTime(None, None)
        self._watch.date(now, clock.wall(), time.ahead, clock.boot)
        held = self._held_elsewhere(opened, time)
        if not self._cluster.shard.whole:
            hot = self._own(hot) | held
        self._notice_topics(hot)
        try:
            metadata = self._refresh(deadline, now)
        except AskError as error:
            yield error.fault
            return
        yield from self._given_up
        self._watch_elsewhere(held, metadata)
        often = (hot & self._watched, hot & self._elsewhere, self._watch.standing.keys())
        targets = self._sweep.due(now).union(*often, self._pulse(metadata))
        if self._grown or self._stale:  # a topic that disappeared is requested until it is back
            targets |= self._watched - self._watch.readings.keys()
        faults, answered = self._look(metadata, targets, deadline)
        if answered or not targets:
            self._sweep.read()
            self._grown = False
        yield from faults
        self._stale = bool(faults)
        self._expire(answered)
        if targets and not answered:
            return
        try:
            metadata, faults = self._confirm(metadata, deadline)
        except AskError as error:
            yield error.fault
            return
        yield from faults
        coordinators, replication, more = self._holders.read(metadata, hot, opened, deadline, facts)
        yield from more
        flink = facts.get(FlinkTransactions) or FlinkTransactions({})
        found = self._holders.stalls(coordinators, replication, facts.get(ReleaseTimes), opened, flink)
        yield from self._samples(found, coordinators)
        if self._watching is None:
            self._watching = StallWatch(clock.wall(), self._settings.stall_after)
        yield self._watching
        yield from self._withheld(opened, coordinators)
        self._save()
        self.pace = self._pace.after(now, clock.monotonic(), proving=self._holders.proving)

    # --- Reading ---

    def _written(self, opened: OpenTransactions | None) -> AbstractSet[TopicPartition]:
        """The partitions of open transactions."""
        transactions = opened.transactions if opened is not None else ()
        return self._hot.of(
            (transactions,), lambda _: frozenset(partition for each in transactions for partition in each.partitions)
        )

    def _refresh(self, deadline: Deadline, now: float) -> Metadata:
        """The metadata of all topics, once in ``sweep_interval``, and while something is missing."""
        due = self._listed_at is None or now - self._listed_at >= self._settings.sweep_interval - self.interval / 2
        if self._metadata is None or due or self._stale or not self._watched:
            self._metadata = metadata = self._cluster.metadata(deadline)
            self._listed_at = now
            if metadata is not self._listed:
                self._listed = metadata
                watched = [
                    TopicPartition(topic, number)
                    for topic, partitions in metadata.topics.items()
                    if self._is_meant(topic, metadata) and self._cluster.shard.holds(topic)
                    for number in partitions
                ]
                self._watched, self._grown = frozenset(watched), True
                self._sweep.of(watched)
            self._given_up = tuple(given_up((*self._include, *self._exclude)))
            if not self._remembered:
                self._remembered = True
                self._watch.identify(metadata.topic_ids)
                self._watch.remember(self._cluster.state.load(self._cluster.cluster_id, "stalls"))
            self._watch.keep(self._watched | self._elsewhere)
            self._watch.identify(metadata.topic_ids)
        return self._metadata

    def _confirm(self, metadata: Metadata, deadline: Deadline) -> tuple[Metadata, tuple[Fault, ...]]:
        """Confirm the leaders of stalled partitions with all brokers, before a stall is shown and at times while it
        lasts.

        The LSO of a deposed leader that is cut off from the controller does not move, and its own metadata still names
        it as leader. Partitions with another leader, or a newer leader epoch, are read again. Raises AskError when no
        broker answers.
        """
        doubtful = self._watch.unproven(CONFIRM_SECONDS)
        topics = sorted({each.topic for each in doubtful})
        if not topics:
            return metadata, ()
        # With very many topics only one more broker is asked, in turn: a request for all topics to all brokers is too
        # dear.
        ask = self._cluster.client.confirmed if len(topics) <= NAMED_TOPICS else self._cluster.metadata
        newest = ask(deadline, topics)
        merged = metadata
        if newest.brokers != metadata.brokers or any(
            metadata.topics.get(topic) != partitions or metadata.topic_ids.get(topic) != newest.topic_ids.get(topic)
            for topic, partitions in newest.topics.items()
        ):
            merged = replace(
                metadata,
                brokers=newest.brokers,
                topics={**metadata.topics, **newest.topics},
                topic_ids={**metadata.topic_ids, **newest.topic_ids},
            )
        if self._metadata is not None:
            self._metadata = merged
        made_again = self._watch.identify(newest.topic_ids)
        moved = made_again
        if merged is not metadata:
            moved = moved.union(each for each in doubtful if _led(metadata, each) != _led(merged, each))
        faults: tuple[Fault, ...] = ()
        if moved:
            faults, answered = self._look(merged, moved, deadline)
            self._watch.lose(moved - answered)
        self._watch.prove(doubtful)
        return merged, faults

    def _is_meant(self, topic: str, metadata: Metadata) -> bool:
        included = topic in metadata.internal or any(each.matches(topic) for each in self._include)
        return included and not any(each.matches(topic) for each in self._exclude)

    # --- Of other shards' topics ---

    def _own(self, partitions: AbstractSet[TopicPartition]) -> set[TopicPartition]:
        topics = {topic for topic in {each.topic for each in partitions} if self._cluster.shard.holds(topic)}
        return {each for each in partitions if each.topic in topics}

    def _held_elsewhere(self, opened: OpenTransactions | None, time: CoordinatorTime) -> AbstractSet[TopicPartition]:
        """Partitions of other shards' topics in which this shard's applications have had a transaction open for a
        while.
        """
        shard = self._cluster.shard
        if shard.whole or opened is None:
            return self._elsewhere
        before = time.now(self._cluster.clock.wall()) - self.interval
        found = {
            partition
            for each in opened.transactions
            if (each.started is None or each.started <= before) and shard.tells_of(each.application)
            for partition in each.partitions
        }
        return found - self._own(found)

    def _watch_elsewhere(self, held: AbstractSet[TopicPartition], metadata: Metadata) -> None:
        topics = {each.topic for each in held} & metadata.topics.keys()
        meant = {topic for topic in topics if self._is_meant(topic, metadata)}
        now = frozenset(each for each in held if each.topic in meant)
        self._watch.forget(self._elsewhere - now)
        self._elsewhere = now

    def _notice_topics(self, hot: AbstractSet[TopicPartition]) -> None:
        """Refresh the metadata once when a transaction writes to a topic that it does not have: the topic is new or
        deleted.
        """
        if self._metadata is not None:
            topics = self._hot_topics.of((hot,), lambda _: frozenset({partition.topic for partition in hot}))
            unknown = topics - self._metadata.topics.keys()
            if unknown - self._unknown:
                self._metadata = None
            self._unknown = unknown

    def _pulse(self, metadata: Metadata) -> frozenset[TopicPartition]:
        """One partition of every leader, so that a failed broker without open transactions is noticed before the next
        sweep.
        """
        if self._pulse_of is not metadata:
            self._pulse_of = metadata
            leaders = metadata.leaders(self._watched)
            self._pulses = frozenset({leader: partition for partition, leader in leaders.items()}.values())
        return self._pulses

    def _look(
        self, metadata: Metadata, targets: frozenset[TopicPartition], deadline: Deadline
    ) -> tuple[tuple[Fault, ...], AbstractSet[TopicPartition]]:
        """Read both offsets of the targets; the faults, and which of them answered."""
        asked_at = self._cluster.clock.monotonic()
        readings, standing = self._watch.readings, self._watch.standing
        ends = self._ends.read(metadata, targets, readings, standing, deadline, asked_at)
        now = self._cluster.clock.monotonic()
        self._watch.look_at_all(ends.stable, ends.high, now, asked_at)
        if ends.gone:  # the next metadata will not have it
            self._watch.forget(ends.gone)
            self._metadata = None
        return ends.faults, ends.high.keys()

    def _expire(self, answered: AbstractSet[TopicPartition]) -> None:
        """Drop values that were not read for three of their intervals; ``answered`` were read now."""
        now = self._cluster.clock.monotonic()
        often, seldom = now - 3 * self.interval, now - 3 * self._settings.sweep_interval
        readings, standing = self._watch.readings, self._watch.standing
        self._watch.lose([each for each in standing.keys() - answered if readings.at[each] < often])
        self._watch.lose(readings.before(seldom, standing))

    # --- Samples ---

    def _samples(self, found: Sequence[Stall], coordinators: Coordinators) -> Iterator[Sample | SampleBatch | Fact]:
        name = self.cluster
        standing = self._lags.of((self._watch.version, self._elsewhere), lambda _: self._worst_lags())
        lags = dict.fromkeys(self._topics(), 0) | standing
        hanging = dict.fromkeys(lags, 0)
        unasked = {partition.topic for partition in self._watch.producers.unasked()}
        for partition, producers in self._watch.unknown_to(coordinators).items():
            for each in producers if partition not in self._elsewhere else ():
                held = OpenStart(partition, each.producer_id, each.start_offset)
                if self._holders.proof(held) is not None:
                    hanging[partition.topic] += 1
                elif self._holders.missing(held):
                    unasked.add(partition.topic)
        elsewhere = self._elsewhere
        stalls = self._shown.of((name, found, elsewhere), lambda _: ShownStalls.of(name, found, elsewhere))
        for topic, lag in lags.items():
            yield catalogue.TOPIC_LSO_LAG_OFFSETS(float(lag), name, topic)
            yield catalogue.STALLED_PARTITIONS(float(stalls.by_topic[topic]), name, topic)
            if topic not in unasked:
                yield catalogue.HANGING_TRANSACTIONS(float(hanging[topic]), name, topic)
        yield stalls.series
        yield stalls.fact

    def _withheld(self, opened: OpenTransactions | None, coordinators: Coordinators) -> Iterator[Sample]:
        """The age of the oldest withheld record of each topic in which a transaction was seen."""
        watch, anchor = self._watch, self._watch.anchor
        transactions = opened.transactions if opened is not None else ()
        starts = self._starts.of((transactions,), lambda _: earliest_starts(transactions))
        standing = {each: state for each, state in watch.standing.items() if each not in self._elsewhere}
        now = self._cluster.clock.monotonic()
        ages = withheld_ages(now, standing, anchor.monotonic, watch.producers.of, coordinators, starts)
        # Ends and LSOs are two answers: writes between them look like an open transaction for a moment, on any topic.
        described = (partition.topic for partition in standing if watch.producers.of(partition))
        stalled = (topic for topic, age in ages.items() if age >= self._settings.stall_after)
        self._transactional.update(described, stalled, (partition.topic for partition in starts))
        self._transactional.intersection_update(self._topics())
        for topic in sorted(self._transactional):
            age = max(0.0, ages.get(topic, 0.0))
            yield catalogue.TOPIC_WITHHELD_RECORD_AGE_SECONDS(age, self.cluster, topic)

    def _worst_lags(self) -> dict[str, int]:
        """By topic the largest lag: only where the LSO is below the high watermark is there one."""
        found: dict[str, int] = {}
        for partition in self._watch.standing.keys() - self._elsewhere:
            found[partition.topic] = max(found.get(partition.topic, 0), self._watch.readings[partition].lag)
        return found

    def _topics(self) -> Iterable[str]:
        """The topics with a partition that was read, without those of other shards."""
        if not self._elsewhere:
            return self._watch.readings.topics
        return {topic for topic, _ in self._watch.readings.keys() - self._elsewhere}

    def _save(self) -> None:
        state, cluster_id = self._cluster.state, self._cluster.cluster_id
        if not state.kept:
            return
        memory = self._watch.remembered()
        if (memory != self._memory or not state.has(cluster_id, "stalls")) and state.save(
            cluster_id, "stalls", self._watch.memory()
        ):
            self._memory = memory


def _led(metadata: Metadata, partition: TopicPartition) -> tuple[int | None, int]:
    return metadata.leader(*partition), metadata.leader_epoch(partition)
