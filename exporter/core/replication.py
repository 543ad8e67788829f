"""How many replicas a write needs, and whether there are as many. Pure functions."""

from __future__ import annotations

from collections.abc import Sized


def effective_min_isr(min_isr: int, replicas: Sized) -> int:
    """How many replicas have to be in sync for a write with acks=all, where min.insync.replicas is ``min_isr``.

    A partition of fewer replicas needs all of them, and no more (Partition.effectiveMinIsr).
    """
    return min(min_isr, len(replicas))


def is_under_min_isr(isr: Sized, replicas: Sized, min_isr: int) -> bool:
    """Return whether too few replicas of a partition are in sync for a write with acks=all."""
    return len(isr) < effective_min_isr(min_isr, replicas)
