"""The last stable offset of every partition, and the stalled partitions. ``stall_holders`` has their transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from exporter.cluster import Cluster, KafkaSource
from exporter.core.derived import Derived
from exporter.core.reading import next_start
from exporter.flink.facts import FlinkTransactions
from exporter.kafka.client import AskError
from exporter.lso.facts import Stall, StallWatch
from exporter.lso.proof.evidence import OpenStart
from exporter.lso.proof.prover import Prover
from exporter.lso.rules import Coordinators
from exporter.lso.source.offset_reads import OffsetReads
from exporter.lso.source.saved_tracker import SavedTracker
from exporter.lso.source.stall_holders import StallHolders
from exporter.lso.stall_series import ShownStalls
from exporter.lso.topic_series import TopicSeries
from exporter.lso.tracker import StallTracker
from exporter.model import Deadline, Fact, Facts, Fault, Sample, SampleBatch, TopicPartition
from exporter.settings.sections import LsoConfig, TopicsConfig
from exporter.transactions.facts import CoordinatorTime, OpenTransaction, OpenTransactions, ReleaseTimes

JITTER = 0.05
"""Share of an interval by which a read may be early."""
DELAY_SHARE = 0.15
"""Share of an interval for which a read waits for a stall that is just below the threshold, beside what the last read
took.
"""
MOST_DELAY_SHARE = 0.25
"""The largest share with that. What a read gives expires after three intervals, and a read may take two."""
PROVING_PACE, PROVING_REST = 1.5, 0.5
"""Seconds between two reads while a proof reads the transaction log, a part of it in each: from the start of a read to
that of the next, and from its end at least.
"""


class ReadPace:
    """The pace of the reads of one cluster, which are ``interval`` seconds apart."""

    def __init__(self, interval: float, watch: StallTracker) -> None:
        self._interval = interval
        self._watch = watch
        self._beat: float | None = None  # the start of the last read at the interval, while a proof makes others

    def after(self, began: float, now: float, *, proving: bool) -> float:
        """Seconds from the start of the read that began and ends at these instants to the start of the next: the
        interval, and a delay where the next read would fall just before the stall threshold. Shorter while a proof
        reads the log; after it the reads are at the instants at which they would have been without it, since stalls
        that they saw are due at these.

        Thresholds are multiples of the interval, and reads are never exactly that far apart: without the delay, every
        other stall is reported an interval late. A stall counts from the answer of the read that saw it first, and up
        to the request of the one that reports it, so the time that a read takes comes on top.
        """
        interval = self._interval
        if proving:
            self._beat = began if self._beat is None else self._beat
            return max(min(interval, PROVING_PACE), now - began + PROVING_REST)
        next_read, early = began + interval, JITTER * interval
        if self._beat is not None:
            next_read = next_start(self._beat, now + PROVING_REST, interval)
            self._beat = None
        latest = next_read + min(DELAY_SHARE * interval + now - began, MOST_DELAY_SHARE * interval)
        due = self._watch.due(max(now, next_read - early), latest)
        # A read that took longer than an interval is followed by one at a multiple of them.
        return next_read - began if due is None or now > next_read else due + early - began


class LsoSource(KafkaSource):
    """Source ``lso`` of one cluster.

    Cost follows open transactions, not partitions: those of open transactions, and those last seen with the LSO below
    the high watermark, are read at every ``interval``; all others once in ``sweep_interval``, a part at every read. The
    first read is of all.
    """

    name = "lso"

    def __init__(
        self,
        cluster: Cluster,
        settings: LsoConfig,
        topics: TopicsConfig,
        prover: Prover | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Without a prover, a holder that no coordinator has stays of kind unknown."""
        super().__init__(cluster, settings.interval, timeout)
        self._settings = settings
        self._watch = StallTracker(settings.stall_after)
        self._pace = ReadPace(settings.interval, self._watch)
        self._saved = SavedTracker(cluster, self._watch)
        self._reads = OffsetReads(cluster, settings, topics, self._watch, self._saved)
        self._partitions = self._reads.partitions
        self._holders = StallHolders(cluster, self._watch, prover)
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
        written = self._written(transactions)
        self._partitions.notice_topics(written)
        try:
            metadata = self._reads.refresh(deadline, now)
        except AskError as error:
            yield error.fault
            return
        yield from self._partitions.faults
        faults, answered, targets = self._reads.read_due(metadata, written, deadline, now)
        yield from faults
        self._reads.expire(answered)
        if targets and not answered:
            return
        try:
            metadata, faults = self._reads.confirm(metadata, deadline)
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
        yield from self._series.withheld(self.cluster, transactions, coordinators, clock.monotonic())
        self._saved.save()
        self.pace = self._pace.after(now, clock.monotonic(), proving=self._holders.proving)

    # --- Samples ---

    def _samples(self, found: list[Stall], coordinators: Coordinators) -> Iterator[Sample | SampleBatch | Fact]:
        hanging = Counter[str]()
        unknown = {partition.topic for partition in self._watch.producers.unasked() | self._watch.unread_standing}
        for partition, producers in self._watch.unknown_to(coordinators).items():
            for producer in producers:
                held = OpenStart(partition, producer.producer_id, producer.start_offset)
                if self._holders.proof(held) is not None:
                    hanging[partition.topic] += 1
                elif self._holders.committed(held) is None and self._holders.missing(held):
                    unknown.add(partition.topic)
        stalls = self._shown(self.cluster, found, self._watch.unread)
        yield self._series.lags(self.cluster, stalls.by_topic, hanging, unknown)
        yield stalls.series
        yield stalls.fact


def _written_by(transactions: tuple[OpenTransaction, ...]) -> frozenset[TopicPartition]:
    return frozenset(partition for transaction in transactions for partition in transaction.partitions)
