"""Which decision of the transaction log a record of a partition belongs to, once its transaction has a marker there.

In Transactions V2 each transaction has an epoch of its own (KIP-890), which names its decision. Transactions of older
clients share an epoch: there the time of the marker names it, which lies between the decision and its completion where
one broker wrote all three. Between the clocks of two brokers a difference is allowed for, and more than one decision
may be near enough: then none is named. Pure functions, no I/O.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from exporter.kafka.log.batches import Marker
from exporter.model import TopicPartition
from exporter.transactions.decided.fate import CLOCK_SLACK_SECONDS
from exporter.transactions.transaction import Transaction


class LogWindow(NamedTuple):
    """A part of one partition of the transaction log, about one producer id.

    ``breaks`` are spans of Unix seconds in which records of that partition may be missing: compacted, lost by an
    unclean election, or not read.
    """

    decisions: tuple[Transaction, ...] = ()
    breaks: tuple[tuple[float, float], ...] = ()


class RecordOwner(NamedTuple):
    """The decision that a record belongs to; None with the reason where it is not known."""

    decision: Transaction | None
    missing: str = ""


class EndedRecord(NamedTuple):
    """A record of a transaction: ``epoch`` is its producer's, None for a marker itself. ``marker`` ended it.

    ``before`` is the producer's last marker below the record; ``first``: the partition was read from offset 0 and has
    none. ``written`` is the record's timestamp in Unix seconds, by its producer's clock in most topics.
    """

    partition: TopicPartition
    epoch: int | None
    marker: Marker
    before: Marker | None = None
    first: bool = False
    written: float = math.inf


NOT_EXCLUDED = "an earlier transaction of this client with the same epoch may have lost its marker here"
NOT_THERE = "the transaction log has no record of this decision any more, or not yet: compaction keeps the newest"


def owner_of(record: EndedRecord, window: LogWindow, *, one_clock: bool) -> RecordOwner:
    """The decision of the record's transaction. ``one_clock``: one broker wrote the marker and the decision."""
    by_epoch = [decision for decision in window.decisions if decision.v2 and _has_epoch(record, decision)]
    if len(by_epoch) == 1:
        return RecordOwner(by_epoch[0])
    slack = 0.0 if one_clock else CLOCK_SLACK_SECONDS
    near = [decision for decision in window.decisions if not decision.v2 and _may_own(record, decision, slack)]
    if not near:
        return RecordOwner(None, NOT_THERE)
    if len(near) > 1:
        text = f"{len(near)} transactions of this client share an epoch and a time: the log does not tell which it is"
        return RecordOwner(None, text)
    at = record.marker.timestamp_ms / 1000
    if slack and any(begin <= at + slack and at - slack <= end for begin, end in window.breaks):
        return RecordOwner(None, "the transaction log may have lost another decision of this client of that time")
    if record.epoch is not None and not _is_only(record, near[0], window, slack):
        return RecordOwner(None, NOT_EXCLUDED)
    return RecordOwner(near[0])


def _is_only(record: EndedRecord, owner: Transaction, window: LogWindow, slack: float) -> bool:
    """Return whether no other transaction of the record's epoch was decided between both markers: one that lost its own
    marker is ended by the next one.
    """
    if record.before is None and not record.first:
        return False
    since = -math.inf if record.before is None else record.before.timestamp_ms / 1000
    until = record.marker.timestamp_ms / 1000
    lost = [interval for interval in window.breaks if interval[1] >= since and interval[0] <= until]
    if lost and (lost[-1][0] > -math.inf or record.written - slack <= lost[-1][1]):
        return False
    others = [
        decision
        for decision in window.decisions
        if decision != owner
        and record.epoch in decision.client_epochs
        and since - slack < decision.decided_at <= until + slack
        and (decision.partitions is None or record.partition in decision.partitions)
    ]
    # With two clocks, the one that the marker before is of is among them.
    return not others or (len(others) == 1 and others[0].decided_at <= since + slack < owner.decided_at)


def _has_epoch(record: EndedRecord, decision: Transaction) -> bool:
    if record.epoch is None:
        return record.marker.producer_epoch in decision.marker_epochs and record.marker.commit is decision.commit
    return record.epoch in decision.client_epochs


def _may_own(record: EndedRecord, decision: Transaction, slack: float) -> bool:
    marker = record.marker
    if marker.commit is not decision.commit or marker.producer_epoch not in decision.marker_epochs:
        return False
    if record.epoch is not None and record.epoch not in decision.client_epochs:
        return False
    if decision.partitions is not None and record.partition not in decision.partitions:
        return False
    return decision.decided_at - slack <= marker.timestamp_ms / 1000 <= decision.ended + slack
