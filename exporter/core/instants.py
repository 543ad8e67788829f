"""Instants as documents have them."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(seconds: float | None) -> str | None:
    """Unix seconds as RFC 3339 in UTC; None for None and for instants outside of the calendar."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):  # a record may carry any timestamp
        return None


def seconds_of(millis: int | None) -> float | None:
    """Unix seconds of a timestamp; None for None, and for -1, which Kafka writes where it has none."""
    return None if millis is None or millis < 0 else millis / 1000
