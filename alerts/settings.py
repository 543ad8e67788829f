"""What an agent cannot know of the alerts, for ``--set KEY=VALUE``: addresses, severities, waits, which alerts to have.

Thresholds are settings of the agent (``thresholds``), which exposes them as series; the rules compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from exporter.alerts.rule import Severity
from exporter.core.durations import parse_duration

_OVERRIDES = ("for", "keep_firing_for", "severity", "enabled")


class SettingsError(ValueError):
    """What is wrong with the settings, a line for each problem."""


class Duration(str):
    """A duration as Prometheus writes it. Raises ValueError for anything else."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        try:
            parse_duration(text)
        except ValueError:
            raise ValueError(f"{text!r} is no duration like 90s, 5m or 1h30m") from None
        return super().__new__(cls, text.strip())


@dataclass(frozen=True)
class Settings:
    """The knobs, with their defaults. ``overrides`` are by alert name, then by one of for, keep_firing_for, severity,
    enabled.
    """

    runbook_url: str = field(
        default="https://github.com/kafka-eos-exporter/kafka-eos-exporter/blob/main/alerts/runbooks",
        metadata={"meaning": "base of runbook_url: a page that is there while the agent is not"},
    )
    dashboard_url: str = field(
        default="http://grafana:3000/d", metadata={"meaning": "base of dashboard_url: Grafana's /d"}
    )
    page_url: str = field(
        default="http://kafka-eos-exporter:10618",
        metadata={"meaning": "the agent's status page, which has the next step"},
    )
    overrides: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))

    def override(self, alert: str, what: str) -> str | None:
        """What was set for this alert, or None."""
        return self.overrides.get(alert, {}).get(what)


def knobs() -> Iterable[tuple[str, str, str]]:
    """Each knob: its key, its default, its meaning."""
    return [
        (knob.name, str(knob.default), knob.metadata["meaning"])
        for knob in fields(Settings)
        if knob.name != "overrides"
    ]


def settings(assignments: Iterable[str], alerts: Iterable[str]) -> Settings:
    """The defaults with these ``KEY=VALUE`` over them; ``alerts`` are the names that may stand before a dot.

    Raises SettingsError with every problem.
    """
    keys = {knob.name for knob in fields(Settings) if knob.name != "overrides"}
    names = set(alerts)
    values: dict[str, Any] = {}
    overrides: dict[str, dict[str, str]] = {}
    problems = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        alert, _, what = key.partition(".")
        try:
            if not equals:
                problems.append(f"{assignment}: needs the form KEY=VALUE")
            elif key in keys:
                values[key] = value.rstrip("/")
            elif alert in names and what in _OVERRIDES:
                overrides.setdefault(alert, {})[what] = _override(what, value)
            else:
                problems.append(f"{assignment}: no such key; generate alerts --help lists them")
        except ValueError as error:
            problems.append(f"{assignment}: {error}")
    if problems:
        raise SettingsError("\n".join(problems))
    frozen = MappingProxyType({name: MappingProxyType(each) for name, each in overrides.items()})
    return replace(Settings(), **values, overrides=frozen)


def _override(what: str, value: str) -> str:
    if what == "severity":
        return Severity(value).value
    if what == "enabled":
        if value not in {"true", "false"}:
            raise ValueError("is true or false")
        return value
    return Duration(value)
