"""One partition of the transaction log as a pure state machine: records in, events out. No I/O, no clock.

It has the whole rule for the outcome of a transaction. Every transactional.id is on one partition of the log
(TransactionStateManager.partitionFor), so each partition has a machine of its own. The agent's tail and the history job
take the same events, so that they agree.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress

from exporter.transactions.facts import OpenTransaction
from exporter.transactions.machine.entries import (
    OPEN_STATES,
    UNKNOWN_EPOCH,
    UNKNOWN_VERSION,
    Entry,
    Event,
    Expired,
    Forgotten,
    Initialised,
    decode_section,
    encode_key,
    encode_section,
)
from exporter.transactions.machine.finished import FinishedIds
from exporter.transactions.machine.pending import PendingAborts
from exporter.transactions.machine.record_fields import Fields, fields_of
from exporter.transactions.machine.records import NO_TIMEOUT_MS, decode_key
from exporter.transactions.outcome import Verdict, abort_verdict, displaced
from exporter.transactions.transaction import V2, Transaction, client_epochs, marker_epochs, one_epoch
from exporter.words import Outcome

CLOCK_SET_BACK_MS = 5000
"""A record this many ms older than the one before it is from a clock that was set back, not from racing requests."""
ROOM = 64
"""Ids of a partition that are objects, at least, before those that are idle are put away."""
IDLE_MS = 15_000
_STATUSES = {state: int(status) for status, state in OPEN_STATES.items()}
_EMPTY, _PREPARE_COMMIT, _COMPLETE = 0, 2, 4
_COMMITTED = Verdict(Outcome.COMMITTED)
_NOTHING: tuple[Event, ...] = ()


class StateMachine:
    """One partition of the log.

    ``log_ms`` is the newest record's timestamp, or the later instant of ``log_time_reached``; -1 before both. Records
    come with the time of their common clock: ``ahead_ms`` is by how much that of their coordinator is ahead of it.
    """

    def __init__(self, number: int, appeared: Callable[[Entry], object] = lambda _: None) -> None:
        """``appeared`` is called with each new id, and sets its application."""
        self.number = number
        self._appeared = appeared
        self.entries: dict[bytes, Entry] = {}  # those that are open, wait, or were in the log lately
        self.finished = FinishedIds(number)  # all others, once they were put there
        self._room = ROOM
        self.open: dict[bytes, Entry] = {}
        self.touched: dict[bytes, None] | None = None  # ids whose open transaction may have changed; None: not kept
        self.unknown: dict[bytes, Entry] = {}  # the log lost their newest record, and their coordinator did not answer
        self._counted: dict[str, int] = {}  # the begin of the last one passed on before the log lost records of the id
        self.log_ms = -1
        self.ahead_ms = 0
        self._pending = PendingAborts()

    def apply(self, offset: int, record_ms: int, key: bytes, value: bytes | None) -> Sequence[Event]:
        """Process one record; records come in offset order. Returns its events, mostly none.

        Raises UndecodableRecord, and then changes nothing.

        This is the hot path: the partitions stay encoded, and numbers are used for the members of ``Status``.
        """
        if self.touched is not None:
            self.touched[key] = None
        entry = self.entries.get(key)
        if entry is None:
            entry = self._take_back(key)
        if self.unknown:
            self.unknown.pop(key, None)
        if value is None:
            removed = Expired(decode_key(key), record_ms)
            expired = (*self._passed(record_ms), removed)
            return expired if entry is None else (*expired, *self._forget(key, entry))
        fields = fields_of(value, entry)
        layout, producer_id, epoch, timeout_ms, status, update_ms, start_ms, client_version, section = fields
        events: Sequence[Event] = _NOTHING
        if entry is None:
            entry = Entry(decode_key(key), self.number)
            entry.record_ms = record_ms
            events = self._passed(record_ms)
            self._appeared(entry)
            self.entries[key] = entry
        elif record_ms > self.log_ms and not self._pending.queue:
            self.log_ms = record_ms
        elif record_ms != self.log_ms:
            events = self._passed(record_ms)
        if status >= 4:
            # It is written again when its first append timed out (TransactionMarkerChannelManager), and by a new
            # coordinator whose log lost the first one.
            written = (status, start_ms, epoch, producer_id)
            if written != (entry.status, entry.start_ms, entry.epoch, entry.producer_id):
                ended = self._complete(entry, offset, record_ms, fields)
                events = (*events, *ended) if events else ended
                self.open.pop(key, None)
        elif status == 1:
            if entry.pending is not None:
                events = (*events, *self._settle(entry))
            if entry.start_ms != start_ms:
                entry.begun_ahead_ms = self.ahead_ms
            entry.client_version = client_version
            entry.prepared_ms = -1
            entry.begun_offset = offset
            self.open[key] = entry
        elif status:
            # It is written again when its first append timed out, or by a new coordinator: the first has the decision.
            # The server's own abort, with a raised epoch, may follow the client's, whose append timed out.
            if entry.status == status and entry.start_ms == start_ms:
                update_ms, producer_id, epoch = entry.update_ms, entry.producer_id, entry.epoch
            else:
                if entry.pending is not None:
                    events = (*events, *self._settle(entry))
                _prepare(entry, start_ms, client_version)
                entry.prepared_ms = record_ms
                if entry.start_ms != start_ms:
                    entry.begun_ahead_ms = self.ahead_ms
            self.open[key] = entry
        else:
            # It is written again when its first append timed out and the client tried again.
            if entry.status or entry.epoch != epoch or entry.producer_id != producer_id:
                events = (*events, *self._initialise(entry, offset, record_ms, producer_id, epoch))
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
        return events

    # --- The log's time ---

    @property
    def first_due_ms(self) -> int | None:
        """The log time that has to be reached to settle the abort that waits longest; None when none waits."""
        return self._pending.first_due_ms

    @property
    def unsettled(self) -> Sequence[Entry]:
        """The ids whose abort waits, in the order in which they are due."""
        return self._pending.unsettled

    def log_time_reached(self, instant_ms: int) -> Sequence[Event]:
        """Note that all records before this instant of log time were read: up to the log end, not only to the high
        watermark, beyond which records may wait for replication. Settles the aborts whose window has passed.
        """
        self.log_ms = max(self.log_ms, instant_ms)
        return self._settle_until(instant_ms)

    def _passed(self, record_ms: int) -> Sequence[Event]:
        if record_ms > self.log_ms:
            self.log_ms = record_ms
            if self._pending.queue:
                return self._settle_until(record_ms)
        elif (step := self.log_ms - record_ms) > CLOCK_SET_BACK_MS:
            self.log_ms = record_ms
            self._pending.set_back(step)
        return _NOTHING

    def _settle_until(self, instant_ms: int) -> Sequence[Event]:
        return [event for entry in self._pending.due(instant_ms) for event in self._settle(entry)]

    # --- From outside of the log ---

    def seed(self, known: OpenTransaction) -> None:
        """Add an open transaction as its coordinator described it. Where the log has the id, the log is used."""
        key = encode_key(known.transactional_id)
        self.unknown.pop(key, None)
        self.seed_id(known.transactional_id)
        entry = self._known(key) or self.entries[key]
        if entry.offset >= 0:
            return
        entry.status = _STATUSES[known.state]
        entry.producer_id = known.producer_id
        entry.epoch = known.producer_epoch
        entry.start_ms = round(known.started * 1000) if known.started is not None else -1
        entry.timeout_ms = round(known.timeout * 1000) if known.timeout is not None else NO_TIMEOUT_MS
        entry.section = encode_section(known.partitions)
        entry.layout = 1
        entry.begun_ahead_ms = 0
        entry.client_version = UNKNOWN_VERSION
        entry.view = None
        self.open[key] = entry
        self._touch(key)

    def lose(self, offset: int) -> int:
        """Note that the log lost the records from this offset on. What their ids have open is unknown until their
        coordinator described it (``seed``, ``settle_unknown``) or their next record. Returns how many ids that are.

        Transactions that were passed on as ended stay ended: a coordinator that lost the records may end one again,
        with the same start.
        """
        for entry in list(self.finished.entries()):
            if entry.offset >= offset:
                self._take_back(encode_key(entry.transactional_id))
        for key, entry in self.entries.items():
            if entry.offset >= offset:
                entry.offset = -1
                entry.view = None
                begun_ms = entry.start_ms if entry.status >= _COMPLETE else entry.ended_start_ms
                if begun_ms >= 0:
                    self._counted[entry.transactional_id] = begun_ms
                self.unknown[key] = entry
                self.open.pop(key, None)
                self._touch(key)
        return len(self.unknown)

    def settle_unknown(self) -> None:
        """Note that the coordinator described every open transaction of this partition: what is unknown is not open."""
        for entry in self.unknown.values():
            if entry.open:
                entry.status = _EMPTY
        self.unknown.clear()

    def seed_id(self, transactional_id: str) -> None:
        """Add an id that its coordinator has."""
        key = encode_key(transactional_id)
        if key not in self.entries and key not in self.finished:
            self.make_room()
            entry = self.entries[key] = Entry(transactional_id, self.number)
            self._appeared(entry)

    def restore(self, saved: Iterable[Entry]) -> None:
        """Put ids back as they were when they were saved. No abort waits then but theirs."""
        self._pending.clear()
        for entry in saved:
            key = encode_key(entry.transactional_id)
            if (known := self._known(key)) is None:
                self._appeared(entry)
            else:
                entry.application = known.application
            self.entries[key] = entry
            self._touch(key)
            if entry.open:
                self.open[key] = entry
            else:
                self.open.pop(key, None)
            self.unknown.pop(key, None)
            if entry.pending is not None:
                self._pending.add(entry, entry.pending._replace(application=entry.application), entry.due_ms)

    def _touch(self, key: bytes) -> None:
        if self.touched is not None:
            self.touched[key] = None

    # --- Memory ---

    def make_room(self) -> None:
        """Put away the ids that have nothing open and were not in the log for a while, when objects doubled."""
        if len(self.entries) >= self._room:
            self._put_away(self.log_ms - IDLE_MS)

    def tidy(self, before_ms: int) -> None:
        """Put away the ids that have nothing open and no record since this instant of log time, when there are many
        objects.
        """
        if len(self.entries) >= ROOM:
            self._put_away(before_ms)

    def _put_away(self, before: int) -> None:
        for key, entry in list(self.entries.items()):
            idle = entry.offset < 0 or entry.record_ms < before
            if idle and entry.pending is None and key not in self.open and key not in self.unknown:
                with suppress(struct.error):  # what a broken state file has of it stays an object
                    self.finished.put(key, entry)
                    del self.entries[key]
        self._room = max(ROOM, 2 * len(self.entries))

    def known(self, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[Entry]:
        """Every id that is ``wanted``. An entry of one that was put away is a copy."""
        yield from [entry for entry in self.entries.values() if wanted(entry.transactional_id)]
        yield from self.finished.entries(wanted)

    def known_of(self, applications: Container[str]) -> Iterator[Entry]:
        """Every id of these applications, as ``known``."""
        yield from [entry for entry in self.entries.values() if entry.application in applications]
        yield from self.finished.entries_of(applications)

    def _known(self, key: bytes) -> Entry | None:
        return self.entries.get(key) or self._take_back(key)

    def _take_back(self, key: bytes) -> Entry | None:
        entry = self.finished.take(key)
        if entry is not None:
            self.entries[key] = entry
        return entry

    # --- Transitions ---

    def _complete(self, entry: Entry, offset: int, record_ms: int, fields: Fields) -> Sequence[Event]:
        _, producer_id, epoch, timeout_ms, status, update_ms, start_ms, client_version, _ = fields
        events: Sequence[Event] = self._settle(entry) if entry.pending is not None else _NOTHING
        decided_ms = entry.update_ms
        same = 0 < entry.status < 4 and entry.start_ms == start_ms
        if not same or entry.status == 1:
            if not same:
                entry.section = b""  # the records that named its partitions are gone: those of the last are not its own
            # The Prepare record is gone; the last update that Complete names is the same instant.
            _prepare(entry, start_ms, client_version)
            entry.prepared_ms, decided_ms = update_ms - self.ahead_ms, update_ms
            if not same:
                entry.begun_ahead_ms = self.ahead_ms
        # An exhausted epoch rotates the producer id with the Complete record: the transaction was the old one's.
        owner, decided_epoch = (entry.producer_id, entry.epoch) if same else (producer_id, epoch)
        if same and entry.status == 1:
            decided_epoch = epoch
        known = entry.previous_epoch != UNKNOWN_EPOCH
        verdict = _COMMITTED
        if status == 5:
            v2_client = entry.client_version >= V2
            bumped: bool | None = None
            if known:
                # The scan's abort may be in the log although its append failed for the coordinator, which then took the
                # client's own: the markers have the Complete record's epoch.
                kept = owner == producer_id and epoch == entry.previous_epoch
                bumped = not kept and decided_epoch != entry.previous_epoch
            elif v2_client:  # Transactions V2 always bumps (KIP-890)
                bumped = True
            open_ms = decided_ms - start_ms  # across the clocks of two coordinators, as the scan compares them
            verdict = abort_verdict(bumped=bumped, v2_client=v2_client, open_ms=open_ms, timeout_ms=timeout_ms)
        commit = status == _COMPLETE
        client_epoch = entry.previous_epoch if known else decided_epoch
        tagged = entry.client_version >= V2
        epochs = one_epoch(client_epoch) if known else client_epochs(client_epoch, tagged=tagged, commit=commit)
        # The record of an exhausted epoch has that of the next producer id.
        marked = one_epoch(decided_epoch) if owner != producer_id else marker_epochs(decided_epoch, epoch)
        begun_ms = start_ms - entry.begun_ahead_ms if start_ms >= 0 else -1
        partitions = decode_section(entry.section, entry.layout) if same or entry.section else None
        who = (entry.transactional_id, owner, epochs, marked, commit, entry.application, client_epoch)
        how = (entry.client_version, verdict.outcome, begun_ms, entry.prepared_ms, record_ms, timeout_ms, partitions)
        # As Transaction(...), whose constructor takes twice as long.
        row = (*who, *how, self.number, offset, self.ahead_ms, -1, False, False)
        transaction = tuple.__new__(Transaction, row)
        entry.ended_start_ms = start_ms
        passed_on = self._counted.pop(entry.transactional_id, None) if self._counted else None
        if passed_on is not None and start_ms <= passed_on:
            return events
        if verdict.fence_window_ms is None:
            return (*events, transaction) if events else (transaction,)
        self._pending.add(entry, transaction, record_ms + verdict.fence_window_ms)
        return events

    def prepared(self) -> Iterator[Transaction]:
        """The transactions that are decided and not completed."""
        for entry in self.open.values():
            if entry.status > 1:
                commit, tagged = entry.status == _PREPARE_COMMIT, entry.client_version >= V2
                known = entry.previous_epoch != UNKNOWN_EPOCH
                yield Transaction(
                    entry.transactional_id,
                    entry.producer_id,
                    one_epoch(entry.previous_epoch)
                    if known
                    else client_epochs(entry.epoch, tagged=tagged, commit=commit),
                    one_epoch(entry.epoch),
                    commit,
                    entry.application,
                    client_version=entry.client_version,
                    begun_ms=entry.begun_ms,
                    prepared_ms=entry.prepared_ms,
                    partitions=entry.partitions(),
                    log_partition=self.number,
                    offset=entry.offset,
                )

    def _initialise(self, entry: Entry, offset: int, record_ms: int, producer_id: int, epoch: int) -> Iterable[Event]:
        if entry.pending is not None:
            fenced = record_ms <= entry.due_ms and displaced((entry.producer_id, entry.epoch), (producer_id, epoch))
            yield from self._settle(entry, fenced=fenced)
        yield Initialised(entry, offset)

    def _settle(self, entry: Entry, *, fenced: bool = False) -> Sequence[Event]:
        transaction, entry.pending = entry.pending, None
        if transaction is None:
            return _NOTHING
        return (transaction._replace(outcome=Outcome.FENCED) if fenced else transaction,)

    def _forget(self, key: bytes, entry: Entry) -> Sequence[Event]:
        del self.entries[key]
        self.open.pop(key, None)
        self._counted.pop(entry.transactional_id, None)
        return (*self._settle(entry), Forgotten(entry))


def _prepare(entry: Entry, start_ms: int, client_version: int) -> None:
    """Set the epoch with which the ending transaction was written. Only its own Ongoing record proves it."""
    same = 0 < entry.status < 4 and entry.start_ms == start_ms
    if same and entry.status == 1:
        entry.previous_epoch = entry.epoch
    elif not same:
        entry.previous_epoch = UNKNOWN_EPOCH
        entry.client_version = client_version
    # Otherwise it was prepared before with the other decision, and the epoch is already set.
    if entry.client_version == UNKNOWN_VERSION:
        entry.client_version = client_version
