"""A record without a marker: open at its coordinator, decided without a marker, or not known.

``fate.judge`` judges what was decided, by the log as the proof of hanging transactions reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from exporter.cluster import Cluster
from exporter.kafka.ask import coordinator_partition
from exporter.kafka.client import AskError
from exporter.kafka.log.batches import Marker
from exporter.kafka.log.markers import OpenTrace, read_trace
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets
from exporter.kafka.requests.transactions import PollResult, ask_coordinators
from exporter.lso.proof.evidence import OpenStart
from exporter.lso.proof.log_scan import LogScan
from exporter.lso.proof.one_clock import is_one_clock
from exporter.lso.proof.record_fate import RecordFate
from exporter.lso.proof.rounds import Rounds, held_in
from exporter.model import Deadline, TopicPartition
from exporter.transactions.decided.fate import Fate, Judgement, OpenRecords, ProducerLog, judge
from exporter.transactions.decided.record_owner import EndedRecord, LogWindow, owner_of
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.machine.records import UndecodableRecord
from exporter.transactions.source.log_range import RangeReader
from exporter.words import RecordState, TransactionState

NOT_EXCLUDED = (
    "whether the record is of the open transaction: an earlier one of this producer may have lost its marker here;"
    " `audit markers` compares them"
)
NOT_READ = "what was decided: the transaction log was not read in time: raise --timeout"
ENDING = "how it ended: the leader's log has its end, not yet below the high watermark: ask again"
MAY_HANG = (
    "no coordinator has it open, and nothing shows that it was decided: `transactions hanging --topic {} --partition"
    " {}` looks twice, and proves whether it hangs"
)


def producer_transactions(cluster: Cluster, producer_id: int, deadline: Deadline) -> PollResult:
    """The transactional ids of a producer id, and its open transaction, from all coordinators."""
    grouping = cluster.grouping
    return ask_coordinators(
        cluster.client,
        deadline,
        lambda transactional_id: grouping.of(transactional_id).name,
        states=(),
        producer_ids=(producer_id,),
    )


@dataclass(frozen=True, slots=True)
class UnendedRecord:
    """A record of a transaction, read up to the high watermark without a marker of its producer."""

    cluster: Cluster
    connect: Callable[[], RangeReader]
    metadata: Metadata
    found: RecordFate
    producer_id: int
    epoch: int

    def explained(self, deadline: Deadline) -> RecordFate:
        """Return the record with the state of its transaction. Raises AskError when no coordinator answers."""
        asked = producer_transactions(self.cluster, self.producer_id, deadline)
        opened = next(
            (transaction for transaction in asked.transactions if transaction.producer_id == self.producer_id), None
        )
        found = replace(self.found, transactional_id=asked.ids[0][0] if asked.ids else "")
        if opened is None or not _is_of(opened, found.partition, self.epoch):
            return self._undecided(found, opened, deadline)
        known = replace(found, begun=opened.started, timeout=opened.timeout, partitions=opened.partitions)
        if opened.state is not TransactionState.ONGOING:
            commit = opened.state is TransactionState.PREPARE_COMMIT
            note = "its other partitions are those whose marker is not confirmed yet"
            return replace(known, state=RecordState.COMPLETING, decided=commit, notes=(*known.notes, note))
        # An earlier transaction of this epoch may have lost its marker: it is excluded only where the log has none.
        said, ended = self._judged_by_log(opened.transactional_id, deadline, complete=True)
        if said.fate is Fate.COMMITTED:
            return _unmarked(found, said)
        doubt = () if said.fate is Fate.NEVER or ended else (NOT_EXCLUDED,)
        return replace(known, state=RecordState.OPEN, missing=(*known.missing, *doubt))

    def _undecided(self, found: RecordFate, opened: OpenTransaction | None, deadline: Deadline) -> RecordFate:
        """The record of a transaction that its coordinator does not have open; ``opened`` is another one."""
        held = held_in(self.cluster, self.metadata, [found.partition], deadline)
        mine = next((start for start in held.held if start.producer_id == self.producer_id), None)
        if mine is None or mine.start_offset > found.offset:
            return found.lacking(next((fault.detail for fault in held.faults), ENDING))
        try:
            if opened is not None:
                said, _ = self._judged_by_log(opened.transactional_id, deadline, complete=False)
            else:
                said = self._judged_by_round(mine, held.described, deadline)
        except (AskError, UndecodableRecord) as error:
            return found.lacking(f"what was decided: {error}")
        if said.fate in {Fate.COMMITTED, Fate.ABORTED}:
            return _unmarked(found, said)
        return found.lacking(*(said.missing or (MAY_HANG.format(*found.partition),)))

    def _judged_by_round(self, mine: OpenStart, described: float, deadline: Deadline) -> Judgement:
        """Find what was decided, where a round proves that no coordinator has it open. Raises AskError,
        UndecodableRecord.
        """
        rounds = Rounds(self.cluster, self.connect)
        try:
            rounds.begin({mine: described}, deadline)
            if not rounds.read_on(deadline):
                return Judgement(Fate.UNKNOWN, None, (NOT_READ,))
            (made,) = rounds.finish(deadline)
            if gaps := tuple(made.open_gaps()):
                return Judgement(Fate.UNKNOWN, None, gaps)
            return self._judged(self._trace(mine.start_offset, deadline), rounds.producer_log(mine.producer_id))
        finally:
            rounds.close()

    def _judged_by_log(self, transactional_id: str, deadline: Deadline, *, complete: bool) -> tuple[Judgement, bool]:
        """Find what was decided, by the partition that has the id, and whether the last decision about this partition
        is known to have its marker. ``complete``: as if the log had lost nothing.
        """
        log_partitions = self.metadata.topics.get(TRANSACTION_STATE, {})
        number = coordinator_partition(transactional_id, len(log_partitions) or 1)
        place = TopicPartition(TRANSACTION_STATE, number)
        ends = end_offsets(self.cluster.client, self.metadata, [place], Isolation.READ_UNCOMMITTED, deadline).values
        scan = LogScan(self.connect, self.cluster.clock)
        try:
            scan.look_for({self.producer_id})
            if place not in ends or not scan.read({number: ends[place]}, deadline):
                return Judgement(Fate.UNKNOWN, None, (NOT_READ,)), False
            log = scan.producer_log(self.producer_id, {number: self.metadata.leader_epoch(place)})
        except (AskError, UndecodableRecord) as error:
            return Judgement(Fate.UNKNOWN, None, (f"what was decided: {error}",)), False
        finally:
            scan.close()
        held = held_in(self.cluster, self.metadata, [self.found.partition], deadline).held
        starts = (start.start_offset for start in held if start.producer_id == self.producer_id)
        trace = self._trace(next(starts, self.found.offset), deadline)
        said = self._judged(trace, log._replace(whole_from=0, gaps=()) if complete else log)
        return said, self._has_marker(log, trace.marker, number, deadline)

    def _has_marker(self, log: ProducerLog, marker: Marker | None, number: int, deadline: Deadline) -> bool:
        """Return whether the last decision that may name this partition is of the marker below the open records."""
        place = self.found.partition
        naming = [decision for decision in log.decisions if decision.partitions is None or place in decision.partitions]
        if marker is None or not naming:
            return False
        if not is_one_clock(self.cluster.client, self.metadata, place, marker, number, deadline):
            return False
        owner = owner_of(EndedRecord(place, None, marker), LogWindow(log.decisions), one_clock=True)
        return owner.decision == naming[-1]

    def _trace(self, start_offset: int, deadline: Deadline) -> OpenTrace:
        place = self.found.partition
        return read_trace(self.cluster.client, self.metadata, place, self.producer_id, start_offset, deadline)

    def _judged(self, trace: OpenTrace, log: ProducerLog) -> Judgement:
        """Judge the open records of the record's epoch."""
        place, epoch = self.found.partition, self.epoch
        return judge(OpenRecords(place, self.producer_id, epoch, epoch, trace.marker, trace.unmarked), log)


def _is_of(opened: OpenTransaction, place: TopicPartition, epoch: int) -> bool:
    """Return whether a record of this epoch is of an open transaction. In Transactions V2, and where the server aborts,
    the epoch is raised when it is decided.
    """
    raised = opened.state is not TransactionState.ONGOING
    epochs = {opened.producer_epoch, opened.producer_epoch - raised}
    return place in opened.partitions and epoch in epochs


def _unmarked(found: RecordFate, said: Judgement) -> RecordFate:
    """A record whose decision is known, without its marker."""
    decision = said.decision
    if decision is None:
        return found
    return replace(
        found,
        state=RecordState.UNMARKED,
        transactional_id=decision.transactional_id,
        decided=decision.commit,
        begun=decision.started,
        decided_at=decision.decided_at,
        partitions=decision.partitions,
    )
