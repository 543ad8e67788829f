"""Durations as Prometheus writes them, ``500ms``, ``30s``, ``1h30m``, and as Go does in a web-config file.

Instants are RFC 3339 in UTC, as documents have them.
"""

from __future__ import annotations

import re
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


_UNITS = {"y": 365 * 86400.0, "w": 7 * 86400.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
LONGEST_DURATION = 100 * _UNITS["y"]
"""The longest that settings and flags may have, in seconds: a thread cannot wait for 300 years."""
_FORM = re.compile("".join(rf"(?:(?P<{unit}>[0-9]{{1,15}}){unit})?" for unit in _UNITS))

_GO_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,
    "\u03bcs": 1e-6,
    **{unit: _UNITS[unit] for unit in ("ms", "s", "m", "h")},
}
_GO_PART = re.compile(rf"([0-9]{{1,18}}(?:\.[0-9]{{1,18}})?)({'|'.join(_GO_UNITS)})")


def parse_duration(text: str) -> float:
    """Seconds in a duration such as ``500ms``, ``30s``, ``5m`` or ``1h30m``: units from large to small, each once.

    Raises ValueError, whose text is what to write instead, for anything else, a bare number included.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        meant = f": {text.strip()}s" if re.fullmatch(r"\s*[0-9]+\s*", text) else ""
        raise ValueError(f"is no duration; write a number with its unit, such as 500ms, 30s, 5m or 1h30m{meant}")
    return sum(int(count) * _UNITS[unit] for unit, count in match.groupdict().items() if count)


def parse_go_duration(text: str) -> float:
    """Seconds in a duration of Go's ``time.ParseDuration``, without sign: ``1.5s``, ``1m30s``.

    A number alone is nanoseconds, as in Go's YAML. Raises ValueError, whose text is what to write instead.
    """
    if text.isascii() and text.isdecimal() and len(text) <= 18:  # Go's durations have 63 bits
        return int(text) * 1e-9
    at, seconds = 0, 0.0
    while at < len(text) <= 100 and (part := _GO_PART.match(text, at)):
        seconds += float(part[1]) * _GO_UNITS[part[2]]
        at = part.end()
    if not text or at < len(text):
        raise ValueError("must be a duration such as 1s or 250ms")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest form that ``parse_duration`` reads back, to the millisecond: ``90`` is ``1m30s``."""
    left = round(seconds * 1000)
    if left <= 0:
        return "0s"
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, round(_UNITS[unit] * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def format_age(seconds: float) -> str:
    """An age in its two largest units: ``3s``, ``2m 5s``, ``1h 4m``, ``3d 2h``; under a second ``0s``."""
    left = max(0, int(seconds))
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, int(_UNITS[unit]))
        parts.append((count, unit))
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count) or "0s"
