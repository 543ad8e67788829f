"""Evidence about a broker that is to be stopped, and the answer, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.core.replication import UnmadeTopic
from exporter.flink.facts import FlinkTransaction
from exporter.kafka.requests.metadata import PartitionMetadata
from exporter.model import TopicPartition, Word
from exporter.transactions.facts import OpenTransaction


class RollAnswer(Word):
    """The answers whether a broker may be stopped at once. What is not known is never safe."""

    SAFE = "safe"
    WAIT = "wait"
    NO = "no"
    UNKNOWN = "unknown"


class RollReason(Word):
    """The reason of a row."""

    OFFLINE = "offline"  # a partition has no leader already
    LAST_IN_SYNC = "last_in_sync"  # the broker has the only copy that is in sync
    BELOW_MIN_ISR = "below_min_isr"  # fewer than min.insync.replicas would be left
    UNDER_REPLICATED = "under_replicated"  # another replica is not in sync yet
    TWO_REPLICAS = "two_replicas"  # one copy is left while the broker is away
    MARKERS_PENDING = "markers_pending"  # a decision waits for its markers
    TIMEOUT_NEAR = "timeout_near"  # an open transaction times out before its new coordinator serves it
    FLINK_DEADLINE = "flink_deadline"  # a precommitted transaction of Flink is lost within the outage
    OPEN_TRANSACTIONS = "open_transactions"  # what the broker coordinates
    NOT_MADE = "not_made"  # an internal topic that is not there yet
    GROUPS = "groups"
    CONNECT = "connect"
    NOT_ACCOUNTED = "not_accounted"  # open in a partition, at no coordinator
    NOT_READ = "not_read"


class RollRow(NamedTuple):
    """One reason with its evidence. ``effect`` is the answer that it demands; SAFE for what is good to know.

    ``seconds`` is how long to wait, None where that is not known.
    """

    effect: RollAnswer
    reason: RollReason
    subject: str
    text: str
    seconds: float | None = None


class BrokerRoll(NamedTuple):
    """The answer for one broker; ``seconds`` is how long to wait, None for any other answer."""

    broker: int
    answer: RollAnswer
    seconds: float | None
    rows: tuple[RollRow, ...]


class CoordinatedGroup(NamedTuple):
    """A group and its protocol type: ``consumer``, ``connect`` or that of a client."""

    name: str
    protocol: str


class UnaccountedTransaction(NamedTuple):
    """A transaction that a partition shows open and no coordinator has."""

    partition: TopicPartition
    producer_id: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class RollEvidence:
    """The cluster at one moment. ``now`` is Unix seconds by the coordinators' clock.

    ``topics`` are the two internal ones and those that transactions wrote to, ``min_isr`` their min.insync.replicas, or
    why it is not known. ``groups`` are by the broker that coordinates them. ``not_read`` says what could not be read,
    each with what it would show. ``unmade`` are the internal topics that are not there yet.
    """

    now: float
    brokers: Mapping[int, str]
    topics: Mapping[str, Mapping[int, PartitionMetadata]]
    min_isr: Mapping[str, int | str]
    opened: tuple[OpenTransaction, ...] = ()
    flink: Mapping[int, FlinkTransaction] = field(default_factory=dict)
    groups: Mapping[int, tuple[CoordinatedGroup, ...]] = field(default_factory=dict)
    unaccounted: tuple[UnaccountedTransaction, ...] = ()
    not_read: tuple[str, ...] = ()
    unmade: tuple[UnmadeTopic, ...] = ()
