"""Markers compared with decisions in the plainest form: every decision with every marker and every other decision.

The oracle of ``exporter.transactions.decided.torn.judge``, which finds the same with indexes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from exporter.kafka.log.batches import Marker
from exporter.kafka.log.markers import PartitionMarkers
from exporter.model import TopicPartition
from exporter.transactions.decided.shared_epoch import AGREEING, CLOCK_SLACK_MS
from exporter.transactions.decided.torn import MarkerComparison, Torn
from exporter.transactions.transaction import Transaction


def compare_all(
    decisions: Iterable[Transaction],
    read: Mapping[TopicPartition, PartitionMarkers],
    since_ms: int,
    compacted: frozenset[str] = frozenset(),
) -> MarkerComparison:
    """Compare every transaction that completed since then with the markers of its partitions.

    ``read`` has the partitions from ``since_ms`` on to an end that was asked for after the transaction log was read.
    ``compacted`` are topics whose cleaner may have taken markers: there only a contradiction is judged.
    """
    known = tuple(decisions)
    by_producer: dict[int, list[Transaction]] = defaultdict(list)
    for decided in known:
        by_producer[decided.producer_id].append(decided)
    markers: dict[tuple[TopicPartition, int], list[Marker]] = defaultdict(list)
    for partition, each_read in read.items():
        for marker in each_read.markers:
            markers[partition, marker.producer_id].append(marker)
    torn: list[Torn] = []
    unclear: set[int] = set()
    judged = 0
    open_questions: dict[str, None] = {}
    for decision in known:
        if decision.completed_ms is None or decision.completed_ms < since_ms:
            continue
        unread = list(_unread(decision, read))
        open_questions.update(dict.fromkeys(unread))
        for partition in sorted(decision.partitions or ()):
            own = read.get(partition)
            if own is None:  # named in the open questions
                continue
            found = markers.get((partition, decision.producer_id), ())
            rivals = [rival for rival in by_producer[decision.producer_id] if partition in (rival.partitions or ())]
            torn += _contradictions(decision, partition, found, rivals)
            if decision.v2:
                is_lost = is_missing = not any(_ends(decision, marker) for marker in found)
            else:
                is_missing, is_lost = _of_shared_epoch(decision, found, rivals)
            if is_missing and own.fault is None:
                if is_lost and partition.topic not in compacted and _reaches(decision, own):
                    torn.append(Torn(decision, partition, None))
                else:
                    unclear.add(id(decision))
        judged += not unread and id(decision) not in unclear
    return MarkerComparison(tuple(torn), judged, tuple(open_questions))


def _of_shared_epoch(
    decision: Transaction, found: Sequence[Marker], rivals: Iterable[Transaction]
) -> tuple[bool, bool]:
    """Whether a transaction of an older client has no marker of its own, and whether that one was lost."""
    older = sorted((rival for rival in rivals if not rival.v2), key=lambda rival: rival.prepared_ms)
    left = sorted(found, key=lambda marker: marker.timestamp_ms)
    own: list[Transaction] = []
    exact = 0
    for slack_ms in (0, CLOCK_SLACK_MS):
        for decided in older:
            if any(decided is other for other in own):
                continue
            fitting = [marker for marker in left if _is_within(decided, marker, slack_ms)]
            if fitting:
                left.remove(fitting[0])
                own.append(decided)
        exact = exact or (len(own) if slack_ms == 0 else 0)
    if any(own_decision is decision for own_decision in own):
        return False, False
    if not any(_is_within(decision, marker, CLOCK_SLACK_MS) for marker in found):
        return True, True
    newest_ms = max(decision.completed_ms or decision.prepared_ms for decision in older)
    loose = [
        marker
        for marker in left
        if marker.timestamp_ms <= newest_ms
        and marker.commit is decision.commit
        and marker.producer_epoch in decision.marker_epochs
    ]
    return True, exact >= 1 and exact >= AGREEING * len(own) and not loose


def _is_within(decision: Transaction, marker: Marker, slack_ms: int) -> bool:
    """Whether a marker may be that of a decision, by type, epoch and time."""
    if marker.commit is not decision.commit or marker.producer_epoch not in decision.marker_epochs:
        return False
    if decision.completed_ms is None:
        return slack_ms > 0 and marker.timestamp_ms >= decision.prepared_ms - slack_ms
    return decision.prepared_ms - slack_ms <= marker.timestamp_ms <= decision.completed_ms + slack_ms


def _unread(decision: Transaction, read: Mapping[TopicPartition, PartitionMarkers]) -> Iterator[str]:
    for partition in decision.partitions or ():
        own = read.get(partition)
        if own is None:
            yield f"{partition}: not read"
        elif own.fault is not None:
            yield own.fault.detail


def _reaches(decision: Transaction, own: PartitionMarkers) -> bool:
    """Whether the marker must be in what was read: the partition was there before the decision."""
    if not own.cut or 0 <= own.first_ms < decision.prepared_ms - CLOCK_SLACK_MS:
        return True
    mine = [begin for begin in own.begins if begin[0] == decision.producer_id and begin[1] in decision.client_epochs]
    times = range(decision.begun_ms - CLOCK_SLACK_MS, decision.prepared_ms + 1)
    return any(decision.v2 or begin[2] in times for begin in mine)


def _ends(decision: Transaction, marker: Marker) -> bool:
    """Whether a marker is one that the decision asks for."""
    if marker.commit is not decision.commit or marker.producer_epoch not in decision.marker_epochs:
        return False
    return decision.v2 or _around(decision, marker)


def _around(decision: Transaction, marker: Marker) -> bool:
    completed_ms = decision.completed_ms if decision.completed_ms is not None else marker.timestamp_ms
    return decision.prepared_ms - CLOCK_SLACK_MS <= marker.timestamp_ms <= completed_ms + CLOCK_SLACK_MS


def _contradictions(
    decision: Transaction, partition: TopicPartition, found: Sequence[Marker], rivals: Iterable[Transaction]
) -> Iterator[Torn]:
    """Markers of the other type that are the transaction's own: of its epochs, and asked for by no other decision."""
    others = [rival for rival in rivals if rival is not decision]
    ended = any(_ends(decision, marker) for marker in found)
    for marker in found:
        if marker.commit is decision.commit or any(_ends(other, marker) for other in others):
            continue
        if decision.v2:
            # The epoch of a transaction's markers is that of the next one's records: with its own marker there, another
            # of that epoch belongs to the next one.
            own = marker.producer_epoch in (
                decision.client_epochs if ended else decision.client_epochs | decision.marker_epochs
            )
        else:
            completed_ms = decision.completed_ms or decision.prepared_ms
            in_time = decision.begun_ms <= marker.timestamp_ms <= completed_ms
            own = in_time and marker.producer_epoch in decision.marker_epochs | decision.client_epochs
        if own:
            yield Torn(decision, partition, marker)
