"""Which decision of the transaction log a record with a marker belongs to."""

from __future__ import annotations

import math

from exporter.kafka.log.batches import Marker
from exporter.model import TopicPartition
from exporter.transactions.decided.record_owner import NOT_EXCLUDED, EndedRecord, LogWindow, owner_of
from exporter.transactions.transaction import Transaction
from tests.helpers.transactions import decision_of

HERE, ELSEWHERE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def decided(epoch: int, *, v2: bool, at: float = 1000.0, commit: bool = True, here: bool = True) -> Transaction:
    marked = frozenset({epoch + 1 if v2 else epoch})
    places = frozenset({HERE, ELSEWHERE} if here else {ELSEWHERE})
    who = "pay-1", 7, frozenset({epoch}), marked
    return decision_of(*who, commit=commit, v2=v2, begun=at - 1, at=at, completed=at + 0.01, partitions=places)


def marker(epoch: int, *, at: float, commit: bool = True) -> Marker:
    return Marker(9, round(at * 1000), 7, epoch, commit, 0)


def record(
    epoch: int | None, marker_epoch: int, *, at: float = 1000.005, commit: bool = True, before: float | None = None
) -> EndedRecord:
    """A record with its marker, and the marker before it; the producer's first one without."""
    below = None if before is None else marker(marker_epoch, at=before)
    return EndedRecord(HERE, epoch, marker(marker_epoch, at=at, commit=commit), below, before is None, at)


def test_a_v2_epoch_names_its_decision_by_any_clock() -> None:
    found = [decided(epoch, v2=True, at=1000 + epoch) for epoch in range(3)]
    said = owner_of(record(1, 2, at=5000), LogWindow(tuple(found)), one_clock=False)
    assert said.decision == found[1]


def test_a_v2_marker_names_its_decision_by_its_epoch_and_type() -> None:
    found = [decided(epoch, v2=True) for epoch in range(3)]
    assert owner_of(record(None, 2), LogWindow(tuple(found)), one_clock=False).decision == found[1]
    assert owner_of(record(None, 2, commit=False), LogWindow(tuple(found)), one_clock=False).decision is None


def test_older_transactions_of_one_epoch_are_told_apart_by_one_clock_only() -> None:
    found = tuple(decided(0, v2=False, at=1000 + number) for number in range(3))
    assert owner_of(record(0, 0, at=1001.005, before=1000.005), LogWindow(found), one_clock=True).decision == found[1]
    said = owner_of(record(0, 0, at=1001.005, before=1000.005), LogWindow(found), one_clock=False)
    assert said.decision is None
    assert said.missing.startswith("3 transactions of this client share an epoch and a time")


def test_a_single_older_decision_of_that_time_is_its_own_unless_another_may_be_lost() -> None:
    found = (decided(0, v2=False),)
    assert owner_of(record(0, 0), LogWindow(found), one_clock=False).decision == found[0]
    lost = LogWindow(found, ((990.0, 996.0),))
    assert owner_of(record(0, 0), lost, one_clock=False).decision is None
    before = LogWindow(found, ((-math.inf, 990.0),))
    assert owner_of(record(0, 0), before, one_clock=False).decision == found[0]
    assert owner_of(record(0, 0)._replace(written=980.0), before, one_clock=False).decision is None


def test_a_record_that_may_be_of_a_transaction_that_lost_its_marker_has_no_owner() -> None:
    lost, released = decided(0, v2=False, at=990), decided(0, v2=False)
    for one_clock in (True, False):
        said = owner_of(record(0, 0, before=900), LogWindow((lost, released)), one_clock=one_clock)
        assert said == (None, NOT_EXCLUDED)
        said = owner_of(record(0, 0, before=990.005), LogWindow((lost, released)), one_clock=one_clock)
        assert said.decision == released
    not_read = record(0, 0)._replace(first=False)
    assert owner_of(not_read, LogWindow((released,)), one_clock=True) == (None, NOT_EXCLUDED)
    aborted = lost._replace(commit=False)
    assert owner_of(record(0, 0, before=900), LogWindow((aborted, released)), one_clock=True).decision is None
    assert owner_of(record(None, 0, before=900), LogWindow((lost, released)), one_clock=True).decision == released


def test_another_partition_type_or_epoch_is_another_decision() -> None:
    for other in (
        decided(0, v2=False, here=False),
        decided(0, v2=False, commit=False),
        decided(1, v2=False),
        decided(0, v2=False, at=2000),
    ):
        assert owner_of(record(0, 0), LogWindow((other,)), one_clock=True).decision is None


def test_a_decision_whose_partitions_were_compacted_may_own_by_time() -> None:
    found = decided(0, v2=False)._replace(partitions=None)
    assert owner_of(record(0, 0), LogWindow((found,)), one_clock=True).decision == found
