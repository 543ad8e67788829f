"""Instants of the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from exporter.commands.settings import UsageError
from exporter.core.durations import parse_duration
from exporter.journal.query import QueryError, instant_of

CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
"""A time of the day in UTC: the last one that is past."""


def parse_instant(text: str, now: float) -> float:
    """Return Unix seconds of a time of the day, a duration before now, RFC 3339, or Unix seconds. Raises UsageError."""
    if (clock := CLOCK.fullmatch(text)) is not None:
        today = datetime.fromtimestamp(now, UTC)
        hour, minute, second = (int(part or 0) for part in clock.groups())
        found = today.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return (found if found <= today else found - timedelta(days=1)).timestamp()
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    try:
        return instant_of(text)
    except QueryError as error:
        raise UsageError(str(error)) from None
