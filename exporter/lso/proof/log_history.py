"""Where the transaction log ended in the last hours: the order of decisions and open records. No I/O."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from exporter.model import KnownLogEnd, KnownLogEnds

MOST = 150
"""Ends that are kept: some more than two hours of one a minute."""
MARGIN_SECONDS = 960.0
"""Seconds before the begin of an open record from which the log has to be whole: longer than transaction.max.timeout.ms
(15 minutes), as a broker that does not verify transactions takes a record of one whose own record of the log was lost.
A deposed leader with an old end is found out in less.
"""
SAVED_SECONDS = 300.0
"""Seconds between two ends that are saved."""


class LogHistory:
    """The ends by their instants."""

    def __init__(self) -> None:
        self._known: deque[KnownLogEnds] = deque(maxlen=MOST)

    def note(self, ends: KnownLogEnds | None) -> None:
        """Store the ends, if they are new."""
        if ends is not None and (not self._known or self._known[-1].at < ends.at):
            self._known.append(ends)

    def before(self, instant: float) -> Mapping[int, KnownLogEnd]:
        """The newest ends that are older than the margin before an instant, monotonic; empty without one."""
        for known in reversed(self._known):
            if known.at <= instant - MARGIN_SECONDS:
                return known.ends
        return {}

    def clear(self) -> None:
        """Drop all ends: they are of another log."""
        self._known.clear()

    # --- Saved state ---

    def document(self) -> list[list[Any]]:
        """As JSON: instants of the monotonic clock with the ends by partition, one every five minutes."""
        found: list[KnownLogEnds] = []
        for known in self._known:
            if not found or known.at - found[-1].at >= SAVED_SECONDS:
                found.append(known)
        return [[round(known.at, 3), [[number, *end] for number, end in sorted(known.ends.items())]] for known in found]

    def restore(self, found: list[list[Any]], now: float) -> None:
        """As ``document`` returned it, of a process of the same boot; ``now`` is monotonic. Raises TypeError or
        ValueError for anything else.
        """
        restored = [
            KnownLogEnds(
                float(at), {int(number): KnownLogEnd(int(offset), int(epoch)) for number, offset, epoch in ends}
            )
            for at, ends in found[-MOST:]
        ]
        if any(not math.isfinite(known.at) or known.at > now for known in restored):
            raise ValueError("an instant in the future")
        self._known.extend(sorted(restored, key=lambda known: known.at))
