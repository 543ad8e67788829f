"""What the transaction log says: a state machine over its records. No I/O, no clock.

It keeps, for every transactional.id, where its current transaction stands, and tells a ``Sink`` of each transaction
that finished, once, with its outcome, and of each producer that was initialised. The agent's tail and the history
pipeline run the same machine, so that they agree to the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from exporter.model import OpenTransaction, Outcome
from exporter.transactions.entries import (
    OPEN_STATES,
    UNKNOWN_EPOCH,
    UNKNOWN_VERSION,
    Entry,
    Finished,
    LogPartition,
    encode_key,
    encode_section,
)
from exporter.transactions.outcome import FENCE_WINDOW_MS, abort_outcome, displaced
from exporter.transactions.records import (
    HEAD,
    HEAD_SIZE,
    NO_TIMEOUT_MS,
    PLAIN,
    PLAIN_SIZE,
    PREVIOUS_ID_TAGS,
    PREVIOUS_ID_TAGS_SIZE,
    TIMES,
    V2_CLIENT_TAGS,
    V2_CLIENT_TAGS_SIZE,
    V2_CLIENT_TAGS_START,
    UndecodableRecord,
    decode_key,
    head,
    partitions_end,
    tags_at,
)

__all__ = ["Entry", "Finished", "Ledger", "LogPartition", "Sink"]

V2 = 2
"""ClientTransactionVersion of a Transactions V2 client."""
_NONE_FIXED = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00")  # layout 0: null, and an empty array
_NOT_PLAIN: tuple[int, ...] = (-1,) * 8
_STATUSES = {state: int(status) for status, state in OPEN_STATES.items()}


class Sink(Protocol):
    """Who is told, during ``Ledger.apply`` and ``advance``.

    While ``finished`` runs, ``entry.partitions()`` are the transaction's; offsets are those of the record that finished
    or initialised.
    """

    def finished(self, entry: Entry, transaction: Finished) -> None: ...

    def initialised(self, entry: Entry, log_partition: int, offset: int) -> None: ...

    def removed(self, entry: Entry) -> None: ...


class Ledger:
    """The state machine. ``group`` names the application of an id that appears."""

    def __init__(self, sink: Sink, group: Callable[[str], str]) -> None:
        self._sink = sink
        self._group = group
        self.entries: dict[bytes, Entry] = {}
        self.open: dict[bytes, Entry] = {}
        self.partitions: dict[int, LogPartition] = {}

    def partition(self, number: int) -> LogPartition:
        if (found := self.partitions.get(number)) is None:
            found = self.partitions[number] = LogPartition(number)
        return found

    def apply(self, log: LogPartition, offset: int, record_ms: int, key: bytes, value: bytes | None) -> None:
        """Take in one record. Records of one partition come in offset order.

        Raises UndecodableRecord, and then nothing but the log's time has changed.

        This is the hot path: the partitions stay encoded, and an encoded list that an id had before is known by its
        bytes; numbers stand for the members of ``Status``.
        """
        if record_ms > log.log_ms:
            log.log_ms = record_ms
            if log.unsettled:
                self._settle_until(log, record_ms)
        elif record_ms < log.log_ms:
            log.reach_back(record_ms)
        entry = self.entries.get(key)
        if value is None:
            if entry is not None:
                self._remove(key, entry)
            return
        # Where the record names partitions: their encoded form, when it is a new one.
        section: bytes | None = None
        rest = len(value) - PLAIN_SIZE
        client_version = -1
        if rest == PREVIOUS_ID_TAGS_SIZE and value.startswith(PREVIOUS_ID_TAGS, PLAIN_SIZE):
            client_version = 0
        elif (
            rest == V2_CLIENT_TAGS_SIZE
            and value.endswith(V2_CLIENT_TAGS)
            and value.startswith(V2_CLIENT_TAGS_START, PLAIN_SIZE)
        ):
            client_version = V2
        layout, producer_id, epoch, timeout_ms, status, count, update_ms, start_ms = (
            PLAIN.unpack_from(value) if client_version >= 0 else _NOT_PLAIN
        )
        # Empty and Complete records look like that. All others, and all that is odd, take the long way.
        if layout != 1 or count > 1 or not (status == 0 or 4 <= status <= 5):
            if len(value) <= HEAD_SIZE:
                head(value)
                raise UndecodableRecord("a value that ends before its partitions")
            layout, producer_id, epoch, timeout_ms, status = HEAD.unpack_from(value)
            if not (0 <= layout <= 1 and 0 <= status <= 5):
                head(value)
            if (
                entry is not None
                and entry.section
                and entry.layout == layout
                and value.startswith(entry.section, HEAD_SIZE)
            ):
                end = HEAD_SIZE + len(entry.section)
            elif layout == 1 and value[HEAD_SIZE] < 2:  # null, or an empty array
                end = HEAD_SIZE + 1
                if 0 < status < 4:
                    section = b""
            elif layout == 0 and value[HEAD_SIZE : HEAD_SIZE + 4] in _NONE_FIXED:
                end = HEAD_SIZE + 4
                if 0 < status < 4:
                    section = b""
            else:
                end = partitions_end(value, layout)
                section = value[HEAD_SIZE:end]
            rest = len(value) - end - 16
            if rest < 0:
                raise UndecodableRecord("a value that ends within its times")
            update_ms, start_ms = TIMES.unpack_from(value, end)
            if layout == 0:
                client_version = 0
                if rest:
                    tags_at(value, 0, end + 16)
            elif rest == PREVIOUS_ID_TAGS_SIZE and value.startswith(PREVIOUS_ID_TAGS, end + 16):
                client_version = 0
            elif (
                rest == V2_CLIENT_TAGS_SIZE
                and value.endswith(V2_CLIENT_TAGS)
                and value.startswith(V2_CLIENT_TAGS_START, end + 16)
            ):
                client_version = V2
            else:
                client_version = tags_at(value, 1, end + 16).client_version

        if entry is None:
            transactional_id = decode_key(key)
            entry = self.entries[key] = Entry(transactional_id, self._group(transactional_id), log.number)
        # A Complete record is written again when its first append timed out (TransactionMarkerChannelManager).
        if status >= 4:
            if entry.status != status or entry.start_ms != start_ms or entry.update_ms != update_ms:
                self._complete(
                    entry,
                    log,
                    offset,
                    record_ms,
                    producer_id,
                    epoch,
                    client_version,
                    timeout_ms,
                    status,
                    update_ms,
                    start_ms,
                )
                self.open.pop(key, None)
        elif status == 1:
            if entry.pending is not None:
                self._settle(entry, Outcome.ABORTED)
            entry.client_version = client_version
            entry.prepared_ms = -1
            entry.begun_offset = offset
            self.open[key] = entry
        elif status:
            self._prepare(entry, start_ms, client_version)
            entry.prepared_ms = record_ms
            self.open[key] = entry
        else:
            self._initialise(entry, log.number, offset, record_ms, producer_id, epoch)
            self.open.pop(key, None)
        if section is not None:
            entry.section = section
            entry.layout = layout
        entry.view = None
        entry.status = status
        entry.producer_id = producer_id
        entry.epoch = epoch
        entry.timeout_ms = timeout_ms
        entry.start_ms = start_ms
        entry.update_ms = update_ms
        entry.record_ms = record_ms
        entry.offset = offset

    def advance(self, log: LogPartition, log_ms: int) -> None:
        """The end of the partition was reached and its time runs on with the clock: settle what waited long enough."""
        log.log_ms = max(log.log_ms, log_ms)
        self._settle_until(log, log.log_ms)

    def seed(self, log_partition: int, known: OpenTransaction) -> None:
        """Take in an open transaction as its coordinator described it. The log, where it has spoken, knows better."""
        key = encode_key(known.transactional_id)
        entry = self._seeded(key, known.transactional_id, log_partition)
        if entry is None:
            return
        entry.status = _STATUSES[known.state]
        entry.producer_id = known.producer_id
        entry.epoch = known.producer_epoch
        entry.start_ms = round(known.started * 1000) if known.started is not None else -1
        entry.timeout_ms = round(known.timeout * 1000) if known.timeout is not None else NO_TIMEOUT_MS
        entry.section = encode_section(known.partitions)
        entry.layout = 1
        entry.client_version = UNKNOWN_VERSION
        entry.view = known._replace(application=entry.application)
        self.open[key] = entry

    def seed_id(self, log_partition: int, transactional_id: str) -> None:
        """Take note of an id that its coordinator knows and that has no open transaction."""
        self._seeded(encode_key(transactional_id), transactional_id, log_partition)

    def _seeded(self, key: bytes, transactional_id: str, log_partition: int) -> Entry | None:
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(transactional_id, self._group(transactional_id), log_partition)
        return entry if entry.offset < 0 else None

    def _prepare(self, entry: Entry, start_ms: int, client_version: int) -> None:
        """Fix with which epoch the transaction that is ending was written. Only its own Ongoing record proves it."""
        if entry.pending is not None:
            self._settle(entry, Outcome.ABORTED)
        same = 0 < entry.status < 4 and entry.start_ms == start_ms
        if same and entry.status == 1:
            entry.previous_epoch = entry.epoch
        elif not same:
            entry.previous_epoch = UNKNOWN_EPOCH
            entry.client_version = client_version
        # Else it was prepared before, and written again since the first append timed out: what was fixed then stands.
        if entry.client_version == UNKNOWN_VERSION:
            entry.client_version = client_version

    def _complete(
        self,
        entry: Entry,
        log: LogPartition,
        offset: int,
        record_ms: int,
        producer_id: int,
        epoch: int,
        client_version: int,
        timeout_ms: int,
        status: int,
        update_ms: int,
        start_ms: int,
    ) -> None:
        decided_ms = entry.update_ms
        if entry.status not in (2, 3) or entry.start_ms != start_ms:
            if not (0 < entry.status < 4 and entry.start_ms == start_ms):
                entry.section = b""  # the records that named its partitions are gone: those of the last are not its own
            # The Prepare record is gone; the last update that Complete tells is the same instant.
            self._prepare(entry, start_ms, client_version)
            entry.prepared_ms = decided_ms = update_ms
        # An exhausted epoch rotates the producer id with the Complete record: the transaction was the old one's.
        owner, last_epoch = producer_id, epoch
        if 0 < entry.status < 4 and entry.start_ms == start_ms:
            owner, last_epoch = entry.producer_id, entry.epoch
        known = entry.previous_epoch != UNKNOWN_EPOCH
        v2_client = entry.client_version >= V2
        outcome: Outcome | None = Outcome.COMMITTED
        bumped: bool | None = None
        if status == 5:
            if known:
                bumped = owner != producer_id or epoch != entry.previous_epoch
            elif v2_client:  # Transactions V2 always bumps (KIP-890)
                bumped = True
            open_ms = decided_ms - start_ms
            outcome = abort_outcome(bumped=bumped, v2_client=v2_client, open_ms=open_ms, timeout_ms=timeout_ms)
        transaction = Finished(
            entry.transactional_id,
            owner,
            entry.previous_epoch if known else last_epoch,
            entry.client_version,
            outcome or Outcome.ABORTED,
            outcome is None and not v2_client and bool(bumped),
            start_ms,
            entry.prepared_ms,
            record_ms,
            timeout_ms,
            log.number,
            offset,
        )
        if outcome is None:
            entry.pending = transaction
            log.unsettled.append((record_ms + FENCE_WINDOW_MS, entry, transaction))
        else:
            self._sink.finished(entry, transaction)

    def _initialise(
        self, entry: Entry, log_partition: int, offset: int, record_ms: int, producer_id: int, epoch: int
    ) -> None:
        if entry.pending is not None:
            in_time = record_ms - entry.pending.completed_ms <= FENCE_WINDOW_MS
            fenced = in_time and displaced((entry.producer_id, entry.epoch), (producer_id, epoch))
            self._settle(entry, Outcome.FENCED if fenced else Outcome.ABORTED)
        self._sink.initialised(entry, log_partition, offset)

    def _settle(self, entry: Entry, outcome: Outcome) -> None:
        transaction, entry.pending = entry.pending, None
        if transaction is not None:
            if outcome is Outcome.FENCED:
                transaction = transaction._replace(outcome=outcome, by_server=False)
            self._sink.finished(entry, transaction)

    def _settle_until(self, log: LogPartition, log_ms: int) -> None:
        while log.unsettled and log.unsettled[0][0] < log_ms:
            _, entry, transaction = log.unsettled.popleft()
            if entry.pending is transaction:
                self._settle(entry, Outcome.ABORTED)

    def _remove(self, key: bytes, entry: Entry) -> None:
        if entry.pending is not None:
            self._settle(entry, Outcome.ABORTED)
        del self.entries[key]
        self.open.pop(key, None)
        self._sink.removed(entry)
