"""The result of the last read of a source, and its log: faults and notes when they change, a bug once."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from exporter.core.reading import log_traceback, raised_at
from exporter.model import Fact, Fault, Reason, Source

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceState:
    """Result of the last read of one source. ``up`` is None before the first; instants are Unix seconds."""

    source: str
    target: str
    cluster: str
    up: bool | None = None
    blind: bool = False
    last_success: float | None = None
    duration: float | None = None
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: str | None = None
    """The reason in the settings for which it may be down, or None."""
    facts: tuple[Fact, ...] = ()
    """Those of the last read: with ``up``, what is not among them was not there."""


class SourceLog:
    """The log of a source; it remembers what was logged, so that it is not logged at every read."""

    def __init__(self) -> None:
        self._reasons: frozenset[Reason] = frozenset()
        self._notes: frozenset[str] = frozenset()
        self._bug = ""

    def note(self, state: SourceState) -> None:
        """Log faults when their reasons change, and notes once, not at every read."""
        for note in sorted(set(state.notes) - self._notes):
            log.warning("%s", note, extra={"source": state.source, "target": state.target})
        self._notes |= frozenset(state.notes)
        reasons = frozenset(fault.reason for fault in state.faults)
        if reasons == self._reasons:
            return
        where = {"source": state.source, "target": state.target}
        for reason in sorted(reasons - self._reasons):
            details = [fault.detail for fault in state.faults if fault.reason == reason]
            more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
            log.warning("%s: %s%s", reason, details[0], more, extra=where)
        if not reasons:
            log.info("answers again", extra=where)
        self._reasons = reasons

    def note_bug(self, error: Exception, source: Source) -> None:
        """Log the traceback of an error, unless it was raised at the same place as the last one."""
        if (where := raised_at(error)) != self._bug:
            self._bug = where
            log_traceback(error, source)
