"""The remarks of an audit beside its findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Remarked(Protocol):
    """A part of an audit with remarks of its own."""

    @property
    def unknown(self) -> tuple[str, ...]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


@dataclass
class Remarks:
    """Sentences on what could not be compared, which make the audit's answer unknown, and other sentences."""

    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def not_known(self, sentence: str) -> None:
        """Add what could not be compared."""
        self.unknown.append(sentence)

    def note(self, sentence: str) -> None:
        """Add what changes no answer."""
        self.notes.append(sentence)

    def add(self, *sentences: str, known: bool) -> None:
        """Add notes, or what could not be compared."""
        (self.notes if known else self.unknown).extend(sentences)

    def take(self, *parts: Remarked) -> None:
        """Add those of parts of the audit."""
        for part in parts:
            self.unknown += part.unknown
            self.notes += part.notes
