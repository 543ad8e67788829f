"""Events as a journal's readers get them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporter.journal.documents import EventDocument, event_of
from exporter.journal.facts import Event


def read_back(events: Iterable[Event], recorded: float = 1_795_255_200.0) -> list[EventDocument]:
    """Return the events after they were written at an instant and read again."""
    return [document_of_event({"recorded_timestamp": recorded, **event.document()}) for event in events]


def document_of_event(line: dict[str, Any]) -> EventDocument:
    """Return the event of a line. Raises AssertionError for a line that is none."""
    found = event_of(line)
    assert found is not None, line
    return found
