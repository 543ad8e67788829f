"""The judgements of open records, kept while nothing can change it, and saved. No I/O, no clock.

A judgement holds while the partition shows the same records open and their producer has not written: nobody has the
transaction open (every round proves that again), so that nobody can be told later that it is committed. Compaction,
expiry and a clean election of the transaction log take from the log what proved it, and not the proof. An election that
took records does: the log may give the transaction back to its coordinator. So does another log of the same name.
What another process saved is used once the leaders of the log have shown that it has all that this rests on: the files
of the state may be of several moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from exporter.lso.proof.evidence import OpenStart, WriterState
from exporter.model import KnownLogEnd, TopicPartition
from exporter.transactions.decided.fate import Fate, Judgement
from exporter.transactions.machine.log_changes import LogChanges
from exporter.transactions.transaction import Transaction

MOST = 500
"""Judgements that are kept, the newest."""
MOST_PARTITIONS = 200
"""Partitions of one decision that are saved; without them its markers elsewhere are not looked for."""

Losses = list[list[float]]
_NUMBERS = ("producer_id", "client_version", "begun_ms", "prepared_ms", "completed_ms", "offset", "leader_epoch")


class _Known(NamedTuple):
    writer: WriterState
    said: Judgement


class JudgedRecords:
    """The judgements by open records. ``changed`` counts changes of what is saved."""

    def __init__(self) -> None:
        self._known: dict[OpenStart, _Known] = {}
        self._losses: Losses | None = None  # of the log, as the judgements know them
        self._current = False
        self._read: dict[int, KnownLogEnd] = {}
        self.unconfirmed: Mapping[int, KnownLogEnd] = {}
        """Up to where the log was read for the restored judgements, until ``confirmed``."""
        self.changed = 0

    def follow(self, changes: LogChanges | None) -> None:
        """Take in where the log lost records: after a loss nothing is known. None where the log is not followed."""
        self._current = changes is not None
        if changes is None:
            return
        losses = _losses(changes)
        if self._losses is not None and losses != self._losses:
            self.clear()
        self._losses = losses

    def clear(self) -> None:
        """Drop all judgements."""
        self.changed += bool(self._known)
        self._known.clear()
        self.unconfirmed = {}

    def confirmed(self) -> None:
        """Note that the log has what the restored judgements rest on."""
        self.unconfirmed = {}

    def note(self, held: OpenStart, writer: WriterState, said: Judgement, read: Mapping[int, KnownLogEnd]) -> None:
        """Keep a judgement, if it is known what became of the records. ``read`` is up to where the log was read, with
        the leader epoch of the last record of each partition.
        """
        known = _Known(writer, said)
        if not self._current or said.fate is Fate.UNKNOWN or self._known.get(held) == known:
            return
        self._known.pop(held, None)
        self._known[held] = known
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        self._read = dict(read)
        self.changed += 1

    def of(self, held: OpenStart, writer: WriterState) -> Judgement | None:
        """Return what is known of the records; None where their producer has written since, or nothing is known."""
        known = self._known.get(held)
        usable = self._current and not self.unconfirmed
        return known.said if known is not None and usable and known.writer == writer else None

    # --- Saved state ---

    def document(self) -> dict[str, Any]:
        """As JSON."""
        known = [[*held.partition, *held[1:], *writer, *_write(said)] for held, (writer, said) in self._known.items()]
        read = [[number, *end] for number, end in sorted(self._read.items())]
        return {"losses": self._losses, "read": read, "judged": known}

    def restore(self, document: Mapping[str, Any]) -> None:
        """As ``document`` returned it. Raises TypeError or ValueError for anything else."""
        losses, known, read = document["losses"], document["judged"], document["read"]
        if losses is None:
            return
        found: dict[OpenStart, _Known] = {}
        for topic, number, producer_id, start_offset, epoch, last_write, sequence, *said in known[-MOST:]:
            held = OpenStart(TopicPartition(str(topic), int(number)), int(producer_id), int(start_offset))
            written = None if last_write is None else float(last_write)
            found[held] = _Known(WriterState(int(epoch), written, int(sequence)), _read(*said))
        ends = {int(number): KnownLogEnd(int(offset), int(epoch)) for number, offset, epoch in read}
        self._losses = [list(map(float, loss)) for loss in losses]
        self._known, self._read, self.unconfirmed = found, ends, ends


def _losses(changes: LogChanges) -> Losses:
    """The newest loss of each partition of the log: number, Unix seconds, offset."""
    newest = {number: change.lost[-1] for number, change in changes.by_partition.items() if change.lost}
    return [[number, round(window.until, 3), window.offset] for number, window in sorted(newest.items())]


def _write(said: Judgement) -> list[Any]:
    decision = said.decision
    if decision is None:
        return [said.fate.value, None]
    places = decision.partitions
    named = None if places is None or len(places) > MOST_PARTITIONS else [list(place) for place in sorted(places)]
    numbers = {name: getattr(decision, name) for name in _NUMBERS}
    epochs = sorted(decision.client_epochs), sorted(decision.marker_epochs)
    return [said.fate.value, [decision.transactional_id, decision.commit, decision.sure, *epochs, named, numbers]]


def _read(fate: str, found: list[Any] | None) -> Judgement:
    decision = None
    if found is not None:
        name, commit, sure, clients, markers, places, numbers = found
        named = None if places is None else frozenset(TopicPartition(str(topic), int(n)) for topic, n in places)
        fields: dict[str, Any] = {name: _number(numbers[name]) for name in _NUMBERS}
        decision = Transaction(
            str(name),
            client_epochs=frozenset(map(int, clients)),
            marker_epochs=frozenset(map(int, markers)),
            commit=bool(commit),
            sure=bool(sure),
            partitions=named,
            **fields,
        )
    said = Judgement(Fate(fate), decision)
    decision_fits = decision is None or decision.commit is (said.fate is Fate.COMMITTED)
    if said.fate is Fate.UNKNOWN or not decision_fits or (said.fate is Fate.COMMITTED and decision is None):
        raise ValueError(f"a judgement {fate!r}")
    return said


def _number(value: object) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(f"the number {value!r}")
    return value
