"""Transactional ids of Flink's KafkaSink. Pure."""

from __future__ import annotations

from exporter.flink.facts import FlinkId

MOST_DIGITS = 18


def parse(transactional_id: str) -> FlinkId | None:
    """The parts of ``<prefix>-<subtask>-<number>``, None for an id of another form."""
    parts = transactional_id.rsplit("-", 2)
    if len(parts) < 3 or not parts[0]:
        return None
    prefix, subtask, number = parts
    if _is_number(subtask) and _is_number(number):
        return FlinkId(prefix, int(subtask), int(number))
    return None


def _is_number(text: str) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= MOST_DIGITS
