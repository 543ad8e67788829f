"""Where the transaction log ended in the last hours: the order of decisions and open records. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from exporter.model import KnownLogEnds

MOST = 150
"""Ends that are kept: some more than two hours of one a minute."""
MARGIN_SECONDS = 960.0
"""Seconds before the begin of an open record from which the log has to be whole: longer than transaction.max.timeout.ms
(15 minutes), as a broker that does not verify transactions takes a record of one whose own record of the log was lost.
A deposed leader with an old end is found out in less.
"""


class LogHistory:
    """The ends by their instants."""

    def __init__(self) -> None:
        self._known: deque[KnownLogEnds] = deque(maxlen=MOST)

    def note(self, ends: KnownLogEnds | None) -> None:
        """Store the ends, if they are new."""
        if ends is not None and (not self._known or self._known[-1].at < ends.at):
            self._known.append(ends)

    def before(self, instant: float) -> Mapping[int, int]:
        """The newest ends that are older than the margin before an instant, monotonic; empty without one."""
        for each in reversed(self._known):
            if each.at <= instant - MARGIN_SECONDS:
                return each.ends
        return {}
