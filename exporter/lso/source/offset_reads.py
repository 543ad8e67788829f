"""The reads of last stable offsets and high watermarks: which partitions when, and which broker leads them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from exporter.cluster import Cluster
from exporter.kafka.ask import NAMED_TOPICS
from exporter.kafka.requests.metadata import Metadata
from exporter.lso.source.partition_ends import PartitionEnds
from exporter.lso.source.saved_tracker import SavedTracker
from exporter.lso.source.selected import SelectedPartitions, Sweep, with_answer
from exporter.lso.tracker import StallTracker
from exporter.model import Deadline, Fault, TopicPartition
from exporter.settings.sections import LsoConfig, TopicsConfig

CONFIRM_SECONDS = 10.0
"""Seconds between two requests to all brokers for the leaders of stalled partitions."""


class OffsetReads:
    """Reads the offsets of one cluster into ``watch``. Not thread-safe: for the worker of source ``lso``."""

    def __init__(
        self, cluster: Cluster, settings: LsoConfig, topics: TopicsConfig, watch: StallTracker, saved: SavedTracker
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._watch = watch
        self._saved = saved
        self.partitions = SelectedPartitions(cluster, topics.include, topics.exclude)
        self._ends = PartitionEnds(cluster.client)
        self._sweep = Sweep(settings.sweep_interval, settings.interval)
        self._grown = False  # there may be partitions that were never read
        self._stale = False  # a request of the last read failed

    def refresh(self, deadline: Deadline, now: float) -> Metadata:
        """The metadata of all topics: read once in ``sweep_interval``, and while some is missing. Raises AskError."""
        partitions = self.partitions
        every = self._settings.sweep_interval - self._settings.interval / 2
        due = partitions.read_at is None or now - partitions.read_at >= every
        if partitions.metadata is not None and not due and not self._stale and partitions.own:
            return partitions.metadata
        before = partitions.in_order
        metadata = partitions.read(deadline, now)
        if partitions.in_order is not before:
            self._sweep.of(partitions.in_order)
            self._grown = True
        self._saved.restore(metadata)
        self._watch.keep(partitions.own)
        self._watch.identify(metadata.topic_ids)
        return metadata

    def read_due(
        self, metadata: Metadata, written: frozenset[TopicPartition], deadline: Deadline, now: float
    ) -> tuple[tuple[Fault, ...], AbstractSet[TopicPartition], frozenset[TopicPartition]]:
        """Read the offsets of the partitions whose turn it is. Returns the faults, which answered, and all of them."""
        own = self.partitions.own
        often = (written & own, self._watch.standing.keys())
        targets = self._sweep.due(now).union(*often, self.partitions.of_leaders(metadata))
        if self._grown or self._stale:  # a topic that disappeared is requested until it is back
            targets |= own - self._watch.readings.keys()
        faults, answered = self._read_ends(metadata, targets, deadline)
        if answered or not targets:
            self._sweep.read()
            self._grown = False
        self._stale = bool(faults)
        return faults, answered, targets

    def confirm(self, metadata: Metadata, deadline: Deadline) -> tuple[Metadata, tuple[Fault, ...]]:
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
        if self.partitions.metadata is not None:
            self.partitions.metadata = merged
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
            self.partitions.read_again()
        return ends.faults, ends.high.keys()

    def expire(self, answered: AbstractSet[TopicPartition]) -> None:
        """Drop values that were not read for three of their intervals; ``answered`` were read now."""
        now = self._cluster.clock.monotonic()
        often, seldom = now - 3 * self._settings.interval, now - 3 * self._settings.sweep_interval
        readings, standing = self._watch.readings, self._watch.standing
        self._watch.lose([place for place in standing.keys() - answered if readings.at[place] < often])
        self._watch.lose(readings.before(seldom, standing))


def _led(metadata: Metadata, partition: TopicPartition) -> tuple[int | None, int]:
    return metadata.leader(*partition), metadata.leader_epoch(partition)
