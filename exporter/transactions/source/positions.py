"""Whether a position of the transaction log is still that of the record after the one that was read last.

Only the leader's word on leader epochs shows that a log was truncated: an end offset below a position is as often that
of a broker that is behind, and one above it may be that of other records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.kafka.ask import BrokerAccess
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import EpochEnd, epoch_ends, log_end_offsets, start_offsets
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.transactions.machine.progress import MOST_EPOCHS, NO_EPOCH, PartitionProgress
from exporter.transactions.machine.records import TOPIC

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checked:
    """The partitions whose log lost records, with the offset from which on those that were read are not in it; and why
    others could not be checked.
    """

    lost: Mapping[int, int]
    faults: tuple[Fault, ...]


def check_positions(
    client: BrokerAccess,
    metadata: Metadata,
    progress: Mapping[int, PartitionProgress],
    deadline: Deadline,
    *,
    seen: bool,
) -> Checked:
    """Correct the positions that the log does not have any more, and say so in the log of this process.

    ``seen`` says that this process read what is before them, and is False at a start.
    A position that cannot be checked stays, with ``gone`` set: it is not read until it can.
    """
    known = {TopicPartition(TOPIC, number): partition for number, partition in progress.items()}
    with_epoch = {place: partition.epoch for place, partition in known.items() if partition.epoch != NO_EPOCH}
    ends, faults = _ends(client, metadata, known, with_epoch, deadline)
    doubtful: list[TopicPartition] = []
    lost: dict[int, int] = {}
    for place, partition in known.items():
        leader_epoch = metadata.leader_epoch(place)
        if NO_EPOCH < leader_epoch < max(partition.epoch, partition.led.wanted):
            partition.gone = True
            faults.append(_older(place, leader_epoch, max(partition.epoch, partition.led.wanted)))
        elif place in with_epoch and place not in ends:
            partition.gone = True
        else:
            end = ends.get(place)
            if end is not None and end.offset >= 0:
                position = max(partition.next, partition.position)
                if end.offset < position:
                    lost[place.partition] = end.offset
                    _truncate(place, partition, end, seen=seen)
                elif partition.gone:
                    doubtful.append(place)
            else:
                doubtful.append(place)
            partition.led.wanted = NO_EPOCH
            partition.led.confirmed = leader_epoch
    if doubtful:
        starts = start_offsets(client, metadata, doubtful, deadline)
        log_ends = log_end_offsets(client, metadata, doubtful, deadline)
        faults += [*starts.faults, *log_ends.faults]
        for place in doubtful:
            ended = ends.get(place)
            agreed = ended is not None and ended.offset >= 0
            first = _correct(place, known[place], starts.values.get(place), log_ends.values.get(place), agreed=agreed)
            if first is not None:
                lost[place.partition] = first
    return Checked(lost, tuple(dict.fromkeys(faults)))


def _ends(
    client: BrokerAccess,
    metadata: Metadata,
    known: Mapping[TopicPartition, PartitionProgress],
    epochs: Mapping[TopicPartition, int],
    deadline: Deadline,
) -> tuple[dict[TopicPartition, EpochEnd], list[Fault]]:
    """Up to which offset each leader has what was read, with the epoch of the last such record; -1 without an epoch.

    A leader that never had the epoch of a position is asked for earlier ones, until it names one that was read.
    """
    found: dict[TopicPartition, EpochEnd] = {}
    faults: list[Fault] = []
    asking = dict(epochs)
    for _ in range(MOST_EPOCHS):
        if not asking:
            break
        answers = epoch_ends(client, metadata, asking, deadline)
        faults += answers.faults
        again: dict[TopicPartition, int] = {}
        for place, end in answers.values.items():
            if end.offset < 0:
                found[place] = end
                continue
            agreement = known[place].led.agreed(asking[place], end.epoch, end.offset)
            if agreement.ask is None:
                found[place] = EpochEnd(end.epoch, agreement.until)
            else:
                again[place] = agreement.ask
        asking = again
    return found, faults


def _older(place: TopicPartition, leader_epoch: int, epoch: int) -> Fault:
    return Fault(
        Reason.NO_LEADER,
        f"{place} is led in epoch {leader_epoch}, and was read to epoch {epoch}: the broker that says so is behind, or"
        " the log was created again; then stop, remove the files of the cluster from state.dir that begin with txnlog,"
        " and start again",
    )


def _truncate(place: TopicPartition, progress: PartitionProgress, end: EpochEnd, *, seen: bool) -> None:
    log.warning(
        "%s was truncated at offset %d: reading goes on there; what was counted up to offset %d stays counted",
        place,
        end.offset,
        max(progress.next, progress.position),
    )
    progress.truncated(end.offset, end.epoch, seen=seen)


def _correct(
    place: TopicPartition, progress: PartitionProgress, start: int | None, log_end: int | None, *, agreed: bool
) -> int | None:
    """Decide by both ends of the log; ``agreed`` says that the leader's epochs are those of the position. Returns the
    offset from which on what was read is lost, None while nothing is: the start of a log that begins after it.
    """
    position = max(progress.next, progress.position)
    if start is None or log_end is None:
        progress.gone = True
    elif position < start:
        log.warning("%s begins at offset %d: the records from offset %d on are lost", place, start, position)
        progress.deleted(start)
        return start
    elif position > log_end and not agreed:
        log.warning(
            "%s ends at offset %d and has no offset %d: the log was created again, or lost what was read. Reading"
            " goes on at its end; what is before that is counted as lost",
            place,
            log_end,
            position,
        )
        progress.given_up(log_end)
        return 0
    else:
        progress.gone = False
        if progress.next < start:
            progress.deleted(start)
    return None
