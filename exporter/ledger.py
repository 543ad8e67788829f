"""What the transaction log says: a state machine over its records. No I/O, no clock.

It keeps, for every transactional.id, where its current transaction stands, and tells a ``Sink`` of each transaction
that finished, once, with its outcome, and of each producer that was initialised. The agent's tail and the history
pipeline run the same machine, so that they agree to the row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from exporter.judge import FENCE_WINDOW_MS, abort_outcome, displaced
from exporter.kafka.transaction_log import (
    HEAD,
    HEAD_SIZE,
    NO_TAGS,
    NO_TIMEOUT_MS,
    TIMES,
    V2_CLIENT_TAGS,
    Status,
    UndecodableRecord,
    decode_key,
    head,
    partitions_at,
    tags_at,
)
from exporter.model import OpenTransaction, Outcome, TopicPartition, TransactionState

UNKNOWN_EPOCH = -2
UNKNOWN_VERSION = -1
V2 = 2
"""ClientTransactionVersion of a Transactions V2 client."""
_NO_PARTITIONS = (b"\x00", b"\x01")  # layout v1: null, and an empty array
OPEN_STATES = {
    Status.ONGOING: TransactionState.ONGOING,
    Status.PREPARE_COMMIT: TransactionState.PREPARE_COMMIT,
    Status.PREPARE_ABORT: TransactionState.PREPARE_ABORT,
}


class Finished(NamedTuple):
    """One finished transaction. Times are Unix milliseconds by the log; -1 where it does not say.

    ``offset`` is that of its Complete record, which names the transaction for good. ``producer_epoch`` is the epoch the
    client wrote with, where the log showed it; else the coordinator's. ``by_server`` marks an abort that its client
    did not ask for and that was neither a timeout nor a fence.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    client_version: int
    outcome: Outcome
    by_server: bool
    begun_ms: int
    prepared_ms: int
    completed_ms: int
    timeout_ms: int
    log_partition: int
    offset: int


class Sink(Protocol):
    """Who is told, during ``Ledger.apply`` and ``advance``. While ``finished`` runs, ``entry.partitions()`` are the
    transaction's; offsets are those of the record that finished or initialised."""

    def finished(self, entry: Entry, transaction: Finished) -> None: ...

    def initialised(self, entry: Entry, log_partition: int, offset: int) -> None: ...

    def removed(self, entry: Entry) -> None: ...


