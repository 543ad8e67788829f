"""From when on something is trouble: thresholds by pattern, with a reason and a window of the day. Pure functions.

The agent exposes the thresholds in force as series beside what they judge; the alert rules compare the two. So one
rules file serves everybody, and a nightly batch has its own threshold without a rule of its own.

Owners are the teams of applications, topics, groups and connectors, by patterns of the settings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time
from itertools import chain
from types import MappingProxyType

from exporter.bounds.patterns import BoundedPattern, given_up
from exporter.model import Fault

UNOWNED = "unowned"
"""The owner of what no entry of the settings matches, where the settings have owners."""
KINDS = ("application", "topic", "group", "connector")
"""Kinds of subjects that have an owner; a connector's name is CONNECT/CONNECTOR."""


@dataclass(frozen=True, slots=True)
class Team:
    """A team, where it is reached ("" where that is not said), and patterns for whole names by kind of subject."""

    name: str
    channel: str
    patterns: Mapping[str, tuple[BoundedPattern, ...]]

    def owns(self, kind: str, subject: str) -> bool:
        """Return whether a pattern of the team matches the subject."""
        return any(pattern.matches(subject) for pattern in self.patterns.get(kind, ()))


@dataclass(frozen=True, slots=True)
class Owners:
    """The teams of the settings, of which the first that matches a subject owns it."""

    teams: tuple[Team, ...] = ()

    def of(self, kind: str, subject: str) -> str:
        """Return the name of the owner: ``unowned`` where no team matches, "" where there are no teams."""
        if not self.teams:
            return ""
        return self.of_any([(kind, subject)]) or UNOWNED

    def of_any(self, subjects: Collection[tuple[str, str]]) -> str | None:
        """Return the name of the first team that owns one of these kinds and subjects, None where there is none."""
        return next((team.name for team in self.teams if any(team.owns(*subject) for subject in subjects)), None)

    def of_holder(self, application: str, topics: Iterable[str]) -> str:
        """Return the owner of a transaction: that of its application, otherwise of the first of its topics with one."""
        if not self.teams:
            return ""
        first = (self.of("application", application),) if application else ()
        found = chain(first, (self.of("topic", topic) for topic in topics))
        return next((owner for owner in found if owner != UNOWNED), UNOWNED)

    def channel(self, owner: str) -> str:
        """Return where a team is reached, "" where that is not said."""
        return next((team.channel for team in self.teams if team.name == owner and team.channel), "")

    def given_up(self) -> Iterator[Fault]:
        """Return a fault for each pattern that takes too long on a subject that it met since the last call."""
        return given_up(pattern for team in self.teams for every in team.patterns.values() for pattern in every)


DEFAULTS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "topic": MappingProxyType({"stall_warning": 300.0, "stall_critical": 900.0, "fresh_within": math.inf}),
        "application": MappingProxyType(
            {
                "open_warning": 900.0,  # transaction.max.timeout.ms
                "completion_critical": 300.0,
                "silent_critical": math.inf,
                "unclean": 0.05,
            }
        ),
        "query": MappingProxyType({"stalled_warning": 600.0}),
        "audit": MappingProxyType({"overdue_warning": 8 * 86400.0}),
        "connector": MappingProxyType({"commit_failures": 0.1}),
        "group": MappingProxyType({"lag_warning": math.inf, "lag_critical": math.inf}),
        "source": MappingProxyType({}),  # can be ignored only
    }
)
"""By kind of subject: what can be set, in seconds, offsets or as a share, and what holds where nothing is set."""

RATIOS = frozenset({"unclean", "commit_failures"})
"""Thresholds that are shares from 0 to 1."""

OPTIONAL = frozenset({"fresh_within", "lag_warning", "lag_critical"})
"""Thresholds that most subjects do not have: there is no series where the value is never."""

STALL_SLACK_SECONDS = 60.0
"""A stall is a page this long after its holder's own timeout, which ends it by itself, and not before the ticket."""


@dataclass(frozen=True, slots=True)
class Override:
    """Thresholds of the subjects that a pattern matches as a whole, within a window of the day (UTC) if there is one.

    A window may go over midnight. ``ignored`` subjects have no threshold that can be passed.
    """

    kind: str
    pattern: BoundedPattern
    values: Mapping[str, float]
    reason: str = ""
    ignored: bool = False
    window: tuple[time, time] | None = None

    def holds(self, now: float) -> bool:
        """Return whether this is its time of the day; ``now`` is Unix seconds."""
        if self.window is None:
            return True
        begin, end = self.window
        clock = datetime.fromtimestamp(now, UTC).time()
        return begin <= clock < end if begin <= end else clock >= begin or clock < end


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The overrides, of which the first that matches and names a threshold decides it."""

    overrides: tuple[Override, ...] = ()

    @property
    def by_the_clock(self) -> bool:
        """Return whether some of them hold only within a window of the day."""
        return any(override.window is not None for override in self.overrides)

    def of(self, kind: str, subject: str, now: float) -> Mapping[str, float]:
        """Return every threshold of a subject by name: seconds or a share, infinite where it is ignored."""
        matching = list(self._matching(kind, subject, now))
        if not matching:
            return DEFAULTS[kind]
        found: dict[str, float] = {}
        for override in matching:
            for name, value in (
                dict.fromkeys(DEFAULTS[kind], math.inf) if override.ignored else override.values
            ).items():
                found.setdefault(name, value)
        return {**DEFAULTS[kind], **found}

    def ignored(self, kind: str, subject: str, now: float) -> str | None:
        """Return the reason why a subject is ignored now; None too where an earlier override gives it a threshold."""
        reason = next((override.reason for override in self._matching(kind, subject, now) if override.ignored), None)
        if reason is None or any(value < math.inf for value in self.of(kind, subject, now).values()):
            return None
        return reason

    def given_up(self) -> Iterator[Fault]:
        """Return a fault for each pattern that takes too long on a subject that it met since the last call."""
        return given_up(override.pattern for override in self.overrides)

    def _matching(self, kind: str, subject: str, now: float) -> Iterable[Override]:
        return (
            override
            for override in self.overrides
            if override.kind == kind and override.holds(now) and override.pattern.matches(subject)
        )
