"""Find applications that make up a new transactional.id at every start, or for every transaction. Pure.

A coordinator fences the former instance of a producer by its id (KIP-98): one that is new at every start fences none.
So what the former instance left open is aborted at its timeout only, and a former instance that still runs may commit.

The evidence is the transaction log: ids that no coordinator had before, at several starts, and former ids of the same
application that are not used again. Ids that differ in short numbers only (``pay-0``, ``pay-1``) are taken for a pool
that grows. An id for each transaction shows itself without a start: many ids that come one after the other, each used
for a moment and never again, where a pool grows only while all of its ids are in use.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from exporter.applications.naming import HOST_ID, UUID_ID
from exporter.bounds.text import count_of
from exporter.posture.check import PostureCheck, Rule
from exporter.transactions.facts import IdChanges, IdLife, OffsetPartitions, RepeatedInits

LEAST_STARTS = 3
"""Fewest starts with a new id, and fewest former ids that were not used again."""
START_GAP = 5.0
"""Ids that appear closer together are of one start, which may be of several producers. Seconds."""
OVERLAP = 120.0
"""Seconds that a former instance may go on beside its successor: a rolling update starts the new one first."""
LEAST_SILENCE, MOST_SILENCE = 60.0, 3600.0
"""Bounds of the silence after which an id counts as not used again; between them it is ten times what it was in use."""
SETTLED = 3600.0
"""Seconds without a new id after which an id that came back shows that ids are stable now."""
LEAST_ONCE = 20
"""Fewest ids that were used once, and fewest ids that came after such a one, before ids count as made for one
transaction.
"""
ONCE_SECONDS = 60.0
"""Seconds for which an id that is made for one transaction is in use at most; and seconds over which such ids have to
come before they are judged: instances that start together come faster.
"""
ONCE_SHARE = 0.9
MOST_BESIDE = 0.25
"""Share of the new ids that has to be used once, and largest share of those that are in use at the same time."""
STABLE = Rule(
    "stable_transactional_ids",
    "A transactional.id that is new at every start does not fence the former instance: a transaction that it left open "
    "holds the last stable offset until its timeout, and if it still runs it can commit the same input again.",
    "a transactional.id that an instance keeps over its restarts: a fixed name with the number of the instance or the "
    "name of its StatefulSet pod, without UUID, start time, or pod name of a Deployment; one producer for many "
    "transactions, not one for each",
)
REUSE = Rule(
    "producer_reuse",
    "Each InitProducerId is a request to the coordinator that bumps the epoch and writes to its log: with one for each "
    "transaction, transactions are slow, and what an earlier producer of the id left open is aborted.",
    "initTransactions once after the start of a producer, and that producer for all transactions of its instance",
    fixable=False,
)
_SHARED = frozenset({UUID_ID, HOST_ID})
# Flink's TransactionalIdFactory: a subtask, of 32,768 at most, and a checkpoint. A UUID may end in two numbers, too.
_CHECKPOINT = re.compile(r".+-\d{1,5}-\d{1,10}", re.DOTALL)
_SHORT_NUMBER = re.compile(r"(?<!\d)\d{1,4}(?!\d)")


def id_checks(changes: Mapping[str, IdChanges], offsets: Mapping[str, OffsetPartitions]) -> Iterator[PostureCheck]:
    """A check of each application with evidence, in either direction.

    An application that commits its input's offsets in its transactions gets information: with
    ``consumer.groupMetadata()`` the group's generation fences its former instances (KIP-447). The log does not show
    whether it is passed on. So do ids that name no application, which may be of several.
    """
    for application, known in sorted(changes.items()):
        starts, former = _changes(known)
        once = _used_once(known)
        if not once and (starts < LEAST_STARTS or former < LEAST_STARTS):
            continue
        newest = max(life.first for life in known.ids if life.first is not None)
        if known.returned is not None and known.returned > newest and known.at - newest >= SETTLED:
            found = f"an id was initialised again, and no new id came for {(known.at - newest) / 3600:.0f} h"
            yield STABLE.says(application, passed=True, found=found)
            continue
        if once:
            found = (
                f"of the new ids of the last day {once} of those looked at were in use for less than "
                f"{ONCE_SECONDS:.0f} s and not again, while others came, the last one {_ago(known.at - newest)} ago: "
                "an id for each transaction stays with its coordinator for transactional.id.expiration.ms"
            )
            yield STABLE.says(application, passed=False, found=found)
            continue
        found = (
            f"in the last day new ids at {starts} starts, the last one {_ago(known.at - newest)} ago, and {former} "
            "former ids that were not used again"
        )
        own = offsets.get(application)
        if application in _SHARED:
            found += "; ids without a name may be of several applications"
            yield STABLE.notes(application, found)
        elif own is not None and own.partitions:
            found += (
                "; it commits offsets in its transactions: with consumer.groupMetadata() the generation of its group "
                "fences former instances, with the group's name alone nothing does"
            )
            yield STABLE.notes(application, found)
        else:
            yield STABLE.says(application, passed=False, found=found)


def reuse_checks(repeated: Mapping[str, RepeatedInits]) -> Iterator[PostureCheck]:
    """Information about each application that initialises its producers for each transaction or few."""
    for application, seen in sorted(repeated.items()):
        found = (
            f"{seen.inits} inits of {count_of(seen.ids, 'transactional id')} in {seen.seconds / 60:.0f} min, and "
            f"{count_of(seen.transactions, 'transaction')}: initTransactions for each transaction, or a client that is "
            "started again and again"
        )
        yield REUSE.says(application, passed=False, found=found)


def _changes(known: IdChanges) -> tuple[int, int]:
    """Number of starts with a new id, and of former ids that one of them replaced and that are not used again."""
    new = sorted((life.first, life) for life in known.ids if life.first is not None)
    if len({_SHORT_NUMBER.sub("#", life.transactional_id) for _, life in new}) < LEAST_STARTS:
        return 0, 0
    starts = [first for at, (first, _) in enumerate(new) if not at or first - new[at - 1][0] >= START_GAP]
    gone = sorted((life for life in known.ids if _is_gone(life, known.at)), key=lambda life: life.last)
    return len(starts), _replaced(gone, [first for first, _ in new])


def _used_once(known: IdChanges) -> int:
    """Number of ids that were made for one transaction each, 0 where that is not clear.

    Ids of Flink's form are left out: Flink makes one for each checkpoint and subtask.
    """
    new = sorted(
        (life.first, life.last)
        for life in known.ids
        if life.first is not None and _CHECKPOINT.fullmatch(life.transactional_id) is None
    )
    once = [(first, last) for first, last in new if first < last <= first + ONCE_SECONDS]
    if len(once) < max(LEAST_ONCE, ONCE_SHARE * len(new)):
        return 0
    if max(sum(begun <= first < last for begun, last in once) for first, _ in once) > MOST_BESIDE * len(once):
        return 0
    silence = known.at - max(last for _, last in once)
    if once[-1][0] - once[0][0] < ONCE_SECONDS and silence < MOST_SILENCE:
        return 0
    appeared = [first for first, _ in new]
    left = sum(len(appeared) - bisect_right(appeared, last) >= LEAST_ONCE for _, last in once)
    return left if left >= LEAST_ONCE else 0


def _replaced(gone: Sequence[IdLife], appeared: Sequence[float]) -> int:
    """Number of the ``gone`` ids that have a successor of their own: an id that appeared after them, about when they
    ended.
    """
    found = 0
    left = list(appeared)
    for life in gone:
        began = life.first if life.first is not None else float("-inf")
        successor = next((first for first in left if first > began and first >= life.last - OVERLAP), None)
        if successor is not None:
            left.remove(successor)
            found += 1
    return found


def _is_gone(life: IdLife, now: float) -> bool:
    """Return whether an id is silent for so long that it is not between two transactions.

    Of an id with one transaction, and of one that was there before, the pace is not known: they get the longest time.
    """
    used = life.last - life.first if life.first is not None else 0.0
    needed = min(max(10 * used, LEAST_SILENCE), MOST_SILENCE) if used >= 1 else MOST_SILENCE
    return now - life.last > needed


def _ago(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.0f} h"
