"""Whose transaction a record of a partition is in, and what became of it.

What readers of committed records get is the broker's own word: below the last stable offset a record is committed
unless the partition's index of aborted transactions has its producer there. Above it, the next marker of its producer
ends it; without one, its coordinator has it open, or ``fate.judge`` says what was decided. Every read is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from exporter.cluster import Cluster
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import AskError
from exporter.kafka.log.batches import Marker
from exporter.kafka.log.markers import NextMarker, OffsetRange, next_marker, read_trace
from exporter.kafka.log.record_batch import BatchAtOffset, RecordBatch, batch_at
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, start_offsets
from exporter.lso.proof.one_clock import is_one_clock
from exporter.lso.proof.record_fate import RecordEnds, RecordFate
from exporter.lso.proof.unended_record import UnendedRecord, producer_transactions
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.transactions.decided.record_owner import EndedRecord, owner_of
from exporter.transactions.source.decision_window import read_window
from exporter.transactions.source.log_range import RangeReader
from exporter.words import RecordState

READ_SECONDS = 15.0
"""Seconds of one search for a marker."""
NO_PARTITIONS = "its other partitions: compaction took the records of the log that name them"
NOT_THERE_YET = "read_committed consumers are not there yet: another transaction is open before it"
NO_ID = (
    "its transactional.id: no coordinator has one with this producer id any more: the id expired, or its producer id"
    " was replaced"
)


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Explains records of one cluster. ``connect`` makes a reader of the transaction log."""

    cluster: Cluster
    connect: Callable[[], RangeReader]

    def read(self, place: TopicPartition, offset: int, deadline: Deadline) -> RecordFate:
        """Find what became of the record at an offset. Raises AskError when the partition cannot be read."""
        metadata = self.cluster.metadata(deadline, [place.topic, TRANSACTION_STATE])
        ends = self._ends(metadata, place, deadline)
        found = RecordFate(place, offset, RecordState.UNKNOWN, ends)
        if not ends.log_start <= offset < ends.high_watermark:
            below = offset < ends.log_start
            return replace(found, state=RecordState.BELOW_LOG_START if below else RecordState.BEYOND_END)
        stable = offset < ends.stable
        isolation = Isolation.READ_COMMITTED if stable else Isolation.READ_UNCOMMITTED
        at = batch_at(self.cluster.client, metadata, place, offset, isolation, deadline)
        if isinstance(at, Fault):
            raise AskError(at)
        if (batch := at.batch) is None or batch.removed:
            return replace(found, state=RecordState.COMPACTED, batch=batch)
        found = replace(found, batch=batch)
        if batch.marker is not None:
            found = replace(found, state=RecordState.MARKER, marker=batch.marker)
            return self._with_decision(found, metadata, batch.marker, None, deadline)
        if not batch.transactional or batch.control or batch.producer_id is None or batch.producer_epoch is None:
            return replace(found, state=RecordState.NO_TRANSACTION)
        rest = OffsetRange(offset + 1, ends.high_watermark)
        reading = deadline.within(READ_SECONDS)
        search = next_marker(self.cluster.client, metadata, place, batch.producer_id, rest, reading)
        if stable:
            return self._stable(found, metadata, at, batch, search, deadline)
        if search.marker is not None:
            state = RecordState.COMMITTED if search.marker.commit else RecordState.ABORTED
            found = replace(found, state=state, marker=search.marker, notes=(NOT_THERE_YET,))
            return self._with_decision(found, metadata, search.marker, batch.producer_epoch, deadline)
        if search.reached < rest.end:
            return self._named(found.lacking(f"whether its marker is there: {_why(search)}"), batch, deadline)
        record = UnendedRecord(self.cluster, self.connect, metadata, found, batch.producer_id, batch.producer_epoch)
        return record.explained(deadline)

    def _stable(
        self,
        found: RecordFate,
        metadata: Metadata,
        at: BatchAtOffset,
        batch: RecordBatch,
        search: NextMarker,
        deadline: Deadline,
    ) -> RecordFate:
        """A record below the last stable offset: its transaction has ended."""
        aborted = batch.producer_id in at.aborted
        found = replace(found, state=RecordState.ABORTED if aborted else RecordState.COMMITTED)
        if search.marker is None:
            return self._named(found.lacking(f"its marker: {_why(search)}"), batch, deadline)
        if search.marker.commit is aborted:
            text = "how it ended: the partition's index of aborted transactions contradicts its next marker"
            return replace(found, state=RecordState.UNKNOWN, marker=search.marker).lacking(text)
        found = replace(found, marker=search.marker)
        return self._with_decision(found, metadata, search.marker, batch.producer_epoch, deadline)

    def _ends(self, metadata: Metadata, place: TopicPartition, deadline: Deadline) -> RecordEnds:
        """Read the start first and the high watermark last. Raises AskError."""
        if (fault := metadata.errors.get(place.topic)) is not None:
            raise AskError(fault)
        if place.partition not in metadata.topics.get(place.topic, {}):
            raise AskError(Fault(Reason.UNKNOWN_TOPIC, f"the cluster shows no partition {place}"))
        client, found = self.cluster.client, []
        for answer in (
            start_offsets(client, metadata, [place], deadline),
            end_offsets(client, metadata, [place], Isolation.READ_COMMITTED, deadline),
            end_offsets(client, metadata, [place], Isolation.READ_UNCOMMITTED, deadline),
        ):
            if place not in answer.values:
                raise AskError(answer.unanswered.get(place) or Fault(Reason.NO_LEADER, f"{place} gave no offsets"))
            found.append(answer.values[place])
        return RecordEnds(*found)

    def _with_decision(
        self, found: RecordFate, metadata: Metadata, marker: Marker, epoch: int | None, deadline: Deadline
    ) -> RecordFate:
        """The record with the decision that the marker is of, as far as the log has it; ``epoch`` is the record's."""
        found = self._named(found, marker, deadline)
        if not found.transactional_id:
            return found
        number = coordinator_partition(found.transactional_id, len(metadata.topics.get(TRANSACTION_STATE, ())) or 1)
        at = marker.timestamp_ms / 1000
        try:
            window = read_window(self.cluster, metadata, number, marker.producer_id, at, self.connect, deadline)
        except AskError as error:
            return found.lacking(f"its decision: {error.fault.detail}")
        one_clock = is_one_clock(self.cluster.client, metadata, found.partition, marker, number, deadline)
        record = self._ended(found, metadata, marker, epoch, deadline)
        owner = owner_of(record, window, one_clock=one_clock)
        if (decision := owner.decision) is None:
            return found.lacking(f"its other partitions: {owner.missing}")
        found = replace(
            found,
            decided=decision.commit,
            begun=decision.started,
            decided_at=decision.decided_at,
            own_marker=marker.producer_epoch in decision.marker_epochs and marker.commit is decision.commit,
            partitions=decision.partitions,
        )
        return found if decision.partitions is not None else found.lacking(NO_PARTITIONS)

    def _ended(
        self, found: RecordFate, metadata: Metadata, marker: Marker, epoch: int | None, deadline: Deadline
    ) -> EndedRecord:
        """The record between its producer's markers. A marker itself needs none below it."""
        if epoch is None or found.batch is None:
            return EndedRecord(found.partition, None, marker)
        client, place = self.cluster.client, found.partition
        trace = read_trace(client, metadata, place, marker.producer_id, found.offset, deadline)
        written = found.batch.timestamp_ms / 1000
        return EndedRecord(place, epoch, marker, trace.marker, trace.unmarked, written)

    def _named(self, found: RecordFate, writer: Marker | RecordBatch, deadline: Deadline) -> RecordFate:
        """The record with the transactional.id of its producer id, as its coordinator has it."""
        if writer.producer_id is None:
            return found
        asked = producer_transactions(self.cluster, writer.producer_id, deadline)
        if asked.ids:
            return replace(found, transactional_id=asked.ids[0][0])
        why = "; ".join(fault.detail for fault in asked.faults)
        return found.lacking(f"its transactional.id: {why}" if why else NO_ID)


def _why(search: NextMarker) -> str:
    """Why no marker was found."""
    if search.fault is not None:
        return search.fault.detail
    return f"none up to offset {search.reached}, where the search ended"
