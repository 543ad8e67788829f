"""The state of the tail that survives a restart: values to JSON and back. No I/O.

A snapshot has, for each partition, the position and the ids whose transaction is open or waits for its outcome, as they
were at that position, and all counters. A journal line has what changed since: counters, positions, and the offsets of
aborts that wait. A start restores the snapshot's ids at the position of the snapshot, reads from there, and counts from
the end of the journal, so that nothing is counted twice and no counter is lower than an exposed value.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, Self

from exporter.transactions.machine.entries import Entry, decode_section, encode_section, pending_abort
from exporter.transactions.machine.progress import CONTEXT_RECORDS, LogPosition, PartitionProgress
from exporter.transactions.machine.state_machine import StateMachine
from exporter.words import Outcome

FORMAT = 3
_ENTRY = (
    *("status", "producer_id", "epoch", "previous_epoch", "client_version", "timeout_ms", "start_ms", "update_ms"),
    *("prepared_ms", "record_ms", "offset", "begun_offset", "layout"),
)
_ENDED = (
    *("producer_id", "producer_epoch", "client_version", "begun_ms", "prepared_ms", "completed_ms", "timeout_ms"),
    *("offset", "ahead_ms"),
)
_OPTIONAL_ENTRY = ("begun_ahead_ms",)
"""Written where it is not 0."""
_entry_fields, _ended_fields = attrgetter(*_ENTRY), attrgetter(*_ENDED)


class UnusableState(ValueError):  # noqa: N818 it says what was found, not what failed
    """A document that this version cannot use."""


@dataclass
class SavedPartition:
    """The saved state of one partition. ``ids`` are as they were at the offset ``taken_at``."""

    position: LogPosition
    taken_at: int | None = None
    ids: list[Entry] = field(default_factory=list)


class SavedClocks(NamedTuple):
    """How far the clocks of brokers are from the monotonic one of a boot, as ``CoordinatorClocks.known``, and who led
    the log: (leader epoch, broker) by partition.
    """

    boot: str
    known: Mapping[int, float]
    led: Mapping[int, tuple[tuple[int, int], ...]]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "boot": self.boot,
            "known": {str(broker): ahead for broker, ahead in self.known.items()},
            "led": {str(number): list(map(list, led)) for number, led in self.led.items()},
        }

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Self:
        """As ``document`` returned it. Raises AttributeError, TypeError or ValueError for anything else."""
        known = {int(broker): float(ahead) for broker, ahead in found.get("known", {}).items()}
        led = {
            int(number): tuple((int(epoch), int(broker)) for epoch, broker in pairs)
            for number, pairs in found.get("led", {}).items()
        }
        if not all(map(math.isfinite, known.values())):
            raise ValueError("the distance of a clock")
        return cls(str(found.get("boot", "")), known, led)


@dataclass
class Saved:
    """The whole saved state. ``partitions`` and ``counters`` are None where nothing was saved.

    ``log_partitions`` is how many partitions the log had: more of them have appeared since and are read from offset 0.
    """

    partitions: dict[int, SavedPartition] = field(default_factory=dict)
    log_partitions: int | None = None
    counters: dict[str, Any] | None = None
    generation: int = 0
    clocks: SavedClocks | None = None


# --- Writing ---


def partition_position(progress: PartitionProgress, machine: StateMachine) -> LogPosition:
    """The position of counting."""
    return progress.kept(entry.pending.offset for entry in machine.unsettled if entry.pending is not None)


def partition_document(progress: PartitionProgress, machine: StateMachine) -> dict[str, Any]:
    """A partition of a snapshot."""
    position = partition_position(progress, machine).document()
    return {"position": position, "taken_at": progress.next, "ids": partition_ids(machine)}


def kept_document(saved: SavedPartition, position: LogPosition | None = None) -> dict[str, Any]:
    """A partition of a snapshot whose ids are still those of an earlier one: it was not read to there since."""
    ids = list(map(_write_entry, saved.ids))
    return {"position": (position or saved.position).document(), "taken_at": saved.taken_at, "ids": ids}


def partition_ids(machine: StateMachine) -> list[list[Any]]:
    """The ids that are open or wait for their outcome."""
    entries = (*machine.open.values(), *machine.unsettled)
    found = {entry.transactional_id: entry for entry in entries if entry.offset >= 0}
    return list(map(_write_entry, found.values()))


def _write_entry(entry: Entry) -> list[Any]:
    fields = [*_entry_fields(entry), *([entry.begun_ahead_ms] if entry.begun_ahead_ms else ())]
    found = [entry.transactional_id, fields, _text(entry.section)]
    if entry.pending is not None:
        section = b"" if entry.pending.partitions is None else encode_section(entry.pending.partitions)
        epochs = sorted(entry.pending.client_epochs), sorted(entry.pending.marker_epochs)
        found.append([entry.due_ms, entry.pending.outcome, _ended_fields(entry.pending), _text(section), *epochs])
    return found


def _text(section: bytes) -> str:
    return b64encode(section).decode()


# --- Beginning ---


def begin(end: int, hour_ago: int | None, saved: SavedPartition | None, *, from_zero: bool) -> PartitionProgress:
    """Where to start in a partition whose high watermark is ``end``.

    ``saved`` is what the last process left, None for nothing. ``hour_ago`` is the first offset of the last hour, None
    when it has no records or could not be asked for; ``from_zero`` marks a partition that appeared while we watched.
    """
    recent = () if hour_ago is None else (hour_ago,)
    if saved is None:
        begun = 0 if from_zero else end
        return PartitionProgress(min((begun, *recent)), LogPosition(begun))
    context = () if saved.taken_at is None else (saved.taken_at,)
    start = max(0, min((saved.position.offset, *context, *saved.position.unsettled)) - CONTEXT_RECORDS)
    return PartitionProgress(min((start, *recent)), saved.position)


# --- Reading ---


def read(document: Mapping[str, Any], journal: Iterable[Mapping[str, Any]]) -> Saved:
    """Parse a saved state. Raises UnusableState for a document that is not of this format."""
    if not document:
        return Saved()
    try:
        if document.get("format") != FORMAT:
            raise UnusableState(f"the format {document.get('format')!r}")
        saved = Saved(
            {
                int(number): _read_partition(int(number), partition)
                for number, partition in document["partitions"].items()
            },
            int(document["log_partitions"]),
            dict(document["counters"]),
            int(document["generation"]),
            SavedClocks.read(document.get("clocks", {})),
        )
        for line in journal:
            if line.get("generation") == saved.generation:
                _amend(saved, line)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise UnusableState(f"{type(error).__name__}: {error}") from None
    return saved


def _amend(saved: Saved, line: Mapping[str, Any]) -> None:
    for number, position in line.get("partitions", {}).items():
        moved = LogPosition.read(position)
        saved.partitions.setdefault(int(number), SavedPartition(moved)).position = moved
    if "clocks" in line:
        saved.clocks = SavedClocks.read(line["clocks"])
    saved.log_partitions = max(saved.log_partitions or 0, int(line.get("log_partitions", 0)))
    counters = saved.counters if saved.counters is not None else {}
    for kind, changed in line.get("counters", {}).items():
        if isinstance(changed, dict):
            merged = {**counters.get(kind, {}), **changed}
            counters[kind] = {name: value for name, value in merged.items() if value is not None}
        else:
            counters[kind] = changed


def _read_partition(number: int, found: Mapping[str, Any]) -> SavedPartition:
    taken_at = None if found["taken_at"] is None else int(found["taken_at"])
    ids = [_read_entry(number, row) for row in found["ids"]]
    return SavedPartition(LogPosition.read(found["position"]), taken_at, ids)


def _read_entry(number: int, found: list[Any]) -> Entry:
    transactional_id, fields, section, *pending = found
    if not isinstance(transactional_id, str):
        raise TypeError("a transactional.id that is no text")
    entry = Entry(transactional_id, number)
    wanted = (*_ENTRY, *_OPTIONAL_ENTRY) if len(fields) > len(_ENTRY) else _ENTRY
    for name, value in zip(wanted, map(int, fields), strict=True):
        setattr(entry, name, value)
    entry.section = b64decode(section, validate=True)
    decode_section(entry.section, entry.layout)  # it is decoded when it is needed: here a broken one is refused
    for due_ms, outcome, numbers, encoded, clients, markers in pending:
        named = b64decode(encoded, validate=True)
        entry.due_ms = int(due_ms)
        entry.pending = pending_abort(
            entry,
            outcome=Outcome(outcome),
            partitions=decode_section(named, 1) if named else None,
            client_epochs=frozenset(map(int, clients)),
            marker_epochs=frozenset(map(int, markers)),
            **dict(zip(_ENDED, map(int, numbers), strict=True)),
        )
    return entry
