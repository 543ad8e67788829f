"""One round of the proof that transactions hang, read from the cluster: step (a) is given, steps (b) to (e) are made
here.

A round for many transactions costs the same as for one: the log's ends and its coordinators are requested once, and the
log is read once, from its start in the first round, from the last position in the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from exporter.cluster import Cluster
from exporter.kafka.client import AskError
from exporter.kafka.log.markers import OpenTrace, read_trace
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.offsets import Isolation, end_offsets, epoch_ends
from exporter.kafka.requests.transactions import Probes, ProducerState, describe_producers, probe_coordinators
from exporter.lso.proof.evidence import Committed, Loaded, LogRead, OpenStart, Round, WriterState
from exporter.lso.proof.judged import JudgedRecords
from exporter.lso.proof.log_scan import Cost, LogScan
from exporter.model import Deadline, Fault, KnownLogEnd, Reason, TopicPartition
from exporter.transactions.decided.fate import Fate, Judgement, OpenRecords, ProducerLog, judge
from exporter.transactions.facts import OpenTransactions
from exporter.transactions.machine.log_changes import LogChanges
from exporter.transactions.machine.records import UndecodableRecord
from exporter.transactions.source.log_range import RangeReader

TRACE_SECONDS = 5.0
"""Seconds of one round in which the partitions of its transactions may be read."""
NOT_AGAIN = Judgement(Fate.UNKNOWN, None, ("it is not open in the partition any more",))


OpenKey = tuple[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Begun:
    """Answers of the current round; instants are monotonic."""

    held: Mapping[OpenStart, float]
    asked: float
    partitions: int
    ends: Mapping[int, int]
    probes: Probes
    passed: Mapping[OpenStart, Mapping[int, KnownLogEnd]]


CLOCKS = (
    "the clocks of all brokers are not known to be near: only an agent that sees each of them coordinate knows them"
)


class Rounds:
    """Makes rounds, one at a time. Not thread-safe. ``connect`` makes a reader of the transaction log."""

    def __init__(self, cluster: Cluster, connect: Callable[[], RangeReader]) -> None:
        self._cluster = cluster
        self._connect = connect
        self._scan = LogScan(connect, cluster.clock)
        self._begun: _Begun | None = None
        self.judged = JudgedRecords()
        self._clocks_near = False
        self._epochs: Mapping[int, int] = {}  # leader epochs of the log at the end of the last round
        self._lost: tuple[str, ...] = ()  # messages about what the last round could not read any more
        # By the leader epoch of the partition: without an election nothing below an open record changes.
        self._traces: dict[OpenStart, tuple[int, OpenTrace]] = {}

    @property
    def under_way(self) -> bool:
        return self._begun is not None

    @property
    def about(self) -> tuple[OpenStart, ...]:
        """The transactions of the current round."""
        return tuple(self._begun.held) if self._begun is not None else ()

    @property
    def doubts(self) -> tuple[str, ...]:
        """Messages about what the current round already lacks. Reading the log would not complete it."""
        if self._begun is None:
            return ()
        return tuple(_loaded(self._begun).gaps(self._begun.partitions))

    @property
    def cost(self) -> Cost:
        """Records and bytes of the log read so far."""
        return self._scan.cost

    @property
    def left(self) -> int:
        """Offsets of the log that the current round still has to read."""
        ends = self._begun.ends if self._begun is not None else {}
        return sum(max(0, end - self._scan.reached.get(number, 0)) for number, end in ends.items())

    def follow(self, changes: LogChanges | None, *, clocks_near: bool = False) -> None:
        """Take in what the agent saw of the log: where it lost records, None where it is not followed; and whether the
        clocks of all brokers are known to be near enough to compare times.
        """
        self._clocks_near = clocks_near
        self.judged.follow(changes)

    def close(self) -> None:
        """Give up the current round and close the connection. Records read so far are kept."""
        self._begun = None
        self._scan.close()

    def forget(self) -> None:
        """Drop the records read of the log: the next round reads it from its start."""
        self.close()
        self._scan = LogScan(self._connect, self._cluster.clock)
        self._traces.clear()

    def begin(
        self,
        held: Mapping[OpenStart, float],
        deadline: Deadline,
        passed: Mapping[OpenStart, Mapping[int, KnownLogEnd]] = MappingProxyType({}),
    ) -> None:
        """Begin a round about transactions that DescribeProducers has shown open, each with the monotonic instant of
        that answer. ``passed`` are the ends of the log before their first record, where they are known.

        Raises AskError with what is missing: then there is no round.
        """
        self._begun = None
        asked = self._cluster.clock.monotonic()
        # From all brokers: one that is cut off from the controller has an old end of the log, and an old coordinator.
        metadata = self._cluster.client.confirmed(deadline, [TRANSACTION_STATE])
        partitions = _log_partitions(metadata)
        self._drop_what_was_lost(metadata, deadline)
        self._lost = ()
        ends = _ends(self._cluster, metadata, partitions, deadline)
        probes = probe_coordinators(self._cluster.client, metadata, deadline)
        self._scan.look_for({held_start.producer_id for held_start in held})
        known = {held_start: passed.get(held_start, {}) for held_start in held}
        self._begun = _Begun(dict(held), asked, len(partitions), ends, probes, known)

    def read_on(self, deadline: Deadline, advance: Callable[[int], object] = lambda _: None) -> bool:
        """Continue reading the log until the round has all of it, or the deadline. Returns whether it has all.

        Raises AskError when the log may not be read; that ends the round.
        """
        if self._begun is None:
            return False
        try:
            return self._scan.read(self._begun.ends, deadline, advance)
        except AskError:
            self._begun = None
            raise

    def finish(self, deadline: Deadline) -> list[Round]:
        """Read the partitions again, and return the round of each transaction, complete or with its gaps.

        Raises AskError when no broker answers, or none says whether the log still has what was read of it.
        """
        begun, self._begun = self._begun, None
        if begun is None:
            return []
        clock = self._cluster.clock
        ended = clock.monotonic()
        places = {start.partition for start in begun.held}
        leaders = self._cluster.client.confirmed(
            deadline, sorted({place.topic for place in places} | {TRANSACTION_STATE})
        )
        self._lost = self._drop_what_was_lost(leaders, deadline)
        again = held_in(self._cluster, leaders, places, deadline)
        found = self._scan.found()
        log = LogRead(
            begun.asked,
            ended,
            begun.partitions,
            begun.ends,
            {number: self._scan.reached.get(number, 0) for number in begun.ends},
            found.undecodable,
            found.owners(),
        )
        loaded = _loaded(begun)
        wall = clock.wall()
        epochs = {number: leaders.leader_epoch(TopicPartition(TRANSACTION_STATE, number)) for number in begun.ends}
        self._epochs = epochs
        reading = deadline.within(TRACE_SECONDS)
        rounds = []
        for held, described in begun.held.items():
            writer = again.held.get(held)
            if writer is None:
                said = NOT_AGAIN
            elif (owner := log.open_ids.get(held.producer_id)) is not None:
                said = Judgement(Fate.UNKNOWN, None, (f"transactional.id {owner!r} has this producer id open",))
            else:
                said = self._known(
                    held, writer, self._judged(held, writer, leaders, epochs, begun.passed[held], reading)
                )
            again_held = held if writer is not None else None
            owner = self._scan.owner(held.producer_id)
            rounds.append(Round(held, described, log, loaded, ended, again_held, wall, writer, said, owner))
        self._traces = {held: trace for held, trace in self._traces.items() if held in begun.held}
        return rounds

    def producer_log(self, producer_id: int) -> ProducerLog:
        """Return what the log showed of a producer id of the last finished round. Raises UndecodableRecord."""
        return self._scan.producer_log(producer_id, self._epochs)

    def _judged(
        self,
        held: OpenStart,
        writer: WriterState,
        leaders: Metadata,
        epochs: Mapping[int, int],
        passed: Mapping[int, KnownLogEnd],
        deadline: Deadline,
    ) -> Judgement:
        try:
            log = self._scan.producer_log(held.producer_id, epochs, passed)
        except UndecodableRecord as problem:
            return Judgement(Fate.UNKNOWN, None, (f"a record of {TRANSACTION_STATE} has {problem}",))
        shown = OpenRecords(held.partition, held.producer_id, writer.epoch)
        said = judge(shown, log)
        if said.fate is not Fate.UNKNOWN or not log.decisions:
            return said
        trace = self._trace(held, leaders, deadline)
        # A marker is ordered among the decisions of an older client by its time, which its partition's leader stamped.
        if self._clocks_near or len(leaders.brokers) == 1 or all(decision.v2 for decision in log.decisions):
            return judge(OpenRecords(*shown[:3], *trace), log)
        said = judge(OpenRecords(*shown[:3], *trace._replace(marker=None)), log)
        unsure = said.fate is Fate.UNKNOWN and trace.marker is not None
        return said._replace(missing=(CLOCKS, *said.missing)) if unsure else said

    def _known(self, held: OpenStart, writer: WriterState, said: Judgement) -> Judgement:
        """The judgement, or where the log does not have it any more what an earlier round knew."""
        before = self.judged.of(held, writer) if said.gap else None
        return said if before is None else before

    def _trace(self, held: OpenStart, leaders: Metadata, deadline: Deadline) -> OpenTrace:
        epoch = leaders.leader_epoch(held.partition)
        known = self._traces.get(held)
        if known is not None and known[0] == epoch:
            return known[1]
        found = read_trace(self._cluster.client, leaders, held.partition, held.producer_id, held.start_offset, deadline)
        if not deadline.over:
            self._traces[held] = epoch, found
        return found

    @property
    def read_ends(self) -> Mapping[int, KnownLogEnd]:
        """Up to where the log was read, with the leader epoch of the last record of each partition."""
        reached = self._scan.reached
        return {number: KnownLogEnd(reached.get(number, 0), epoch) for number, epoch in self._scan.epochs.items()}

    def _drop_what_was_lost(self, metadata: Metadata, deadline: Deadline) -> tuple[str, ...]:
        """Drop what was read of partitions whose log was truncated since (an unclean election), and all judgements: it
        may have grown beyond the old end with other records. They are read from their start again. Returns a message
        for each. Raises AskError without an answer.
        """
        lost, unanswered = self._lost_of(metadata, self.read_ends, deadline)
        for place in lost:
            self._scan.start_again(place.partition)
        if not unanswered and (saved := self.judged.unconfirmed):
            lost_before, unanswered = self._lost_of(metadata, saved, deadline)
            if lost_before:
                self.judged.clear()
            elif not unanswered:
                self.judged.confirmed()
        if lost:
            self.judged.clear()
        if unanswered:
            raise AskError(unanswered[0])
        return tuple(f"{place} lost records that were read" for place in lost)

    def _lost_of(
        self, metadata: Metadata, read: Mapping[int, KnownLogEnd], deadline: Deadline
    ) -> tuple[list[TopicPartition], list[Fault]]:
        """The partitions of the log that do not have all up to these ends any more, and why others did not answer.

        A log is not truncated while the epoch of its last record lasts. Two logs with one record of an epoch are the
        same up to it, so that the last one that was read stands for all.
        """
        known = {TopicPartition(TRANSACTION_STATE, number): end for number, end in read.items()}
        epochs = {place: end.leader_epoch for place, end in known.items()}
        doubtful = {place: epoch for place, epoch in epochs.items() if metadata.leader_epoch(place) != epoch}
        if not doubtful:
            return [], []
        ends = epoch_ends(self._cluster.client, metadata, doubtful, deadline)
        lost = [
            place
            for place, end in ends.values.items()
            if end.epoch != doubtful[place] or end.offset < known[place].offset
        ]
        return lost, list(ends.unanswered.values())

    def opened(self, watched_from: Mapping[int, int] = MappingProxyType({})) -> OpenTransactions:
        """The open transactions of the log, as far as it was read: complete after a finished round.

        ``watched_from`` are ends of the log. When a transaction is ended is known where it began before them and its
        coordinator is the same since: another one may have another clock, and ends nothing before it was elected.
        """
        grouping = self._cluster.grouping
        found = self._scan.found()
        sure = self._scan.of_one_coordinator(watched_from, self._epochs)
        transactions = tuple(
            opened if opened.transactional_id in sure else opened._replace(scan_behind=None)
            for opened in found.transactions(lambda transactional_id: grouping.of(transactional_id).name)
        )
        missing = (*found.undecodable, *self._lost)
        return OpenTransactions("txnlog", transactions, not missing, missing)


@dataclass(frozen=True, slots=True)
class Open:
    """Open transactions by DescribeProducers, each with its producer, and the partitions without an answer.
    ``described`` is the monotonic instant after the answers.
    """

    held: Mapping[OpenStart, WriterState]
    described: float
    unanswered: Mapping[TopicPartition, Fault]
    faults: tuple[Fault, ...]


def log_ends(cluster: Cluster, deadline: Deadline) -> dict[int, int]:
    """The ends of the transaction log, by all brokers. Raises AskError where one is not known."""
    metadata = cluster.client.confirmed(deadline, [TRANSACTION_STATE])
    return _ends(cluster, metadata, _log_partitions(metadata), deadline)


def held_in(cluster: Cluster, metadata: Metadata, places: Iterable[TopicPartition], deadline: Deadline) -> Open:
    """Ask the leaders which transactions are open in these partitions."""
    answers = describe_producers(cluster.client, metadata, places, deadline)
    return Open(open_writers(answers.values), cluster.clock.monotonic(), answers.unanswered, answers.faults)


def open_writers(answers: Mapping[TopicPartition, Iterable[ProducerState]]) -> dict[OpenStart, WriterState]:
    """The open transactions in answers of DescribeProducers, each with its producer."""
    return {
        OpenStart(place, producer.producer_id, producer.start_offset): WriterState(
            producer.producer_epoch, producer.last_timestamp, producer.last_sequence
        )
        for place, producers in answers.items()
        for producer in producers
        if producer.start_offset is not None
    }


def committed_in(begun: Round, cluster: Cluster) -> Committed | None:
    """The evidence of a round that a transaction, which no coordinator has open, was committed; None without it."""
    decision = begun.judgement.decision
    if begun.judgement.fate is not Fate.COMMITTED or decision is None or any(begun.open_gaps()):
        return None
    return Committed(begun.held, decision, cluster.grouping.of(decision.transactional_id).name, begun.wall)


def _loaded(begun: _Begun) -> Loaded:
    return Loaded(begun.asked, begun.probes.proven, begun.probes.unproven)


def _log_partitions(metadata: Metadata) -> list[TopicPartition]:
    if places := metadata.partitions(TRANSACTION_STATE):
        return list(places)
    text = f"the cluster shows no topic {TRANSACTION_STATE}: without the log there is no proof that a transaction hangs"
    raise AskError(metadata.errors.get(TRANSACTION_STATE) or Fault(Reason.UNKNOWN_TOPIC, text))


def _ends(cluster: Cluster, metadata: Metadata, places: list[TopicPartition], deadline: Deadline) -> dict[int, int]:
    ends = end_offsets(cluster.client, metadata, places, Isolation.READ_UNCOMMITTED, deadline)
    if ends.faults:
        raise AskError(ends.faults[0])
    return {place.partition: end for place, end in ends.values.items()}
