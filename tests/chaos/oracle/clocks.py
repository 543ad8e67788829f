"""Brings what brokers with clocks of their own have stamped to one clock, that of the observer.

Which broker stamped a batch is known by the distance of its time from the look that first saw it: of a leader epoch all
batches are of one broker, and the one that was seen soonest has the distance of its clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tests.chaos.oracle.offset_observer import OffsetObservation
from tests.chaos.oracle.segments import SegmentBatch
from tests.chaos.oracle.transaction_log import State


def by_one_clock(
    copy: Sequence[SegmentBatch], looks: Sequence[OffsetObservation], shifts: Sequence[int]
) -> list[SegmentBatch]:
    """The batches with the times of the observer; ``shifts`` are the seconds by which clocks may be ahead."""
    nearest: dict[int, float] = {}
    tops = _tops(looks)
    at = 0
    for batch in copy:
        while at < len(tops) and tops[at][1] <= batch.last_offset:
            at += 1
        if at == 0 or at == len(tops):  # it was there at the first look, or no look has seen it
            continue
        ahead = batch.max_timestamp / 1000 - tops[at][0]
        nearest[batch.leader_epoch] = max(ahead, nearest.get(batch.leader_epoch, ahead))
    found = []
    last = 0
    for batch in copy:
        if (ahead_most := nearest.get(batch.leader_epoch)) is not None:
            last = min(shifts, key=lambda shift: abs(shift - ahead_most)) * 1000
        found.append(
            batch._replace(
                base_timestamp=batch.base_timestamp - last, max_timestamp=batch.max_timestamp - last, shift_ms=last
            )
        )
    return found


def states_by_one_clock(found: Iterable[State]) -> Iterator[State]:
    """The records with the times of the observer. A transaction began by the clock of the first record that has it."""
    begun: dict[tuple[str, int], int] = {}
    for state in found:
        if state.status is None:
            yield state
            continue
        started_shift = begun.setdefault((state.transactional_id, state.started), state.shift)
        started = state.started - started_shift if state.started >= 0 else state.started
        yield state._replace(updated=state.updated - state.shift, started=started, started_shift=started_shift)


def _tops(looks: Sequence[OffsetObservation]) -> list[tuple[float, int]]:
    """When the high watermark was first seen at each height."""
    found: list[tuple[float, int]] = []
    for look in looks:
        if look.high is not None and (not found or look.high > found[-1][1]):
            found.append((look.at, look.high))
    return found
