"""The last stable offset of every partition, and the stalled partitions. ``stall_holders`` has their transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from exporter.cluster.cluster import Cluster, KafkaSource
from exporter.core.derived import Derived
from exporter.flink.facts import FlinkTransactions
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.routing import NAMED_TOPICS
from exporter.lso.facts import Stall, StallWatch
from exporter.lso.pace import ReadPace
from exporter.lso.proof.evidence import OpenStart
from exporter.lso.proof.prover import Prover
from exporter.lso.rules import Coordinators
from exporter.lso.source.partition_ends import PartitionEnds
from exporter.lso.source.saved_tracker import SavedTracker
from exporter.lso.source.selected import SelectedPartitions, with_answer
from exporter.lso.source.stall_holders import StallHolders
from exporter.lso.stall_series import ShownStalls
from exporter.lso.sweep import Sweep
from exporter.lso.topic_series import TopicSeries
from exporter.lso.tracker import StallTracker
from exporter.model import Deadline, Fact, Facts, Fault, Sample, SampleBatch, TopicPartition
from exporter.transactions.facts import CoordinatorTime, OpenTransaction, OpenTransactions, ReleaseTimes

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
        self._partitions = SelectedPartitions(cluster, settings.include, settings.exclude)
        self._ends = PartitionEnds(cluster.client)
        self._sweep = Sweep(settings.sweep_interval, settings.interval)
        self._grown = False  # there may be partitions that were never read
        self._stale = False  # a request of the last read failed
        self._holders = StallHolders(cluster, self._watch, prover)
        self._saved = SavedTracker(cluster, self._watch)
        self._written = Derived(_written_by)  # the partitions of open transactions
        self._shown = Derived(ShownStalls.of)
        self._series = TopicSeries(self._watch)
        self._watching: StallWatch | None = None

    def close(self) -> None:
        self._saved.save()
        self._holders.close()

    def read(self, deadline: Deadline, facts: Facts) -> Iterator[Sample | SampleBatch | Fault | Fact]:
        clock = self._cluster.clock
        now = clock.monotonic()
        self.pace = self.interval
        opened = facts.get(OpenTransactions)
        transactions = opened.transactions if opened is not None else ()
        time = facts.get(CoordinatorTime) or CoordinatorTime()
        # Our clock as it was beside theirs: it may have been set since.
        wall = clock.wall() if time.ahead is None or time.beyond is None else now + time.beyond
        self._watch.date(now, wall, time.ahead, clock.boot)
        written, held = self._written(transactions), self._partitions.elsewhere
        if not self._cluster.shard.whole:
            if opened is not None:
                held = self._partitions.held_elsewhere(transactions, time, self.interval)
            written = self._partitions.of_shard(written) | held
        self._partitions.notice_topics(written)
        try:
            metadata = self._refresh(deadline, now)
        except AskError as error:
            yield error.fault
            return
        yield from self._partitions.faults
        self._watch.forget(self._partitions.select_elsewhere(held, metadata))
        faults, answered, targets = self._read_due(metadata, written, deadline, now)
        yield from faults
        self._expire(answered)
        if targets and not answered:
            return
        try:
            metadata, faults = self._confirm(metadata, deadline)
        except AskError as error:
            yield error.fault
            return
        yield from faults
        coordinators, replication, more = self._holders.read(metadata, written, opened, deadline, facts)
        yield from more
        flink = facts.get(FlinkTransactions) or FlinkTransactions({})
        found = self._holders.stalls(coordinators, replication, facts.get(ReleaseTimes), opened, flink)
        yield from self._samples(found, coordinators)
        if self._watching is None:
            self._watching = StallWatch(clock.wall(), self._settings.stall_after)
        yield self._watching
        name, elsewhere = self.cluster, self._partitions.elsewhere
        yield from self._series.withheld(name, elsewhere, transactions, coordinators, clock.monotonic())
        self._saved.save()
        self.pace = self._pace.after(now, clock.monotonic(), proving=self._holders.proving)

    # --- Reading ---

    def _refresh(self, deadline: Deadline, now: float) -> Metadata:
        """The metadata of all topics, once in ``sweep_interval``, and while something is missing."""
        partitions = self._partitions
        every = self._settings.sweep_interval - self.interval / 2
        due = partitions.read_at is None or now - partitions.read_at >= every
        if partitions.metadata is not None and not due and not self._stale and partitions.own:
            return partitions.metadata
        before = partitions.in_order
        metadata = partitions.read(deadline, now)
        if partitions.in_order is not before:
            self._sweep.of(partitions.in_order)
            self._grown = True
        self._saved.restore(metadata)
        self._watch.keep(partitions.own | partitions.elsewhere)
        self._watch.identify(metadata.topic_ids)
        return metadata

    def _read_due(
        self, metadata: Metadata, written: frozenset[TopicPartition], deadline: Deadline, now: float
    ) -> tuple[tuple[Fault, ...], AbstractSet[TopicPartition], frozenset[TopicPartition]]:
        """Read the offsets of the partitions whose turn it is. Returns the faults, which answered, and all of them."""
        own, elsewhere = self._partitions.own, self._partitions.elsewhere
        often = (written & own, written & elsewhere, self._watch.standing.keys())
        targets = self._sweep.due(now).union(*often, self._partitions.of_leaders(metadata))
        if self._grown or self._stale:  # a topic that disappeared is requested until it is back
            targets |= own - self._watch.readings.keys()
        faults, answered = self._read_ends(metadata, targets, deadline)
        if answered or not targets:
            self._sweep.read()
            self._grown = False
        self._stale = bool(faults)
        return faults, answered, targets

    def _confirm(self, metadata: Metadata, deadline: Deadline) -> tuple[Metadata, tuple[Fault, ...]]:
        """Confirm the leaders of stalled partitions with all brokers, before a stall is shown and at times while it
        lasts.

        The LSO of a deposed leader that is cut off from the controller does not move, and its own metadata still names
        it as leader. Partitions with another leader, or a newer leader epoch, are read again. Raises AskError when no
        broker answers.
        """
        unconfirmed = self._watch.unconfirmed(CONFIRM_SECONDS)
        topics = sorted({partition.topic for partition in unconfirmed})
        if not topics:
            return metadata, ()
        # With very many topics only one more broker is asked, in turn: a request for all topics to all brokers is too
        # dear.
        ask = self._cluster.client.confirmed if len(topics) <= NAMED_TOPICS else self._cluster.metadata
        newest = ask(deadline, topics)
        merged = with_answer(metadata, newest)
        if self._partitions.metadata is not None:
            self._partitions.metadata = merged
        moved = self._watch.identify(newest.topic_ids)
        if merged is not metadata:
            moved = moved.union(place for place in unconfirmed if _led(metadata, place) != _led(merged, place))
        faults: tuple[Fault, ...] = ()
        if moved:
            faults, answered = self._read_ends(merged, moved, deadline)
            self._watch.lose(moved - answered)
        self._watch.confirm(unconfirmed)
        return merged, faults

    def _read_ends(
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
            self._partitions.read_again()
        return ends.faults, ends.high.keys()

    def _expire(self, answered: AbstractSet[TopicPartition]) -> None:
        """Drop values that were not read for three of their intervals; ``answered`` were read now."""
        now = self._cluster.clock.monotonic()
        often, seldom = now - 3 * self.interval, now - 3 * self._settings.sweep_interval
        readings, standing = self._watch.readings, self._watch.standing
        self._watch.lose([place for place in standing.keys() - answered if readings.at[place] < often])
        self._watch.lose(readings.before(seldom, standing))

    # --- Samples ---

    def _samples(self, found: list[Stall], coordinators: Coordinators) -> Iterator[Sample | SampleBatch | Fact]:
        name, elsewhere = self.cluster, self._partitions.elsewhere
        hanging = Counter[str]()
        unknown = {partition.topic for partition in self._watch.producers.unasked()}
        for partition, producers in self._watch.unknown_to(coordinators).items():
            for producer in producers if partition not in elsewhere else ():
                held = OpenStart(partition, producer.producer_id, producer.start_offset)
                if self._holders.proof(held) is not None:
                    hanging[partition.topic] += 1
                elif self._holders.committed(held) is None and self._holders.missing(held):
                    unknown.add(partition.topic)
        stalls = self._shown(name, found, elsewhere, self._watch.unread)
        yield self._series.lags(name, elsewhere, stalls.by_topic, hanging, unknown)
        yield stalls.series
        yield stalls.fact


def _written_by(transactions: tuple[OpenTransaction, ...]) -> frozenset[TopicPartition]:
    return frozenset(partition for transaction in transactions for partition in transaction.partitions)


def _led(metadata: Metadata, partition: TopicPartition) -> tuple[int | None, int]:
    return metadata.leader(*partition), metadata.leader_epoch(partition)
