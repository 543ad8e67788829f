"""The state of one transactional.id in the transaction log, and the events about it.

An event is caused by a record of the log, or by the advance of log time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from exporter.kafka.varint import uvarint
from exporter.model import TopicPartition
from exporter.transactions.facts import OpenTransaction
from exporter.transactions.machine.records import HEAD_SIZE, NO_TAGS, NO_TIMEOUT_MS, Status, partitions_at
from exporter.transactions.transaction import Transaction, one_epoch
from exporter.words import TransactionState

UNKNOWN_EPOCH = -2
UNKNOWN_VERSION = -1
OPEN_STATES = {
    Status.ONGOING: TransactionState.ONGOING,
    Status.PREPARE_COMMIT: TransactionState.PREPARE_COMMIT,
    Status.PREPARE_ABORT: TransactionState.PREPARE_ABORT,
}
# Numbers: each access to a member of an enum is a call.
_EMPTY, _ONGOING, _PREPARE_ABORT = int(Status.EMPTY), int(Status.ONGOING), int(Status.PREPARE_ABORT)


class Entry:
    """The state of one transactional.id: its newest record, and what is still needed of the records before it."""

    __slots__ = (
        "application",
        "begun_ahead_ms",
        "begun_offset",
        "client_version",
        "due_ms",
        "ended_start_ms",
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

    def __init__(self, transactional_id: str, log_partition: int, application: str = "") -> None:
        self.transactional_id = transactional_id
        self.application = application
        self.log_partition = log_partition
        self.status = _EMPTY
        self.producer_id = -1
        self.epoch = UNKNOWN_EPOCH
        self.previous_epoch = UNKNOWN_EPOCH  # the epoch of the Ongoing records of the transaction now prepared
        self.client_version = 0
        self.timeout_ms = -1
        self.start_ms = -1
        self.update_ms = -1  # the last update that the newest record names, the first of equal Prepare records
        self.prepared_ms = -1
        self.record_ms = -1
        self.offset = -1  # -1: not from the log, but from what the coordinator said at the start
        self.begun_offset = -1  # the newest Ongoing record
        self.begun_ahead_ms = 0  # by how much the clock that stamped ``start_ms`` is ahead of the records' common one
        self.ended_start_ms = -1  # of the newest transaction that ended; not kept of idle ids, nor saved
        self.section = b""  # the encoded partitions of the newest transaction
        self.layout = 1  # in which ``section`` is encoded
        self.pending: Transaction | None = None  # an abort whose outcome waits for log time
        self.due_ms = -1  # until when, in log time
        self.view: OpenTransaction | None = None

    @property
    def open(self) -> bool:
        return _ONGOING <= self.status <= _PREPARE_ABORT

    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions of the newest transaction: Complete and Empty records do not name them again."""
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
                self.begun_ms / 1000 if self.start_ms >= 0 else None,
                self.timeout_ms / 1000 if 0 <= self.timeout_ms < NO_TIMEOUT_MS else None,
                self.prepared_ms / 1000 if self.prepared_ms >= 0 else None,
                self.partitions(),
                self.begun_ahead_ms / 1000,
            )
        return self.view

    @property
    def begun_ms(self) -> int:
        """When the newest transaction began, by the records' common clock; -1 where that is not known."""
        return self.start_ms - self.begun_ahead_ms if self.start_ms >= 0 else -1


def encode_key(transactional_id: str) -> bytes:
    """The key of an id's records (TransactionLogKey v0)."""
    text = transactional_id.encode()
    return b"\x00\x00" + len(text).to_bytes(2, "big") + text


@lru_cache(maxsize=4096)
def decode_section(section: bytes, layout: int) -> frozenset[TopicPartition]:
    """Partitions from their encoded form, as kept in an entry. All transactions that have it share the set: to decode
    three of them takes 8 µs, and they take 400 bytes. Raises UndecodableRecord.
    """
    return frozenset((partitions_at(bytes(HEAD_SIZE) + section, layout)[1] or ()) if section else ())


def encode_section(partitions: frozenset[TopicPartition]) -> bytes:
    """Partitions in the encoded form of layout 1, to keep a coordinator's answer in the form of the log."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    section = uvarint(len(by_topic) + 1)
    for topic, numbers in by_topic.items():
        name = topic.encode()
        section += uvarint(len(name) + 1) + name + uvarint(len(numbers) + 1)
        section += b"".join(number.to_bytes(4, "big") for number in numbers) + NO_TAGS
    return section


def pending_abort(entry: Entry, **fields: Any) -> Transaction:  # noqa: ANN401 -- those of a transaction
    """An abort that waited for its outcome when it was saved, with the ``fields`` that its id does not have."""
    epochs = one_epoch(entry.epoch)
    who = entry.transactional_id, fields.pop("producer_id"), epochs, epochs
    fields = {"application": entry.application, "log_partition": entry.log_partition, **fields}
    return Transaction(*who, commit=False)._replace(**fields)


class Initialised(NamedTuple):
    """A producer got its id and epoch (InitProducerId); ``offset`` is that of the first Empty record that says so."""

    entry: Entry
    offset: int


class Forgotten(NamedTuple):
    """The coordinator dropped an idle id (a tombstone); the entry is not known any more."""

    entry: Entry


class Expired(NamedTuple):
    """The coordinator removed an id that was idle for transactional.id.expiration.ms, at Unix milliseconds by the
    records' common clock. Also of an id that was not known.

    A client that lives on and does not initialise anew fails with INVALID_PRODUCER_ID_MAPPING.
    """

    transactional_id: str
    expired_ms: int


Event: TypeAlias = Initialised | Transaction | Forgotten | Expired
