"""From the brokers' disks to the oracle: every replica must have the same batches, and then one is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.model import Deadline
from testkit.processes import poll
from tests.chaos.cluster import BROKERS, TRANSACTION_LOG, ChaosCluster
from tests.chaos.evidence import LostRecords, Place, PlantedOrphan
from tests.chaos.oracle.clocks import by_one_clock, states_by_one_clock
from tests.chaos.oracle.data_log import DataTransaction, held
from tests.chaos.oracle.offset_observer import OffsetObservation
from tests.chaos.oracle.outcomes import OracleTransaction, histories
from tests.chaos.oracle.segments import SegmentBatch, batches
from tests.chaos.oracle.transaction_log import State, states

SAME_SECONDS = 60.0
ENDED_SECONDS = 130.0
CONSUMER_OFFSETS = "__consumer_offsets"


class CollectError(RuntimeError):
    """The replicas did not become the same, or the logs cannot be read."""


class LogsOnDisk(NamedTuple):
    """All records of the transaction log, and the transactions in all data partitions."""

    states: list[State]
    held: dict[Place, list[DataTransaction]]


def read_all(cluster: ChaosCluster, looks: Mapping[Place, Sequence[OffsetObservation]]) -> LogsOnDisk:
    """Return what the brokers have on their disks, with the times of the clock by which it was looked at. Raises
    CollectError.
    """
    until = Deadline.after(SAME_SECONDS)
    copies = {place: _same_everywhere(cluster, place, until) for place in places(cluster)}
    if not cluster.mode.clocks:
        return _read(copies)
    shifts = cluster.mode.shifts
    read = _read({place: by_one_clock(copy, looks.get(place, ()), shifts) for place, copy in copies.items()})
    return read._replace(states=list(states_by_one_clock(read.states)))


def read_lost(cluster: ChaosCluster, kept: LogsOnDisk) -> LostRecords:
    """Return what leaders had that were replaced uncleanly, and what the logs do not have any more."""
    transactions = {
        _finished(transaction) for history in histories(kept.states).values() for transaction in history.transactions
    }
    lost: dict[tuple[object, ...], OracleTransaction] = {}
    held: dict[Place, list[DataTransaction]] = defaultdict(list)
    for logs in map(_read, cluster.lost):
        for history in histories(logs.states).values():
            lost |= {
                _finished(transaction): transaction
                for transaction in history.transactions
                if _finished(transaction) not in transactions
            }
        for place, every in logs.held.items():
            have = {
                (transaction.start, transaction.producer_id, *transaction.tokens)
                for transaction in kept.held.get(place, ())
            }
            held[place] += [
                transaction
                for transaction in every
                if (transaction.start, transaction.producer_id, *transaction.tokens) not in have
            ]
    return LostRecords(tuple(lost.values()), dict(held))


def _finished(transaction: OracleTransaction) -> tuple[object, ...]:
    return (
        transaction.transactional_id,
        transaction.producer_id,
        transaction.epoch,
        transaction.started,
        transaction.outcome == "committed",
    )


def _read(copies: Mapping[Place, Sequence[SegmentBatch]]) -> LogsOnDisk:
    read = LogsOnDisk([], {})
    for place, copy in copies.items():
        if place[0] == TRANSACTION_LOG:
            read.states.extend(states(place[1], copy))
        else:
            read.held[place] = held(copy, tokens=place[0] != CONSUMER_OFFSETS)
    return read


def wait_all_ended(cluster: ChaosCluster) -> bool:
    """Wait until no transaction is open in the transaction log; False when some still are."""
    until = Deadline.after(ENDED_SECONDS)
    while True:
        found: list[State] = []
        for place in places(cluster):
            if place[0] == TRANSACTION_LOG:
                found += states(place[1], batches(_folder(cluster, BROKERS[0], place)))
        if not any(history.open for history in histories(found).values()):
            return True
        if not poll(until, 2.0):
            return False


def places(cluster: ChaosCluster) -> list[Place]:
    """All partitions that a broker has on its disk."""
    found = set()
    for broker in BROKERS:
        for folder in cluster.data(broker).glob("*-*"):
            topic, _, number = folder.name.rpartition("-")
            if folder.is_dir() and number.isdigit() and topic != "__cluster_metadata":
                found.add((topic, int(number)))
    return sorted(found)


def orphans(data: dict[Place, list[DataTransaction]], planted: dict[int, float]) -> list[PlantedOrphan]:
    """The planted ones that are in the logs."""
    return [
        PlantedOrphan(place, transaction.producer_id, transaction.start, planted[transaction.producer_id])
        for place, every in data.items()
        for transaction in every
        if transaction.producer_id in planted
    ]


def _same_everywhere(cluster: ChaosCluster, place: Place, until: Deadline) -> list[SegmentBatch]:
    while True:
        folders = [_folder(cluster, broker, place) for broker in BROKERS]
        copies = [list(batches(folder)) for folder in folders if folder.is_dir()]
        if all(_marks(copy) == _marks(copies[0]) for copy in copies[1:]):
            return copies[0]
        if not poll(until, 0.5):
            ends = [copy[-1].last_offset if copy else -1 for copy in copies]
            raise CollectError(f"the replicas of {place[0]}-{place[1]} differ; they end at {ends}")


def _marks(copy: Sequence[SegmentBatch]) -> list[tuple[int, int]]:
    return [(batch.base_offset, batch.crc) for batch in copy]


def _folder(cluster: ChaosCluster, broker: int, place: Place) -> Path:
    return cluster.data(broker) / f"{place[0]}-{place[1]}"
