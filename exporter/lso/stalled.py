"""The stalled partitions, each with its blocker. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exporter.core.derived import Derived, DerivedByKey
from exporter.lso.dating import Anchor
from exporter.lso.facts import Stall
from exporter.lso.open_producers import Settled
from exporter.lso.readings import Reading
from exporter.lso.rules import (
    Coordinators,
    Replication,
    Standing,
    decided,
    holding_producer,
    is_stalled,
    name_blocker,
    stall_start,
)
from exporter.lso.tracker import StallTracker
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction, ReleaseTimes
from exporter.words import TransactionState


class StalledPartitions:
    """The stalls of a tracker. A stall that equals the last one of its partition is the same object.

    Not thread-safe: for the worker of source ``lso``.
    """

    def __init__(self, watch: StallTracker) -> None:
        self._watch = watch
        self._of_partition = DerivedByKey[TopicPartition, Stall | None](self._stall)
        self._stalls = Derived(self._make_stalls)
        self._one_more_at = float("-inf")  # the instant at which a partition is stalled that is not among them

    def completing(self, coordinators: Coordinators) -> dict[TopicPartition, tuple[OpenTransaction, ...]]:
        """The stalled partitions that decided transactions may hold, with these transactions."""
        found = {}
        for partition in self._watch.unsettled(coordinators):
            state = self._watch.standing[partition]
            if not is_stalled(state, self._watch.stall_after, self._watch.readings.at[partition]):
                continue
            who = holding_producer(self._watch.producers.of(partition), state.last_stable_offset)
            if who is None:
                candidates = decided(partition, coordinators, self._watch.held_by(partition, state))
            else:
                known = coordinators.by_producer.get(who.producer_id)
                candidates = () if known is None or known.state is TransactionState.ONGOING else (known,)
            if candidates:
                found[partition] = candidates
        return found

    def of(
        self,
        coordinators: Coordinators,
        releases: ReleaseTimes | None,
        replication: Mapping[TopicPartition, Replication],
        *,
        complete: bool = False,
    ) -> list[Stall]:
        """The stalled partitions, each with exactly one blocker; the same list while nothing changed that it is made
        of. ``complete`` is whether the coordinators' answers are all open transactions.
        """
        if self._watch.newest >= self._one_more_at:
            self._stalls.expire()
        watch = self._watch
        return self._stalls(watch.version, watch.anchor, coordinators, releases, replication, complete)

    def _make_stalls(
        self,
        _version: object,
        anchor: Anchor,
        coordinators: Coordinators,
        releases: ReleaseTimes | None,
        replication: Mapping[TopicPartition, Replication],
        complete: bool,
    ) -> list[Stall]:
        watch, found = self._watch, dict[TopicPartition, Stall]()
        settled = watch.settled(coordinators)
        self._one_more_at = float("inf")
        for partition, before in list(watch.standing.items()):
            state, reading = before, watch.readings[partition]
            if not is_stalled(state, watch.stall_after, watch.readings.at[partition]):
                if complete and (seen := self._stood_since(partition, state, coordinators, releases)) is not None:
                    # Shown from the next read on, which confirms the leader first.
                    state = watch.begun(partition, state, seen)
                self._one_more_at = min(self._one_more_at, state.seen + watch.stall_after)
                continue
            replicas = replication.get(partition)
            known = settled.get(partition, coordinators)
            if known is coordinators:  # what holds it depends on other partitions, too
                self._of_partition.expire(partition)
            stall = self._of_partition(partition, partition, state, reading, known, releases, replicas, anchor)
            if stall is not None:
                found[partition] = stall
        self._of_partition.keep(found)
        return list(found.values())

    def _stall(
        self,
        partition: TopicPartition,
        state: Standing,
        reading: Reading,
        known: Settled | Coordinators,
        releases: ReleaseTimes | None,
        replicas: Replication | None,
        anchor: Anchor,
    ) -> Stall | None:
        """The stall of a partition; None where its start proves to be too recent."""
        coordinators = Coordinators.of((known.transaction,)) if isinstance(known, Settled) else known
        blocker = name_blocker(
            partition,
            state.last_stable_offset,
            holding_producer(self._watch.producers.of(partition), state.last_stable_offset),
            coordinators,
            unasked=self._watch.producers.why_unknown(partition),
            replication=replicas,
            held_by=self._watch.held_by(partition, state),
        )
        if blocker.unmarked is not None:
            blocker = blocker._replace(unmarked=self._unreleased(blocker.unmarked, blocker.producer_id))
        stood = self._watch.not_before(partition, state, blocker.started)
        if not is_stalled(stood, self._watch.stall_after, self._watch.readings.at[partition]):
            return None
        if not stood.exact:
            ended = releases.ended.get(partition) if releases is not None else None
            stood = self._watch.begun(partition, stood, stall_start(stood, blocker.started, ended, anchor))
        since = anchor.unix(stood.seen)
        leader = None if replicas is None else replicas.leader
        return Stall(partition, since, state.last_stable_offset, reading.high_watermark, leader, blocker)

    def _stood_since(
        self, partition: TopicPartition, state: Standing, coordinators: Coordinators, releases: ReleaseTimes | None
    ) -> float | None:
        """Since when an LSO of the first reading of this process has not moved, monotonic, where its holder shows it.

        The LSO is the first offset of an open transaction: it has been there since that began, or since the transaction
        before it ended.
        """
        who = holding_producer(self._watch.producers.of(partition), state.last_stable_offset)
        if state.exact or who is None or who.start_offset != state.last_stable_offset:
            return None
        if not coordinators.knows(partition, who.producer_id):
            return None
        known = coordinators.by_producer[who.producer_id]
        if known.state is not TransactionState.ONGOING or known.started is None:
            return None
        ended = releases.ended.get(partition) if releases is not None else None
        return stall_start(state, known.started, ended, self._watch.anchor)

    def _unreleased(self, partitions: Iterable[TopicPartition], producer_id: int | None) -> frozenset[TopicPartition]:
        """The partitions that a decided transaction may still hold, by the last reading.

        A coordinator keeps all partitions of one broker in its list until that broker has written the last marker. So
        an LSO at the high watermark, or another holder, is better evidence.
        """
        return frozenset(partition for partition in partitions if not self._is_released(partition, producer_id))

    def _is_released(self, partition: TopicPartition, producer_id: int | None) -> bool:
        if partition not in self._watch.readings:
            return False
        state = self._watch.standing.get(partition)
        if state is None:
            return True
        who = holding_producer(self._watch.producers.of(partition), state.last_stable_offset)
        return who is not None and who.producer_id != producer_id
