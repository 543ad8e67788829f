"""Transactional ids of Flink's KafkaSink. Pure."""

from __future__ import annotations

from exporter.model import FlinkId

MOST_DIGITS = 18


def parse(transactional_id: str) -> FlinkId | None:
    """The parts of ``<prefix>-<subtask>-<number>``, None for an id of another form."""
    rest, _, number = transactional_id.rpartition("-")
    prefix, _, subtask = rest.rpartition("-")
    if not prefix or not _is_number(number) or not _is_number(subtask):
        return None
    return FlinkId(prefix, int(subtask), int(number))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
