"""``thresholds``: limits of alerts for subjects by pattern; the first matching entry that sets a limit decides it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from exporter.core.durations import format_duration, parse_duration
from exporter.core.thresholds import DEFAULTS
from exporter.settings.plain import WINDOW
from exporter.settings.values import Pattern, Section, wrong

_NEVER = "never"


def _above_zero(parse: Callable[[Any], float], most: float, what: str) -> BeforeValidator:
    """A validator of a number above 0 and up to ``most``, or ``never``, which is infinite."""

    def read(value: object) -> float:
        if value == _NEVER:
            return math.inf
        try:
            number = parse(value)
        except (AttributeError, TypeError, ValueError):
            number = -1.0
        if not 0 < number <= most:
            raise wrong(f"must be {what}, or never")
        return number

    return BeforeValidator(read)


def _written(value: float | None) -> str | None:
    return value if value is None else _NEVER if value == math.inf else format_duration(value)


def _written_share(value: float | None) -> float | str | None:
    return _NEVER if value == math.inf else value


_LENGTH = _above_zero(parse_duration, math.inf, "a duration such as 90s or 1h30m")
_SHARE = _above_zero(float, 1.0, "a share above 0 and up to 1")
_COUNT = _above_zero(float, sys.float_info.max, "a number of offsets above 0")
Length = Annotated[float | None, _LENGTH, PlainSerializer(_written)]
Share = Annotated[float | None, _SHARE, PlainSerializer(_written_share)]
Count = Annotated[float | None, _COUNT, PlainSerializer(_written_share)]


class ThresholdSection(Section):
    """Thresholds of the subjects of one ``kind`` whose whole name ``pattern`` matches.

    A query's name is SPARK_APPLICATION/QUERY, a connector's CONNECT/CONNECTOR, a source's SOURCE/TARGET. A threshold
    is a duration, a share or a number of offsets, or ``never``; its default is in parentheses.
    """

    kind: Literal["topic", "application", "query", "audit", "connector", "group", "source"]
    """Kind of the subjects: `topic`, `application`, `query`, `audit`, `connector`, `group` or `source`. A source, such
    as one that the agent may not read, has no threshold: it can only be ignored.
    """
    pattern: Pattern
    """A regular expression for the whole name."""
    reason: Annotated[str, Field(min_length=1, max_length=200)]
    """The reason, shown on the page and in a series."""
    between: str = ""
    """A window of the day in UTC, such as `22:00-05:00`; unset: always."""
    ignore: bool = False
    """Whether all thresholds of these subjects are `never`."""
    stall_warning: Length = None
    """Topic: warning when a last stable offset has not moved for longer than this (5m)."""
    stall_critical: Length = None
    """Topic: critical when it has not moved for longer than this, whatever holds it (15m)."""
    fresh_within: Length = None
    """Topic: how old its oldest withheld record may be, 99% of the time; warning by the rate of a budget (never)."""
    open_warning: Length = None
    """Application: warning when a transaction is open for longer than this (15m)."""
    completion_critical: Length = None
    """Application: critical when a decided transaction lacks markers for longer than this (5m)."""
    silent_critical: Length = None
    """Application: critical when it has not committed for longer than this (never)."""
    unclean: Share = None
    """Application: share of its transactions that may end otherwise than committed (0.05)."""
    stalled_warning: Length = None
    """Query: warning when it has made no progress for longer than this (10m); set it above the trigger interval."""
    overdue_warning: Length = None
    """Audit: warning when its last run is older than this (8d)."""
    commit_failures: Share = None
    """Connector: share of its tasks' offset commits that may fail (0.1)."""
    lag_warning: Count = None
    """Group: warning when its read_committed lag on a topic is more offsets than this (never)."""
    lag_critical: Count = None
    """Group: critical when its read_committed lag on a topic is more offsets than this (never)."""

    @model_validator(mode="after")
    def _is_meant(self) -> ThresholdSection:
        names = [name for values in DEFAULTS.values() for name in values if getattr(self, name) is not None]
        for name in names:
            if name not in DEFAULTS[self.kind]:
                known = ", ".join(DEFAULTS[self.kind]) or "no threshold and can be ignored"
                raise wrong(f"{name} is none of a {self.kind}, which has {known}")
        if self.ignore == bool(names):
            raise wrong("needs either a threshold or ignore: true")
        if self.between and WINDOW.fullmatch(self.between) is None:
            raise wrong("between: write HH:MM-HH:MM in UTC, such as 22:00-05:00")
        if self.between and self.between[:5] == self.between[6:]:
            raise wrong("between: begin and end are the same; leave it out for the whole day")
        return self
