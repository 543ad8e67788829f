"""Torn transactions that ``history run --markers`` found: a file in the folder of the history."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from exporter.core.files import replace_file
from exporter.jobs.history.index import HistoryError

FILE = "torn.json"
MOST = 1_000
"""Torn places that are kept, the newest."""
MOST_QUESTIONS = 20


class TornPlace(NamedTuple):
    """A transaction and a partition whose marker is not that of its decision; ``found`` is what is there."""

    transactional_id: str
    producer_id: int
    decided: str
    completed_ms: int
    topic: str
    partition: int
    found: str


class MarkerRecord(NamedTuple):
    """All that was compared so far: transactions that completed between these instants (Unix milliseconds).

    ``questions`` has sentences on what could not be compared, the newest last.
    """

    from_ms: int
    until_ms: int
    compared: int = 0
    torn: tuple[TornPlace, ...] = ()
    questions: tuple[str, ...] = ()

    def added(
        self, until_ms: int, compared: int, torn: Iterable[TornPlace], questions: Iterable[str]
    ) -> tuple[MarkerRecord, tuple[TornPlace, ...]]:
        """The record with one more comparison, and which of the torn places are new."""
        known = set(self.torn)
        new = tuple(dict.fromkeys(place for place in torn if place not in known))
        kept = tuple(sorted((*self.torn, *new), key=lambda place: place.completed_ms)[-MOST:])
        asked = tuple(dict.fromkeys((*self.questions, *questions)))[-MOST_QUESTIONS:]
        return MarkerRecord(self.from_ms, until_ms, self.compared + compared, kept, asked), new


def read_torn(folder: Path) -> MarkerRecord | None:
    """The findings so far; None where nothing was compared. Raises HistoryError for a damaged file."""
    path = folder / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        places = tuple(TornPlace(**place) for place in found["torn"])
        return MarkerRecord(
            int(found["from_ms"]), int(found["until_ms"]), int(found["compared"]), places, tuple(found["questions"])
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HistoryError(f"{path}: cannot be read ({error}); delete it to compare markers again") from None


def write_torn(folder: Path, record: MarkerRecord) -> None:
    """Replace the file at once. Raises OSError."""
    fields = record._asdict() | {"torn": [place._asdict() for place in record.torn]}
    replace_file(folder / FILE, json.dumps(fields) + "\n")
