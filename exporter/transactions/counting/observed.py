"""The outcomes of transactions, from two consecutive descriptions by their coordinators. Pure: no I/O, no clock.

This is for clusters whose transaction log cannot be read. Between two looks an id may have begun and ended any number
of transactions, so that every count here is a lower bound. What the rules rest on:

- The start of a transaction stays in Complete states, and no two transactions of an id have the same start: a new start
  is a new transaction, and the one before it has ended (TransactionMetadata).
- A client before Transactions V2 keeps the epoch when it ends a transaction; one of V2 raises it by 1 each time. The
  server raises it by 1 when it aborts, InitProducerId once more. So a raised epoch shows a fence or a timeout only of a
  client that is proven to be of V1 in this epoch, and nothing of a client of V2.
- Ages are by our monotonic clock: at least from when the transaction was first seen open, at most from the look before
  that, which did not have it. Clocks of brokers are not compared with ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.words import ObservedOutcome

FENCE_SECONDS = 5.0
"""A server's abort is no fence when no producer was initialised for this long after it: the one that fences tries again
every 100 ms (Java) or 500 ms (librdkafka).
"""
RESTART_SECONDS = 10.0
"""Longest time between two looks for which an epoch that was raised by 2 is one fence, and not two clean restarts."""

_OPEN = "Ongoing"
_EMPTY = "Empty"
_COMMITS = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORTS = frozenset({"PrepareAbort", "CompleteAbort"})
_RANK: Mapping[str, int] = {
    "Ongoing": 0,
    "PrepareCommit": 1,
    "PrepareAbort": 1,
    "CompleteCommit": 2,
    "CompleteAbort": 2,
}
KNOWN_STATES = frozenset({_EMPTY, *_RANK})


class DescribedId(NamedTuple):
    """An id as its coordinator describes it. ``started`` (Unix seconds of its clock) is None in Empty, ``timeout``
    (seconds) None without one.
    """

    producer_id: int
    producer_epoch: int
    state: str
    started: float | None
    timeout: float | None


class CoordinatorLook(NamedTuple):
    """When coordinators were asked and when they had answered, in monotonic seconds."""

    asked: float
    answered: float


class SeenId(NamedTuple):
    """An id after the last look.

    ``started`` is the newest start that was seen, ``decided`` whether that transaction was counted. ``open_since`` is
    when the open transaction was first seen, ``absent_at`` the look before that; None where there was none. ``v1`` is
    whether its client is proven to be of Transactions V1 in this epoch. ``timed_out_at`` is the look that showed an
    abort which is a timeout unless a producer is initialised soon.
    """

    last: DescribedId
    look: CoordinatorLook
    started: float | None
    decided: bool
    open_since: float | None = None
    absent_at: float | None = None
    v1: bool = False
    timed_out_at: float | None = None


class SeenChange(NamedTuple):
    """The changes between two descriptions. ``epochs`` is by how much the epoch was raised."""

    seen: SeenId
    ended: tuple[ObservedOutcome, ...] = ()
    epochs: int = 0


def first_seen(now: DescribedId, look: CoordinatorLook, *, new: bool, absent_at: float | None = None) -> SeenChange:
    """The first description of an id.

    ``new``: the id did not exist at the look before, at ``absent_at``, so that its transaction began since.
    """
    opened = now.state == _OPEN
    decided = now.state in _COMMITS or now.state in _ABORTS
    seen = SeenId(
        now,
        look,
        now.started,
        decided or now.state not in KNOWN_STATES,  # in one that is not known here it may have ended before
        look.answered if opened else None,
        absent_at if new and opened else None,
    )
    if not (new and decided):
        return SeenChange(seen)
    return SeenChange(seen, (ObservedOutcome.COMMITTED if now.state in _COMMITS else ObservedOutcome.ABORTED,))


def compare(before: SeenId, now: DescribedId, look: CoordinatorLook) -> SeenChange:
    """The changes since the description before. An answer that is older than the last one, of a
    coordinator that was replaced, changes nothing.
    """
    if now.state not in KNOWN_STATES or _is_older(before, now):
        return SeenChange(before)
    last = before.last
    ended: list[ObservedOutcome] = []
    doubt = before.timed_out_at
    if doubt is not None:
        if (now.producer_id, now.producer_epoch, now.started) != (last.producer_id, last.producer_epoch, last.started):
            # A producer that was initialised may have ended it, and a client that goes on in its epoch ended it itself.
            ended.append(ObservedOutcome.ABORTED)
            doubt = None
        elif look.asked - doubt >= FENCE_SECONDS:
            ended.append(ObservedOutcome.TIMED_OUT)
            doubt = None
    same = now.started is not None and now.started == before.started
    if not same and last.state == _OPEN:
        ended.append(_replaced(before, now, look))
    v1 = _is_v1(before, now, same=same)
    decided = now.state in _COMMITS or now.state in _ABORTS
    if decided and not (same and before.decided):
        if now.state in _COMMITS:
            ended.append(ObservedOutcome.COMMITTED)
        elif same and last.state == _OPEN:
            verdict = _aborted(before, now, look)
            if verdict is None:
                doubt = look.answered
            else:
                ended.append(verdict)
        else:
            ended.append(ObservedOutcome.ABORTED)
    opened = now.state == _OPEN
    goes_on = opened and same and last.state == _OPEN
    seen = SeenId(
        now,
        look,
        before.started if now.started is None else now.started,
        decided or now.state == _EMPTY,
        before.open_since if goes_on else look.answered if opened else None,
        before.absent_at if goes_on else before.look.asked if opened else None,
        v1,
        doubt,
    )
    raised = now.producer_epoch - last.producer_epoch if now.producer_id == last.producer_id else 1
    return SeenChange(seen, tuple(ended), raised)


def _is_older(before: SeenId, now: DescribedId) -> bool:
    """Return whether the answer is of a coordinator with an older state than the last one."""
    last = before.last
    if now.producer_id == last.producer_id and now.producer_epoch < last.producer_epoch:
        return True
    if now.started is None:  # only InitProducerId makes an id Empty, and it raises the epoch
        same = (now.producer_id, now.producer_epoch) == (last.producer_id, last.producer_epoch)
        return same and last.state != _EMPTY
    if before.started is None:
        return False
    if now.started == before.started:
        return last.state == _EMPTY or _RANK[now.state] < _RANK.get(last.state, 0)
    return now.started < before.started


def _is_v1(before: SeenId, now: DescribedId, *, same: bool) -> bool:
    """Return whether the client of this epoch is of V1: a transaction was ended without raising it."""
    last = before.last
    if (now.producer_id, now.producer_epoch) != (last.producer_id, last.producer_epoch):
        return False
    if before.v1:
        return True
    if same:
        return last.state == _OPEN and now.state != _OPEN
    # Two transactions of one epoch that were both ended in it. An open one of V2 has the epoch of the one before it.
    return last.state in _RANK and last.state != _OPEN and now.state in _RANK and now.state != _OPEN


def _aborted(before: SeenId, now: DescribedId, look: CoordinatorLook) -> ObservedOutcome | None:
    """Why a transaction that was seen open was aborted; None where it is a timeout unless a producer comes soon."""
    last, timeout = before.last, before.last.timeout
    if timeout is None or (now.producer_id, now.producer_epoch) != (last.producer_id, last.producer_epoch + 1):
        return ObservedOutcome.ABORTED  # in the same epoch by a client of V1: the server always raises it
    if before.open_since is not None and before.look.asked - before.open_since >= timeout:
        return None
    if not before.v1:
        return ObservedOutcome.ABORTED
    return ObservedOutcome.FENCED if _within(before, look, timeout) else None


def _replaced(before: SeenId, now: DescribedId, look: CoordinatorLook) -> ObservedOutcome:
    """How an open transaction ended of which a later look shows nothing any more."""
    last, timeout = before.last, before.last.timeout
    if (
        before.v1
        and now.state == _EMPTY
        and (now.producer_id, now.producer_epoch) == (last.producer_id, last.producer_epoch + 2)
        and look.answered - before.look.asked <= RESTART_SECONDS
        and (timeout is None or _within(before, look, timeout))
    ):
        return ObservedOutcome.FENCED
    return ObservedOutcome.UNKNOWN


def _within(before: SeenId, look: CoordinatorLook, timeout: float) -> bool:
    """Return whether the transaction ended before its timeout, for certain."""
    return before.absent_at is not None and look.answered - before.absent_at < timeout
