"""Which team owns an application, a topic, a group or a connector, by patterns of the settings. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

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
