"""``owners``: which team an application, topic, group or connector belongs to; the first matching entry applies."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from exporter.settings.values import Pattern, Section, wrong

_SUBJECTS = ("applications", "topics", "groups", "connectors")


class OwnerSection(Section):
    """A team, and patterns for the whole names of what it owns. The page names it, the series `kafka_eos_owner_info`
    and the label `owner` of alerts have it, and `generate alerts --owners FILE` makes Alertmanager's routes of it.
    """

    team: Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$")]
    """Name of the team: the value of the label `owner`, and part of the names of its receivers."""
    channel: Annotated[str, Field(max_length=200)] = ""
    """Where the team is reached, such as `#payments-oncall`: the page has it beside the team."""
    applications: tuple[Pattern, ...] = ()
    """Applications; Spark applications as well."""
    topics: tuple[Pattern, ...] = ()
    """Topics."""
    groups: tuple[Pattern, ...] = ()
    """Consumer groups."""
    connectors: tuple[Pattern, ...] = ()
    """Connectors, each written CONNECT/CONNECTOR."""

    @model_validator(mode="after")
    def _owns_something(self) -> OwnerSection:
        if not any(getattr(self, name) for name in _SUBJECTS):
            raise wrong("needs at least one pattern of applications, topics, groups or connectors")
        return self
