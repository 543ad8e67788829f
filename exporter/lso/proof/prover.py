"""The agent's proofs: which open transactions hang, over many reads. See ``lso.proof.evidence`` for what a proof is.

A round begins for a transaction that two consecutive reads saw open and that no coordinator has. Reading the log may
take several reads of the source; the first round reads it from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from exporter.cluster import Cluster
from exporter.kafka.client import AskError
from exporter.lso.proof.evidence import (
    CONFIRM_SECONDS,
    Committed,
    HangingProof,
    OpenStart,
    Round,
    WriterState,
    lacking,
)
from exporter.lso.proof.judged import JudgedRecords
from exporter.lso.proof.rounds import Rounds, committed_in
from exporter.model import Deadline, KnownLogEnd, TopicPartition
from exporter.transactions.machine.log_changes import LogChanges
from exporter.transactions.source.log_range import RangeConsumer, RangeReader

READ_SECONDS = 1.0
"""Seconds of one read of the source in which the log may be read: that read tells nothing before. ``lso.pace`` has when
the next one is.
"""
QUEUED_KBYTES = 512
RENEW_SECONDS = 60.0
"""Age of a proof, in seconds, at which its second round is repeated."""
KEEP_SECONDS = 300.0
"""Age, in seconds, at which a proof that could not be renewed expires."""
IDLE_SECONDS = 900.0
"""Seconds after the last suspect at which the records read of the log are dropped, to free memory."""
RETRY_SECONDS = 15.0
"""Seconds from a round that could not begin, or had a gap, to the next attempt."""

WAITING = "it was seen open and unknown to the coordinators once: a proof takes two rounds, half a minute apart"


class Prover:
    """Not thread-safe: for one worker."""

    def __init__(self, cluster: Cluster, connect: Callable[[], RangeReader] | None = None) -> None:
        self._cluster = cluster
        self._rounds = Rounds(cluster, connect or (lambda: RangeConsumer(cluster.properties, QUEUED_KBYTES)))
        self._seen: dict[OpenStart, float] = {}
        self._first: dict[OpenStart, Round] = {}
        self._proofs: dict[OpenStart, HangingProof] = {}
        self._committed: dict[OpenStart, Committed] = {}
        self._passed: dict[OpenStart, Mapping[int, KnownLogEnd]] = {}
        self._missing: dict[OpenStart, tuple[str, ...]] = {}
        self._retry: dict[OpenStart, float] = {}
        self._shown: frozenset[OpenStart] = frozenset()
        self._renew = 0.0
        self._idle_since: float | None = None

    @property
    def under_way(self) -> bool:
        """Return whether the log is not yet read as far as the current round needs it."""
        return self._rounds.under_way

    @property
    def judged(self) -> JudgedRecords:
        """The records that were judged, to be saved."""
        return self._rounds.judged

    def follow(self, changes: LogChanges | None, *, clocks_near: bool = False) -> None:
        """As ``Rounds.follow``."""
        self._rounds.follow(changes, clocks_near=clocks_near)

    def close(self) -> None:
        self._rounds.close()

    def look(
        self,
        suspects: Mapping[OpenStart, float],
        owned: AbstractSet[int],
        unanswered: AbstractSet[TopicPartition],
        deadline: Deadline,
        *,
        current: bool,
        passed: Mapping[OpenStart, Mapping[int, KnownLogEnd]] = MappingProxyType({}),
        writers: Mapping[OpenStart, WriterState] = MappingProxyType({}),
    ) -> None:
        """Continue the proofs.

        ``suspects`` are the transactions that DescribeProducers has just shown open and that no coordinator has, each
        with the monotonic instant of that answer. ``owned`` are the producer ids of the known open transactions, which
        do not hang. ``current`` is whether ``owned`` is complete by the transaction log at this moment: otherwise a
        proof is shown only by the read that renewed it, since the producer id may have begun another transaction. For
        ``unanswered`` partitions the last answers stay. ``passed`` are the ends that the partitions of the log had
        before the first record of a suspect was written, as far as that is known. ``writers`` are the producers by the
        same answer: of one that has written since its proof, the proof is dropped.
        """
        now = self._cluster.clock.monotonic()
        suspects = {held: at for held, at in suspects.items() if held.producer_id not in owned}
        known = [held for held in self._seen if held not in suspects and held.partition not in unanswered]
        known += [held for held in self._seen if held.producer_id in owned]
        for held in known:
            self._forget(held)
        for held in suspects:
            self._seen.setdefault(held, now)
            if not self._passed.get(held):
                self._passed[held] = passed.get(held, {})
        self._rest(now)
        self._renew = RENEW_SECONDS if current else 0.0
        for held, proof in list(self._proofs.items()):
            written = writers.get(held, proof.second.writer) != proof.second.writer
            if written or now - proof.second.asked_again > KEEP_SECONDS:
                self._drop_proof(held)
        if not self._rounds.under_way:
            self._begin({held: at for held, at in suspects.items() if self._due(held, now)}, deadline)
        if self._rounds.under_way:
            self._go_on(deadline)
        self._shown = frozenset(
            held
            for held, proof in self._proofs.items()
            if held in suspects and (current or proof.second.described >= now)
        )

    def proof(self, held: OpenStart) -> HangingProof | None:
        """The proof that it hangs, where the last read saw it open."""
        return self._proofs.get(held) if held in self._shown else None

    def committed(self, held: OpenStart) -> Committed | None:
        """The evidence that it was committed, where the last read saw it open."""
        return self._committed.get(held) if held in self._seen else None

    def missing(self, held: OpenStart) -> tuple[str, ...]:
        """Messages about what a proof lacks; none while it only waits for its next round."""
        return self._missing.get(held, ())

    # --- One round after the other ---

    def _rest(self, now: float) -> None:
        if self._seen:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since > IDLE_SECONDS:
            self._rounds.forget()
            self._idle_since = now

    def _due(self, held: OpenStart, now: float) -> bool:
        if self._seen[held] >= now or now < self._retry.get(held, float("-inf")):
            return False
        if (proof := self._proofs.get(held)) is not None:
            return now - proof.second.asked_again >= self._renew
        first = self._first.get(held)
        return first is None or now - first.asked_again >= CONFIRM_SECONDS

    def _begin(self, due: Mapping[OpenStart, float], deadline: Deadline) -> None:
        if not due:
            return
        try:
            self._rounds.begin(due, deadline, self._passed)
        except AskError as error:
            self._put_off(due, (error.fault.detail,))
            return
        if doubts := self._rounds.doubts:
            self._rounds.close()
            self._put_off(due, doubts)

    def _go_on(self, deadline: Deadline) -> None:
        about = self._rounds.about
        try:
            if not self._rounds.read_on(deadline.within(READ_SECONDS)):
                return
            rounds = self._rounds.finish(deadline)
        except AskError as error:
            self._put_off(dict.fromkeys(about, 0.0), (error.fault.detail,))
            return
        for begun in rounds:
            if begun.held in self._seen:  # otherwise it ended, or its owner became known, after the round began
                self._take(begun)

    def _take(self, begun: Round) -> None:
        self._committed.pop(begun.held, None)
        if begun.writer is not None and not any(begun.open_gaps()):
            self.judged.note(begun.held, begun.writer, begun.judgement, self._rounds.read_ends)
        if (found := committed_in(begun, self._cluster)) is not None:
            self._committed[begun.held] = found
        if gaps := tuple(begun.gaps()):
            if begun.log.open_ids.get(begun.held.producer_id) is not None or begun.again is None:
                self._forget(begun.held)
                self._seen[begun.held] = self._cluster.clock.monotonic()
            elif not begun.judgement.promised_to_nobody:
                self._drop_proof(begun.held)
            self._put_off({begun.held: 0.0}, gaps)
            return
        self._missing.pop(begun.held, None)
        self._retry.pop(begun.held, None)
        first = self._first.setdefault(begun.held, begun)
        if first is begun:
            return
        if problems := tuple(lacking(first, begun)):
            self._first[begun.held] = begun
            self._proofs.pop(begun.held, None)
            self._missing[begun.held] = problems
        else:
            self._proofs[begun.held] = HangingProof(first, begun)

    def _put_off(self, due: Mapping[OpenStart, float], why: tuple[str, ...]) -> None:
        at = self._cluster.clock.monotonic() + RETRY_SECONDS
        for held in due:
            if held in self._seen:
                self._missing[held] = why
                self._retry[held] = at

    def _drop_proof(self, held: OpenStart) -> None:
        self._first.pop(held, None)
        self._proofs.pop(held, None)

    def _forget(self, held: OpenStart) -> None:
        for kept in (self._seen, self._first, self._proofs, self._committed, self._passed, self._missing, self._retry):
            kept.pop(held, None)