class Entry:
    """Where one transactional.id stands: its newest record, and what of the records before it still matters."""

    __slots__ = (
        "application",
        "client_version",
        "epoch",
        "layout",
        "log_partition",
        "offset",
        "pending",
        "prepared_ms",
        "previous_epoch",
        "producer_id",
        "record_ms",
        "section",
        "start_ms",
        "status",
        "timeout_ms",
        "transactional_id",
        "update_ms",
        "view",
    )

    def __init__(self, transactional_id: str, application: str, log_partition: int) -> None:
        self.transactional_id = transactional_id
        self.application = application
        self.log_partition = log_partition
        self.layout = 1
        self.status = int(Status.EMPTY)
        self.producer_id = -1
        self.epoch = UNKNOWN_EPOCH
        self.previous_epoch = UNKNOWN_EPOCH  # the epoch of the Ongoing records of the transaction now prepared
        self.client_version = 0
        self.timeout_ms = -1
        self.start_ms = -1
        self.update_ms = -1
        self.prepared_ms = -1
        self.record_ms = -1
        self.offset = -1  # -1: not from the log, but from what the coordinator said at the start
        self.section = b""  # the encoded partitions of the newest transaction that had any
        self.pending: Finished | None = None
        self.view: OpenTransaction | None = None

    @property
    def open(self) -> bool:
        return Status.ONGOING <= self.status <= Status.PREPARE_ABORT

    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions of the newest transaction that had any."""
        return decode_section(self.section, self.layout)

    def transaction(self) -> OpenTransaction:
        """The open transaction of this id; call it only when ``open``."""
        if self.view is None:
            self.view = OpenTransaction(
                self.transactional_id,
                self.application,
                self.producer_id,
                self.epoch,
                OPEN_STATES[Status(self.status)],
                self.start_ms / 1000 if self.start_ms >= 0 else None,
                self.timeout_ms / 1000 if 0 <= self.timeout_ms < NO_TIMEOUT_MS else None,
                self.prepared_ms / 1000 if self.prepared_ms >= 0 else None,
                frozenset(self.partitions()),
            )
        return self.view


def decode_section(section: bytes, layout: int) -> tuple[TopicPartition, ...]:
    """Partitions from their encoded form, as kept in an entry."""
    return (partitions_at(bytes(HEAD_SIZE) + section, layout)[1] or ()) if section else ()


class LogPartition:
    """One partition of the log. ``log_ms`` is its log time: the newest record's timestamp, and at its end the clock."""

    __slots__ = ("log_ms", "number", "unsettled")

    def __init__(self, number: int) -> None:
        self.number = number
        self.log_ms = -1
        self.unsettled: deque[tuple[int, Entry, Finished]] = deque()


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
        """Take in one record. Records of one partition come in offset order. Raises UndecodableRecord, changing
        nothing.

        This is the hot path: the partitions stay encoded, and an encoded list that an id had before is known by its
        bytes.
        """
        if record_ms > log.log_ms:
            log.log_ms = record_ms
        if log.unsettled and log.unsettled[0][0] < record_ms:
            self._settle_until(log, record_ms)
        entry = self.entries.get(key)
        if value is None:
            if entry is not None:
                self._remove(key, entry)
            return
        if len(value) < HEAD_SIZE:
            head(value)
        layout, producer_id, epoch, timeout_ms, status = HEAD.unpack_from(value)
        if not (0 <= layout <= 1 and 0 <= status <= 5):  # noqa: PLR2004 the closed list of ``Status``
            head(value)
        section = entry.section if entry is not None else b""
        if layout == 1 and value[HEAD_SIZE : HEAD_SIZE + 1] in _NO_PARTITIONS:
            end = HEAD_SIZE + 1
        elif section and entry is not None and entry.layout == layout and value.startswith(section, HEAD_SIZE):
            end = HEAD_SIZE + len(section)
        else:
            end, partitions = partitions_at(value, layout)
            if partitions:
                section = value[HEAD_SIZE:end]
        if len(value) < end + 16:
            raise UndecodableRecord("a value that ends within its times")
        update_ms, start_ms = TIMES.unpack_from(value, end)
        tail = value[end + 16 :]
        if layout == 0:
            client_version = 0
            if tail:
                tags_at(value, 0, end + 16)
        elif tail == NO_TAGS:
            client_version = 0
        elif tail == V2_CLIENT_TAGS:
            client_version = 2
        else:
            client_version = tags_at(value, 1, end + 16).client_version

        if entry is None:
            transactional_id = decode_key(key)
            entry = self.entries[key] = Entry(transactional_id, self._group(transactional_id), log.number)
        entry.view = None
        before = entry.status
        if status == 1:
            if entry.pending is not None:
                self._settle(entry, Outcome.ABORTED)
            entry.previous_epoch = epoch
            entry.client_version = client_version
            entry.prepared_ms = -1
            self.open[key] = entry
        elif status == 2 or status == 3:
            self._prepare(entry, producer_id, start_ms, client_version)
            entry.prepared_ms = record_ms
            self.open[key] = entry
        elif status == 0:
            self._initialise(entry, log.number, offset, record_ms, producer_id, epoch)
            self.open.pop(key, None)
        entry.layout = layout
        entry.section = section
        if status >= 4:
            repeated = before == status and entry.start_ms == start_ms and entry.update_ms == update_ms
            decided_ms = entry.update_ms
            if before != 2 and before != 3:  # the Prepare record is gone: Complete's last update is the same instant
                self._prepare(entry, producer_id, start_ms, client_version)
                entry.prepared_ms = decided_ms = update_ms
            self.open.pop(key, None)
            if not repeated:
                end_state = (producer_id, epoch, status, timeout_ms, start_ms, decided_ms)
                self._complete(entry, log, offset, record_ms, end_state)
        entry.status = status
        entry.producer_id = producer_id
        entry.epoch = epoch
        entry.timeout_ms = timeout_ms
        entry.start_ms = start_ms
        entry.update_ms = update_ms
        entry.record_ms = record_ms
        entry.offset = offset

    def advance(self, log: LogPartition, log_ms: int) -> None:
        """The end of the partition was reached and its time runs on with the clock: settle what has waited long
        enough.
        """
        if log_ms > log.log_ms:
            log.log_ms = log_ms
        self._settle_until(log, log.log_ms)

    def seed(self, log_partition: int, known: OpenTransaction) -> None:
        """Take in an open transaction as its coordinator described it. The log, where it has spoken, knows better."""
        key = encode_key(known.transactional_id)
        entry = self._seeded(key, known.transactional_id, log_partition)
        if entry is None:
            return
        entry.status = {state: status for status, state in OPEN_STATES.items()}[known.state]
        entry.producer_id = known.producer_id
        entry.epoch = entry.previous_epoch = known.producer_epoch
        if known.state is not TransactionState.ONGOING:
            entry.previous_epoch = UNKNOWN_EPOCH
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

    def _prepare(self, entry: Entry, producer_id: int, start_ms: int, client_version: int) -> None:
        """Fix with which epoch the transaction that is ending was written. Only its own Ongoing record proves it."""
        if entry.pending is not None:
            self._settle(entry, Outcome.ABORTED)
        if entry.status == Status.ONGOING and entry.producer_id == producer_id and entry.start_ms == start_ms:
            entry.previous_epoch = entry.epoch
            if entry.client_version == UNKNOWN_VERSION:
                entry.client_version = client_version
        else:
            entry.previous_epoch = UNKNOWN_EPOCH
            entry.client_version = client_version

    def _complete(
        self,
        entry: Entry,
        log: LogPartition,
        offset: int,
        record_ms: int,
        end_state: tuple[int, int, int, int, int, int],
    ) -> None:
        producer_id, epoch, status, timeout_ms, start_ms, decided_ms = end_state
        # An exhausted epoch rotates the producer id with the Complete record: the transaction was the old one's.
        owner = entry.producer_id if entry.status in OPEN_STATES else producer_id
        v2_client = entry.client_version >= V2
        outcome: Outcome | None = Outcome.COMMITTED
        bumped: bool | None = None
        if status == Status.COMPLETE_ABORT:
            if entry.previous_epoch != UNKNOWN_EPOCH:
                bumped = owner != producer_id or epoch != entry.previous_epoch
            elif v2_client:  # Transactions V2 always bumps (KIP-890)
                bumped = True
            open_ms = decided_ms - start_ms
            outcome = abort_outcome(bumped=bumped, v2_client=v2_client, open_ms=open_ms, timeout_ms=timeout_ms)
        transaction = Finished(
            entry.transactional_id,
            owner,
            epoch if entry.previous_epoch == UNKNOWN_EPOCH else entry.previous_epoch,
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


def encode_key(transactional_id: str) -> bytes:
    """The key of an id's records (TransactionLogKey v0)."""
    text = transactional_id.encode()
    return b"\x00\x00" + len(text).to_bytes(2, "big") + text


def encode_section(partitions: frozenset[TopicPartition]) -> bytes:
    """Partitions in the encoded form of layout v1, to keep what a coordinator said as the log would have said it."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    section = _uvarint(len(by_topic) + 1)
    for topic, numbers in by_topic.items():
        name = topic.encode()
        section += _uvarint(len(name) + 1) + name + _uvarint(len(numbers) + 1)
        section += b"".join(number.to_bytes(4, "big") for number in numbers) + NO_TAGS
    return section


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:  # noqa: PLR2004 seven bits a byte
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
