"""The transactions that hold stalled partitions: read from leaders and coordinators, with the evidence about each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from exporter.cluster import Cluster
from exporter.core.derived import Derived, DerivedByKey
from exporter.flink.facts import FlinkTransactions
from exporter.kafka.client import AskError
from exporter.kafka.requests.metadata import TRANSACTION_STATE, Metadata
from exporter.kafka.requests.transactions import ProducerState, ask_coordinators, describe_producers
from exporter.lso.facts import Stall
from exporter.lso.holders import as_unmarked, with_checkpoints
from exporter.lso.proof.evidence import Committed, HangingProof, OpenInLog, OpenStart, Overdue
from exporter.lso.proof.log_history import LogHistory
from exporter.lso.proof.prover import WAITING, Prover
from exporter.lso.proof.rounds import open_writers
from exporter.lso.rules import Coordinators, LogProducer, Replication
from exporter.lso.source.marker_waits import Markers
from exporter.lso.source.saved_proofs import SavedProofs
from exporter.lso.stalled import StalledPartitions
from exporter.lso.tracker import StallTracker
from exporter.model import Deadline, Facts, Fault, KnownLogEnds, Reason, TopicPartition
from exporter.transactions.decided.fate import ClocksApart
from exporter.transactions.facts import OpenTransaction, OpenTransactions, ReleaseTimes
from exporter.transactions.machine.log_changes import LogChanges
from exporter.words import BlockerKind


class _Evident(NamedTuple):
    """A stall with its evidence, which proves more from the monotonic instant ``until`` on."""

    until: float
    stall: Stall


class StallHolders:
    """Reads the holders of the stalled partitions of ``watch``. Not thread-safe: for the worker of source ``lso``."""

    def __init__(self, cluster: Cluster, watch: StallTracker, prover: Prover | None) -> None:
        """Without a prover, a holder that no coordinator has stays of kind unknown."""
        self._cluster = cluster
        self._watch = watch
        self._stalled = StalledPartitions(watch)
        self._markers = Markers(cluster.client, cluster.clock)
        self._prover = prover
        self._evident = DerivedByKey[TopicPartition, _Evident](self._with_due_evidence)
        self._of_log = Derived(Coordinators.of)
        self._found = Derived(self._with_evidence_of_all)
        self._until = math.inf  # monotonic: when one of the found proves more
        self._history = LogHistory()
        self._saved = None if prover is None else SavedProofs(cluster, self._history, prover.judged)
        self._holders: dict[OpenStart, float] = {}  # holders of stalled partitions, and since when they were seen

    def close(self) -> None:
        """Close the prover's connections."""
        if self._saved is not None:
            self._saved.save()
        if self._prover is not None:
            self._prover.close()

    def read(
        self,
        metadata: Metadata,
        hot: AbstractSet[TopicPartition],
        opened: OpenTransactions | None,
        deadline: Deadline,
        facts: Facts,
    ) -> tuple[Coordinators, Mapping[TopicPartition, Replication], list[Fault]]:
        """Ask partition leaders and coordinators for the transactions in stalled partitions, and continue the proofs.

        ``hot`` are the partitions of open transactions. Returns what the coordinators know, what decided transactions
        wait for, and faults.
        """
        known = self._of_log(_transactions(opened))
        self._follow(metadata, facts, opened)
        # Partitions first, then coordinators: a transaction that ends in between is unknown to its coordinator in this
        # read only; the next read clears it.
        wanted = self._watch.to_describe(hot, known)
        faults: list[Fault] = []
        fresh: Mapping[TopicPartition, Sequence[ProducerState]] = {}
        if wanted:
            answers = describe_producers(self._cluster.client, metadata, wanted, deadline)
            fresh = answers.values
            for partition in wanted:
                producers = answers.values.get(partition)
                if producers is not None:
                    opened_there = tuple(
                        LogProducer(producer.producer_id, producer.producer_epoch, producer.start_offset)
                        for producer in producers
                        if producer.start_offset is not None
                    )
                    self._watch.described(partition, opened_there)
                elif (fault := answers.unanswered.get(partition)) is not None:
                    self._watch.described(partition, None, fault.detail)
            # A topic that was deleted between two calls is no fault.
            faults += [refusal for refusal in answers.faults if refusal.reason is not Reason.UNKNOWN_TOPIC]
        described = self._cluster.clock.monotonic()
        coordinators = known
        unknown = self._watch.unknown_to(known)
        if ids := {producer.producer_id for producers in unknown.values() for producer in producers}:
            coordinators, more = self._ask(ids, opened, deadline)
            faults += more
        self._prove(fresh, described, coordinators, opened, deadline)
        if self._saved is not None:
            self._saved.save()
        coordinators, replication = self._what_completes(metadata, coordinators, deadline)
        return coordinators, replication, faults

    def _follow(self, metadata: Metadata, facts: Facts, opened: OpenTransactions | None) -> None:
        """Take in what the agent saw of the transaction log. Its losses count as known while every partition is read to
        its end: what one lost before it is read is not known.
        """
        if self._prover is None or self._saved is None:
            return
        self._saved.of_log(metadata.topic_ids.get(TRANSACTION_STATE, ""))
        self._history.note(facts.get(KnownLogEnds))
        read = opened is not None and opened.of_whole_log
        changes = facts.get(LogChanges) if read else None
        apart = facts.get(ClocksApart)
        self._prover.follow(
            changes,
            clocks_near=apart is not None and not apart.far and metadata.brokers.keys() <= apart.brokers,
        )

    def stalls(
        self,
        coordinators: Coordinators,
        replication: Mapping[TopicPartition, Replication],
        releases: ReleaseTimes | None,
        opened: OpenTransactions | None,
        flink: FlinkTransactions,
    ) -> list[Stall]:
        """The stalled partitions with the evidence about their holders, longest first.

        The same list as in the last read if nothing changed.
        """
        complete = opened is not None and opened.complete
        stalls = self._stalled.of(coordinators, releases, replication, complete=complete)
        if self._cluster.clock.monotonic() >= self._until:
            self._found.expire()
        logged = self._of_log(_transactions(opened))
        listing = None if opened is None else replace(opened, transactions=(), missing=(), as_of=None)
        return self._found(stalls, listing, logged, self._cluster.grouping.learned, flink)

    def _with_evidence_of_all(
        self,
        stalls: Sequence[Stall],
        listing: OpenTransactions | None,
        logged: Coordinators,
        learned: int,
        flink: FlinkTransactions,
    ) -> list[Stall]:
        """``listing`` is the fact of the open transactions without these: where they are from, and whether they are
        all.
        """
        now, found = self._cluster.clock.monotonic(), list[Stall]()
        self._until = math.inf
        for stall in sorted(stalls, key=lambda stall: stall.since):
            partition, known = stall.partition, logged.by_producer.get(stall.blocker.producer_id or 0)
            if stall.blocker.kind is not BlockerKind.OPEN:
                self._until = -math.inf  # a proof may have gone on
                found.append(self._with_evidence(stall, listing, known))
                continue
            before = self._evident.last(partition)
            if before is not None and now >= before.until:
                self._evident.expire(partition)
            evident = self._evident(partition, stall, listing, known, learned)
            self._until = min(self._until, evident.until)
            found.append(evident.stall)
        self._evident.keep({stall.partition for stall in found})
        found = list(with_checkpoints(found, flink)) if flink.any else found
        holding = {
            OpenStart(held.partition, held.blocker.producer_id or 0, held.blocker.start_offset) for held in found
        }
        self._holders = {held: since for held, since in self._holders.items() if held in holding}
        return found

    def _with_due_evidence(
        self, stall: Stall, listing: OpenTransactions | None, logged: OpenTransaction | None, _learned: int
    ) -> _Evident:
        """As ``_with_evidence``, and when the evidence proves more. Which ids may be Flink's depends on the learned."""
        shown = self._with_evidence(stall, listing, logged)
        evidence = shown.blocker.evidence
        left = Overdue.after(evidence) - evidence.watched if isinstance(evidence, OpenInLog) else math.inf
        return _Evident(self._cluster.clock.monotonic() + left if left >= 0 else math.inf, shown)

    @property
    def proving(self) -> bool:
        """Return whether a proof reads the transaction log, and goes on with that in the next read."""
        return self._prover is not None and self._prover.under_way

    def proof(self, held: OpenStart) -> HangingProof | None:
        """The proof that this transaction hangs, None without one."""
        return self._prover.proof(held) if self._prover is not None else None

    def committed(self, held: OpenStart) -> Committed | None:
        """The evidence that this transaction was committed, None without it."""
        return self._prover.committed(held) if self._prover is not None else None

    def missing(self, held: OpenStart) -> tuple[str, ...]:
        """Messages about what the proof of this transaction lacks."""
        return self._prover.missing(held) if self._prover is not None else ()

    def _prove(
        self,
        fresh: Mapping[TopicPartition, Sequence[ProducerState]],
        described: float,
        coordinators: Coordinators,
        opened: OpenTransactions | None,
        deadline: Deadline,
    ) -> None:
        """Continue the proofs for transactions that no coordinator has, with the answers of this read."""
        if self._prover is None:
            return
        suspects = {
            OpenStart(partition, producer.producer_id, producer.start_offset): described
            for partition, producers in self._watch.unknown_to(coordinators).items()
            if partition in fresh
            for producer in producers
        }
        current = opened is not None and opened.of_whole_log
        owned = coordinators.by_producer.keys()
        passed = {
            held: self._history.before(instant)
            for held in suspects
            if (instant := self._watch.closed_at(held.partition)) is not None
        }
        writers = {held: writer for held, writer in open_writers(fresh).items() if held in suspects}
        unasked = self._watch.producers.unasked()
        self._prover.look(suspects, owned, unasked, deadline, current=current, passed=passed, writers=writers)

    def _ask(
        self, unknown: set[int], opened: OpenTransactions | None, deadline: Deadline
    ) -> tuple[Coordinators, list[Fault]]:
        """Ask the coordinators about producer ids without a known transaction.

        DESCRIBE on all transactional ids may be missing when the tail of the log is current: the log has all ids.
        """
        grouping = self._cluster.grouping
        logged_open = _transactions(opened)
        try:
            asked = ask_coordinators(
                self._cluster.client,
                deadline,
                lambda transactional_id: grouping.of(transactional_id).name,
                producer_ids=sorted(unknown),
            )
        except AskError as error:
            return Coordinators.of(logged_open, (error.fault.detail,)), [error.fault]
        tail_is_current = opened is not None and opened.of_whole_log
        missing: Sequence[str] = [
            fault.detail for fault in asked.faults if not (fault.reason is Reason.AUTHORIZATION and tail_is_current)
        ]
        return Coordinators.of((*asked.transactions, *logged_open), missing), list(asked.faults)

    def _what_completes(
        self, metadata: Metadata, coordinators: Coordinators, deadline: Deadline
    ) -> tuple[Coordinators, Mapping[TopicPartition, Replication]]:
        """Ask what decided transactions in stalled partitions wait for: markers, and the replicas of partitions."""
        if found := self._stalled.completing(coordinators):
            ids = {candidate.transactional_id for candidates in found.values() for candidate in candidates}
            coordinators = coordinators._replace(pending=self._markers.pending(metadata, ids, deadline))
            metadata = self._markers.in_sync(metadata, {partition.topic for partition in found}, deadline)
        return coordinators, self._markers.replication(metadata, self._watch.standing)

    def _watched_for(self, stall: Stall) -> float:
        """For how long this process has seen this holder hold this partition, in seconds."""
        blocker = stall.blocker
        held = OpenStart(stall.partition, blocker.producer_id or 0, blocker.start_offset)
        now = self._cluster.clock.monotonic()
        return now - self._holders.setdefault(held, now)

    def _with_evidence(self, stall: Stall, opened: OpenTransactions | None, logged: OpenTransaction | None) -> Stall:
        """The stall with the evidence about its holder, which a step that ends a transaction needs.

        ``logged`` is the open transaction of the holder's producer id in the log.
        """
        blocker = stall.blocker
        if blocker.kind is BlockerKind.UNKNOWN and blocker.producer_id is not None:
            held = OpenStart(stall.partition, blocker.producer_id, blocker.start_offset)
            if (proof := self.proof(held)) is not None:
                return stall._replace(blocker=blocker._replace(kind=BlockerKind.HANGING, evidence=proof, missing=()))
            if (committed := self.committed(held)) is not None:
                return stall._replace(blocker=as_unmarked(blocker, committed))
            missing = (*blocker.missing, *self.missing(held)) or (WAITING,)
            return stall._replace(blocker=blocker._replace(missing=tuple(dict.fromkeys(missing))))
        if blocker.kind is BlockerKind.OPEN and blocker.transactional_id:
            flink = self._cluster.grouping.may_be_flink(blocker.transactional_id)
            evidence = None
            if opened is not None and logged is not None and logged.transactional_id == blocker.transactional_id:
                evidence = OpenInLog.of(opened, logged, watched=self._watched_for(stall), flink=flink)
            return stall._replace(blocker=blocker._replace(evidence=evidence, flink=flink))
        return stall


def _transactions(opened: OpenTransactions | None) -> tuple[OpenTransaction, ...]:
    return () if opened is None else opened.transactions
