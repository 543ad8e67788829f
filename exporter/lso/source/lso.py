"""The last stable offset of every partition, and the stalled partitions. ``stall_holders`` has their transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from exporter.cluster import Cluster, KafkaSource
from exporter.core.derived import Derived
from exporter.flink.facts import FlinkTransactions
from exporter.kafka.client import AskError
from exporter.lso.facts import Stall, StallWatch
from exporter.lso.pace import ReadPace
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
