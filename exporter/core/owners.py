"""Which team owns an application, a topic, a group or a connector, by patterns of the settings. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


@dataclass(frozen=True, slots=True)
class Owners:
    """The teams of the settings, of which the first that matches a subject owns it."""

    teams: tuple[Team, ...] = ()

    def of(self, kind: str, subject: str) -> str:
        """Return the name of the owner: ``unowned`` where no team matches, "" where there are no teams."""
        if not self.teams:
            return ""
        for team in self.teams:
            if any(pattern.matches(subject) for pattern in team.patterns.get(kind, ())):
                return team.name
        return UNOWNED

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
