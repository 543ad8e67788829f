"""Facts of the last reads of one cluster's sources, for the rules of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from exporter.core.source_state import SourceState
from exporter.model import Fact

F = TypeVar("F", bound=Fact)


class LastReads(NamedTuple):
    """The last read of each source. ``wall`` is the present, ``since`` when this process began: Unix seconds."""

    wall: float
    since: float
    states: Sequence[SourceState]

    def fact(self, kind: type[F]) -> F | None:
        """Return the fact of this type, None where no last read has one."""
        return next((found for _, found in self.facts(kind)), None)

    def facts(self, kind: type[F]) -> Iterator[tuple[SourceState, F]]:
        """Yield the facts of this type with the read that gave each."""
        for state in self.states:
            for fact in state.facts:
                if isinstance(fact, kind):
                    yield state, fact
