"""Events of the state machine: caused by a record of the transaction log, or by the advance of log time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from exporter.model import Outcome

if TYPE_CHECKING:
    from exporter.transactions.entries import Entry


class Ended(NamedTuple):
    """A transaction finished and its outcome is settled: once for each transaction.

    Times are Unix milliseconds by the log; -1 where the log has none. ``offset`` is that of its Complete record, which
    with ``entry.log_partition`` identifies the transaction. ``producer_epoch`` is the epoch the client wrote with,
    where the log showed it; else the coordinator's. ``section`` are its partitions as ``layout`` encodes them, empty
    where compaction took the records that name them.
    """

    entry: Entry
    producer_id: int
    producer_epoch: int
    client_version: int
    outcome: Outcome
    begun_ms: int
    prepared_ms: int
    completed_ms: int
    timeout_ms: int
    offset: int
    section: bytes = b""
    layout: int = 1


class Appeared(NamedTuple):
    """A new transactional.id. The consumer of the event sets the entry's application."""

    entry: Entry


class Initialised(NamedTuple):
    """A producer got its id and epoch (InitProducerId); ``offset`` is that of the first Empty record that says so."""

    entry: Entry
    offset: int


class Forgotten(NamedTuple):
    """The coordinator dropped an idle id (a tombstone); the entry is not known any more."""

    entry: Entry


Event: TypeAlias = Appeared | Initialised | Ended | Forgotten
