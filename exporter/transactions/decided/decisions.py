"""Decisions from the records of the transaction log: what ``fate`` judges by. Pure functions and values, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.model import KnownLogEnd
from exporter.transactions.machine.records import LogValue, Status
from exporter.transactions.outcome import LAST_EPOCH
from exporter.transactions.transaction import V2, Transaction, client_epochs

_PREPARED = frozenset({Status.PREPARE_COMMIT, Status.PREPARE_ABORT})
_COMPLETE = frozenset({Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT})
_COMMITS = frozenset({Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT})


class LogRecord(NamedTuple):
    """One record of the transaction log; ``leader_epoch`` is that of its batch, None where it is not known."""

    offset: int
    leader_epoch: int | None
    record_ms: int
    transactional_id: str
    value: LogValue


@dataclass(slots=True)
class LogRun:
    """The newest part of one partition of the log without a gap and without an election, as it is read.

    ``start`` is its first offset, ``next`` the one after its last, ``epoch`` the leader epoch of its records.
    """

    start: int = 0
    next: int = 0
    epoch: int | None = None

    def read(self, offset: int, leader_epoch: int | None) -> None:
        """Take in the next record. After a gap, or in another leader epoch, it begins the run."""
        if offset != self.next or leader_epoch is None or (offset and leader_epoch != self.epoch):
            self.start = offset
        self.next, self.epoch = offset + 1, leader_epoch

    def ended(self, end: int) -> None:
        """Note that there is no record from ``next`` to ``end``: compaction took what was there."""
        if end > self.next:
            self.start = self.next = end

    def whole_from(self, leader_epoch: int) -> int | None:
        """The offset from which on no record can be missing, by the partition's present leader epoch; None without one.

        An election may have been unclean, and have taken the newest records. That none was before the first record is
        known only of the first leader epoch, 0.
        """
        if self.next == 0:
            return 0 if leader_epoch == 0 else None
        if self.epoch != leader_epoch:
            return None
        return self.start if self.start or leader_epoch == 0 else 1


def passed_offset(whole_from: int | None, known: KnownLogEnd | None, leader_epoch: int) -> int:
    """The offset below which all of a partition of the log is older than records that came after its end was read; -1
    where that is not known.

    An end of an earlier leader epoch says nothing: an unclean election may have taken what was below it, and nothing
    else, and what was written in its place has the same offsets.
    """
    if known is None or whole_from is None or known.leader_epoch != leader_epoch:
        return -1
    return known.offset if whole_from <= known.offset else -1


def whole_since(starts: Mapping[int, int | None], passed: Mapping[int, int], *, recorded: bool) -> int | None:
    """The offset from which on every record of a producer id in the log is known; None where there is none.

    ``starts`` and ``passed`` are those of the partitions that may have its records, and ``recorded`` says that there is
    one. A coordinator writes one before it hands a producer id out (TransactionCoordinator.handleInitProducerId). A log
    without was made anew since, or lost it: it only shows what was not decided after a known end.
    """
    if not recorded:
        return 0 if passed and all(offset >= 0 for offset in passed.values()) else None
    return next(iter(starts.values())) if len(starts) == 1 else None


class _Opened(NamedTuple):
    """The Ongoing records of one transaction. ``first``: the very first of them was read."""

    client_epochs: frozenset[int]
    leader_epochs: frozenset[int | None]
    first: bool
    v2: bool


def decisions_of(producer_id: int, records: Iterable[LogRecord]) -> tuple[Transaction, ...]:
    """The decisions about transactions of one producer id, in the order of the log.

    ``records`` are those of one transactional.id, in the order of the log; those of its other producer ids are passed
    over. A Prepare record is written again when its append timed out, or by a new coordinator: the first counts.
    """
    found: list[Transaction] = []
    opened: dict[int, _Opened] = {}
    for record in records:
        value = record.value
        if value.status is Status.ONGOING and value.producer_id == producer_id:
            before = opened.get(value.start_ms)
            opened[value.start_ms] = _Opened(
                frozenset({value.producer_epoch}) | (before.client_epochs if before else frozenset()),
                frozenset({record.leader_epoch}) | (before.leader_epochs if before else frozenset()),
                # TransactionMetadata.prepareAddPartitions: the first has one instant for the begin and the update.
                value.last_update_ms == value.start_ms or (before is not None and before.first),
                value.tags.client_version >= V2,
            )
        elif value.status in _PREPARED and value.producer_id == producer_id:
            known = _same(found, value)
            if known is None:
                found.append(_prepared(record, opened.get(value.start_ms)))
            else:
                epochs = found[known].marker_epochs | {value.producer_epoch}
                found[known] = found[known]._replace(marker_epochs=epochs)
        elif value.status in _COMPLETE and value.start_ms >= 0:
            rotated = value.producer_id != producer_id
            if rotated and value.tags.previous_producer_id != producer_id:
                continue
            if not rotated and _is_of_the_id_before(value):
                continue
            known = _same(found, value)
            if known is not None:
                found[known] = found[known]._replace(completed_ms=record.record_ms)
            else:
                found.append(_completed(producer_id, record, rotated=rotated))
    return tuple(found)


def _is_of_the_id_before(value: LogValue) -> bool:
    """Return whether a Complete record is of the transaction of the producer id before its own.

    A rotation completes with the next id, epoch 0 and the id before it (TransactionMetadata.prepareComplete); a
    transaction of that id itself ends with a raised epoch in Transactions V2.
    """
    tags = value.tags
    is_first = tags.client_version >= V2 and value.producer_epoch == 0
    return is_first and tags.previous_producer_id not in {-1, value.producer_id}


def _same(found: Sequence[Transaction], value: LogValue) -> int | None:
    """The place of the last decision, if this value is of the same transaction and says the same."""
    if not found or found[-1].commit is not (value.status in _COMMITS):
        return None
    return len(found) - 1 if found[-1].begun_ms == max(-1, value.start_ms) else None


def _prepared(record: LogRecord, opened: _Opened | None) -> Transaction:
    value = record.value
    commit = value.status is Status.PREPARE_COMMIT
    tagged = value.tags.client_version >= V2
    # The server's own abort has the server's version: only the client's own records show the client's.
    v2 = opened.v2 if opened is not None else tagged and commit
    epochs = (
        opened.client_epochs
        if opened is not None
        else client_epochs(value.producer_epoch, tagged=tagged, commit=commit)
    )
    sure = opened is not None and opened.first and opened.leader_epochs == {record.leader_epoch} != {None}
    return Transaction(
        record.transactional_id,
        value.producer_id,
        epochs,
        frozenset({value.producer_epoch}),
        commit,
        client_version=V2 if v2 else 0,
        begun_ms=max(-1, value.start_ms),
        prepared_ms=record.record_ms,
        partitions=frozenset(value.partitions or ()),
        offset=record.offset,
        leader_epoch=-1 if record.leader_epoch is None else record.leader_epoch,
        sure=sure,
    )


def _completed(producer_id: int, record: LogRecord, *, rotated: bool) -> Transaction:
    """A decision of which only the Complete record is left. It does not name the partitions."""
    value = record.value
    commit = value.status is Status.COMPLETE_COMMIT
    epoch = LAST_EPOCH + 1 if rotated else value.producer_epoch
    tagged = value.tags.client_version >= V2
    return Transaction(
        record.transactional_id,
        producer_id,
        client_epochs(epoch, tagged=tagged, commit=commit),
        frozenset({epoch}),
        commit,
        client_version=V2 if tagged and commit else 0,
        begun_ms=max(-1, value.start_ms),
        prepared_ms=value.last_update_ms,
        completed_ms=record.record_ms,
        offset=record.offset,
    )
