"""Which marker belongs to which of the transactions that share a producer epoch: clients of before Transactions V2.

The markers of one producer id in one partition come in the order of its decisions, a COMMIT or ABORT between the
Prepare and the Complete record of its transaction. The clocks of the partition's leader and of the coordinator differ,
so a marker is taken for that of the transaction whose records it lies between, then, of what is left, for that of a
transaction within the allowed difference. A transaction without one has lost its marker where the clocks agree: its
neighbours have theirs between their records, and no marker is left over.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from exporter.kafka.log.batches import Marker
from exporter.transactions.decided.fate import CLOCK_SLACK_SECONDS
from exporter.transactions.transaction import Transaction

CLOCK_SLACK_MS = round(1000 * CLOCK_SLACK_SECONDS)
AGREEING = 0.9
"""Share of the markers that lie between their records from which two clocks are taken for the same."""


class Assigned(NamedTuple):
    """``own`` has the marker of each transaction, by its place; ``lost`` are the places of those without one.

    ``unclear`` are places of transactions of which it is not known: another one's marker may be theirs. Its value is
    that marker.
    """

    own: dict[int, Marker]
    lost: frozenset[int]
    unclear: dict[int, Marker]


_Key = tuple[int, bool]


def assigned(decisions: Sequence[Transaction], markers: Iterable[Marker]) -> Assigned:
    """Assign markers of one producer id to its decisions, which are in the order of time."""
    lists: defaultdict[_Key, list[Marker]] = defaultdict(list)
    for marker in markers:
        lists[marker.producer_epoch, marker.commit].append(marker)
    for found in lists.values():
        found.sort(key=_at)
    own: dict[int, Marker] = {}
    taken: set[int] = set()
    _assign(decisions, lists, own, taken, slack_ms=0)
    if len(own) == len(decisions):
        return Assigned(own, frozenset(), {})
    exact = len(own)
    left = {key: [marker for marker in found if marker.offset not in taken] for key, found in lists.items()}
    _assign(decisions, left, own, taken, slack_ms=CLOCK_SLACK_MS)
    without = [place for place in range(len(decisions)) if place not in own]
    agree = exact > 0 and exact >= AGREEING * len(own)
    newest_ms = max((decision.completed_ms or decision.prepared_ms for decision in decisions), default=0)
    loose = {
        key
        for key, found in left.items()
        for marker in found
        if marker.offset not in taken and marker.timestamp_ms <= newest_ms
    }
    lost, unclear = set(), {}
    for place in without:
        other = _near(decisions[place], lists)
        if other is None or (agree and not loose & set(_keys(decisions[place]))):
            lost.add(place)
        else:
            unclear[place] = other
    return Assigned(own, frozenset(lost), unclear)


def _assign(
    decisions: Sequence[Transaction],
    lists: dict[_Key, list[Marker]],
    own: dict[int, Marker],
    taken: set[int],
    *,
    slack_ms: int,
) -> None:
    """Give each decision without a marker the first that is left within its time."""
    nexts: defaultdict[_Key, int] = defaultdict(int)
    for place, decision in enumerate(decisions):
        if place in own:
            continue
        first_ms, last_ms = _times(decision, slack_ms)
        best: Marker | None = None
        for key in _keys(decision):
            found = lists.get(key, ())
            at = nexts[key]
            while at < len(found) and (found[at].timestamp_ms < first_ms or found[at].offset in taken):
                at += 1
            nexts[key] = at
            if at < len(found) and found[at].timestamp_ms <= last_ms and (best is None or _at(found[at]) < _at(best)):
                best = found[at]
        if best is not None:
            own[place] = best
            taken.add(best.offset)


def _near(decision: Transaction, lists: dict[_Key, list[Marker]]) -> Marker | None:
    """A marker within the allowed time of a decision, whosever it is."""
    first_ms, last_ms = _times(decision, CLOCK_SLACK_MS)
    for key in _keys(decision):
        found = lists.get(key, ())
        at = bisect_left(found, first_ms, key=_at)
        if at < len(found) and found[at].timestamp_ms <= last_ms:
            return found[at]
    return None


def _times(decision: Transaction, slack_ms: int) -> tuple[float, float]:
    """The first and the last instant of its marker. Without a Complete record nothing bounds it."""
    completed_ms = decision.completed_ms
    if completed_ms is None:
        completed_ms = decision.prepared_ms - 1 if slack_ms == 0 else None
    last_ms = math.inf if completed_ms is None else completed_ms + slack_ms
    return decision.prepared_ms - slack_ms, last_ms


def _keys(decision: Transaction) -> list[_Key]:
    return [(epoch, decision.commit) for epoch in decision.marker_epochs]


def _at(marker: Marker) -> int:
    return marker.timestamp_ms
