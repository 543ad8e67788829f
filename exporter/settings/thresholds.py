"""``thresholds``: limits of alerts for subjects by pattern; ``owners``: which team a subject belongs to. The first
matching entry applies.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import time
from typing import Annotated, Any, Literal

from exporter.bounds.patterns import BoundedPattern
from exporter.core.durations import format_duration, parse_duration
from exporter.core.thresholds import DEFAULTS, Override, Team
from exporter.settings.reading import Contradiction, ValueForm
from exporter.settings.values import Name, Pattern, text

WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_NEVER = "never"


def _above_zero(parse: Callable[[Any], float], most: float, what: str, write: Callable[[float], object]) -> ValueForm:
    """The form of a number above 0 and up to ``most``, or ``never``, which is infinite."""

    def before(value: object) -> float:
        if value == _NEVER:
            return math.inf
        try:
            number = parse(value)
        except (AttributeError, TypeError, ValueError):
            number = -1.0
        if not 0 < number <= most:
            raise ValueError(f"must be {what}, or never")
        return number

    return ValueForm(
        before, write=lambda value: value if value is None else _NEVER if value == math.inf else write(value)
    )


Length = Annotated[float, _above_zero(parse_duration, math.inf, "a duration such as 90s or 1h30m", format_duration)]
Share = Annotated[float, _above_zero(float, 1.0, "a share above 0 and up to 1", float)]
Count = Annotated[float, _above_zero(float, sys.float_info.max, "a number of offsets above 0", float)]


def _team(value: str) -> str:
    if not re.fullmatch("[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}", value):
        raise ValueError("must be 1 to 63 letters, digits, _ . or -, a letter or digit first")
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdConfig:
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
    reason: Annotated[str, text(1)]
    """The reason, shown on the page and in a series."""
    between: str = ""
    """A window of the day in UTC, such as `22:00-05:00`; unset: always."""
    ignore: bool = False
    """Whether all thresholds of these subjects are `never`."""
    stall_warning: Length | None = None
    """Topic: warning when a last stable offset has not moved for longer than this (5m)."""
    stall_critical: Length | None = None
    """Topic: critical when it has not moved for longer than this, whatever holds it (15m)."""
    fresh_within: Length | None = None
    """Topic: how old its oldest withheld record may be, 99% of the time; warning by the rate of a budget (never)."""
    open_warning: Length | None = None
    """Application: warning when a transaction is open for longer than this (15m)."""
    completion_critical: Length | None = None
    """Application: critical when a decided transaction lacks markers for longer than this (5m)."""
    silent_critical: Length | None = None
    """Application: critical when it has not committed for longer than this (never)."""
    unclean: Share | None = None
    """Application: share of its transactions that may end otherwise than committed (0.05)."""
    stalled_warning: Length | None = None
    """Query: warning when it has made no progress for longer than this (10m); set it above the trigger interval."""
    overdue_warning: Length | None = None
    """Audit: warning when its last run is older than this (8d)."""
    commit_failures: Share | None = None
    """Connector: share of its tasks' offset commits that may fail (0.1)."""
    lag_warning: Count | None = None
    """Group: warning when its read_committed lag on a topic is more offsets than this (never)."""
    lag_critical: Count | None = None
    """Group: critical when its read_committed lag on a topic is more offsets than this (never)."""

    def contradictions(self) -> Iterator[Contradiction]:
        names = [name for values in DEFAULTS.values() for name in values if getattr(self, name) is not None]
        for name in names:
            if name not in DEFAULTS[self.kind]:
                known = ", ".join(DEFAULTS[self.kind]) or "no threshold and can be ignored"
                yield (), f"{name} is none of a {self.kind}, which has {known}"
        if self.ignore == bool(names):
            yield (), "needs either a threshold or ignore: true"
        if self.between and WINDOW.fullmatch(self.between) is None:
            yield (), "between: write HH:MM-HH:MM in UTC, such as 22:00-05:00"
        elif self.between and self.between[:5] == self.between[6:]:
            yield (), "between: begin and end are the same; leave it out for the whole day"

    def override(self) -> Override:
        """Return what this entry means."""
        window = None
        if match := WINDOW.fullmatch(self.between):
            hour, minute, until, past = map(int, match.groups())
            window = (time(hour, minute), time(until, past))
        pattern = BoundedPattern(self.pattern, "thresholds", whole=True)
        names = [name for values in DEFAULTS.values() for name in values]
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        return Override(self.kind, pattern, values, self.reason, self.ignore, window)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnerConfig:
    """A team, and patterns for the whole names of what it owns. The page names it, the series `kafka_eos_owner_info`
    and the label `owner` of alerts have it, and `generate alerts --owners FILE` makes Alertmanager's routes of it.
    """

    team: Annotated[str, ValueForm(after=_team)]
    """Name of the team: the value of the label `owner`, and part of the names of its receivers."""
    channel: Name = ""
    """Where the team is reached, such as `#payments-oncall`: the page has it beside the team."""
    applications: tuple[Pattern, ...] = ()
    """Applications; Spark applications as well."""
    topics: tuple[Pattern, ...] = ()
    """Topics."""
    groups: tuple[Pattern, ...] = ()
    """Consumer groups."""
    connectors: tuple[Pattern, ...] = ()
    """Connectors, each written CONNECT/CONNECTOR."""

    def contradictions(self) -> Iterator[Contradiction]:
        if not (self.applications or self.topics or self.groups or self.connectors):
            yield (), "needs at least one pattern of applications, topics, groups or connectors"

    def team_of_agent(self) -> Team:
        """Return what this entry means to the agent."""
        subjects = {
            "application": self.applications,
            "topic": self.topics,
            "group": self.groups,
            "connector": self.connectors,
        }
        patterns = {
            kind: tuple(BoundedPattern(pattern, "owners", whole=True) for pattern in texts)
            for kind, texts in subjects.items()
        }
        return Team(self.team, self.channel, patterns)
