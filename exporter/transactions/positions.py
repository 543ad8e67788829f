"""Whether a position of the transaction log is still that of the record after the one that was read last.

Only the leader's word on leader epochs shows that a log was truncated: an end offset below a position is as often that
of a broker that is behind.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from exporter.kafka.requests.leader_epochs import EpochEnd, epoch_ends
from exporter.kafka.requests.metadata import Metadata
from exporter.kafka.requests.offsets import log_end_offsets, start_offsets
from exporter.kafka.requests.routing import BrokerAccess
from exporter.model import Deadline, Fault, Reason, TopicPartition
from exporter.transactions.progress import NO_EPOCH, PartitionProgress
from exporter.transactions.records import TOPIC

log = logging.getLogger(__name__)


def check_positions(
    client: BrokerAccess,
    metadata: Metadata,
    progress: Mapping[int, PartitionProgress],
    deadline: Deadline,
    *,
    seen: bool,
) -> tuple[Fault, ...]:
    """Correct the positions that the log does not have any more, and say so in the log of this process.

    ``seen`` says that this process read what is before them, and is False at a start.
    A position that cannot be checked stays, with ``gone`` set: it is not read until it can. Gives back why.
    """
    known = {TopicPartition(TOPIC, number): each for number, each in progress.items()}
    with_epoch = {place: each.epoch for place, each in known.items() if each.epoch != NO_EPOCH}
    ends = epoch_ends(client, metadata, with_epoch, deadline)
    faults = list(ends.faults)
    doubtful = []
    for place, each in known.items():
        if NO_EPOCH < (leader_epoch := metadata.leader_epoch(place)) < each.epoch:
            each.gone = True
            faults.append(_older(place, leader_epoch, each.epoch))
        elif place in with_epoch and place not in ends.values:
            each.gone = True
        elif not _agrees(place, each, ends.values.get(place), seen=seen):
            doubtful.append(place)
    if doubtful:
        starts = start_offsets(client, metadata, doubtful, deadline)
        log_ends = log_end_offsets(client, metadata, doubtful, deadline)
        faults += [*starts.faults, *log_ends.faults]
        for place in doubtful:
            ended = ends.values.get(place)
            agreed = ended is not None and ended.offset >= 0
            _correct(place, known[place], starts.values.get(place), log_ends.values.get(place), agreed=agreed)
    return tuple(dict.fromkeys(faults))


def _older(place: TopicPartition, leader_epoch: int, epoch: int) -> Fault:
    return Fault(
        Reason.NO_LEADER,
        f"{place} is led in epoch {leader_epoch}, and was read to epoch {epoch}: the broker that says so is behind, or"
        " the log was made anew; then stop, remove txnlog.json from state.dir, and start again",
    )


def _agrees(place: TopicPartition, progress: PartitionProgress, end: EpochEnd | None, *, seen: bool) -> bool:
    """Whether the log has the position, corrected by what ``end`` shows; False when that shows nothing."""
    if end is None or end.offset < 0:
        return False
    position = max(progress.next, progress.position)
    if end.offset < position:
        log.warning(
            "%s was truncated at offset %d: reading goes on there; what was counted up to offset %d stays counted",
            place,
            end.offset,
            position,
        )
        progress.truncated(end.offset, end.epoch, seen=seen)
    elif progress.gone:
        return False
    return True


def _correct(
    place: TopicPartition, progress: PartitionProgress, start: int | None, log_end: int | None, *, agreed: bool
) -> None:
    """Decide by both ends of the log; ``agreed`` says that the leader's epochs are those of the position."""
    position = max(progress.next, progress.position)
    if start is None or log_end is None:
        progress.gone = True
    elif position < start:
        log.warning("%s begins at offset %d: the records from offset %d on are lost", place, start, position)
        progress.deleted(start)
    elif position > log_end and not agreed:
        log.warning(
            "%s ends at offset %d and has no offset %d: the log was created again, or lost what was read. Reading"
            " goes on at its end; what is before that is counted as lost",
            place,
            log_end,
            position,
        )
        progress.given_up(log_end)
    else:
        progress.gone = False
        if progress.next < start:
            progress.deleted(start)
