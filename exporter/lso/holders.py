"""The holder of a stall with what others know of it: a lost marker, a checkpoint of Flink. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from exporter.flink.facts import FlinkTransactions
from exporter.lso.facts import Blocker, Stall
from exporter.lso.proof.evidence import Committed
from exporter.words import BlockerKind

_DECIDABLE = frozenset({BlockerKind.OPEN, BlockerKind.COMPLETING})
"""Kinds of holders that a Flink job may be about to end, or has decided."""


def as_unmarked(blocker: Blocker, found: Committed) -> Blocker:
    """The holder as a committed transaction whose marker is missing."""
    return blocker._replace(
        transactional_id=found.decision.transactional_id,
        application=found.application,
        kind=BlockerKind.UNMARKED,
        started=found.decision.started,
        missing=(),
        evidence=found,
    )


def with_checkpoints(stalls: Iterable[Stall], flink: FlinkTransactions) -> Iterator[Stall]:
    """The stalls with the Flink job of each holder, without holders whose next checkpoint is not overdue.

    A holder that its job decides while these facts are collected is one of them still: in the open transactions it may
    be open when the job is known to have decided it.
    """
    for stall in stalls:
        blocker = stall.blocker
        who = blocker.producer_id if blocker.kind in _DECIDABLE else None
        found = None if who is None else flink.by_producer.get(who)
        if who in flink.released or (found is not None and found.waiting):
            continue
        if found is not None and blocker.kind is BlockerKind.OPEN:
            yield stall._replace(blocker=blocker._replace(checkpoint=found, flink=True))
        else:
            yield stall
