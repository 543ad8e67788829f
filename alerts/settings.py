"""Settings of the alerts, for ``--set KEY=VALUE``: addresses, severities, durations, which alerts are enabled.

Thresholds are settings of the agent (``thresholds``), which exposes them as series; the rules compare with these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from exporter.alerts.rule import Severity
from exporter.core.durations import parse_duration

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = rf'{_LABEL.pattern}(?:=~|!~|!=|=)"[^"\\]*"'
_SELECTOR = re.compile(rf"{_MATCHER}(?:, ?{_MATCHER})*")
_OVERRIDES = ("for", "keep_firing_for", "severity", "enabled")


class SettingsError(ValueError):
    """Problems of the settings, a line for each problem."""


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
    enabled. ``teams`` are the owners of the agent's settings.
    """

    runbook_url: str = field(
        default="https://github.com/kafka-eos-exporter/kafka-eos-exporter/blob/main/alerts/runbooks",
        metadata={"meaning": "base of runbook_url; where page_url is set, its /runbooks"},
    )
    dashboard_url: str = field(
        default="http://grafana:3000/d", metadata={"meaning": "base of dashboard_url: Grafana's /d"}
    )
    page_url: str = field(
        default="http://kafka-eos-exporter:10618",
        metadata={"meaning": "the agent's status page, which has the next step"},
    )
    selector: str = field(
        default="", metadata={"meaning": 'matchers for every series, such as env="prod", as Prometheus writes them'}
    )
    group_labels: str = field(
        default="",
        metadata={
            "meaning": "labels that every alert keeps, such as namespace,env: clusters of one name that differ in"
            " them have alerts of their own"
        },
    )
    labels: str = field(
        default="",
        metadata={
            "meaning": "labels for every alert, such as team=streaming,tier=1; labels of the rule take precedence"
        },
    )
    overrides: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    teams: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The group labels."""
        return tuple(label.strip() for label in self.group_labels.split(",") if label.strip())

    @property
    def static(self) -> Mapping[str, str]:
        """The labels for every alert."""
        pairs = (label.partition("=") for label in self.labels.split(",") if label.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def override(self, alert: str, what: str) -> str | None:
        """Return the value that is set for this alert, or None."""
        return self.overrides.get(alert, {}).get(what)


def knobs() -> Iterable[tuple[str, str, str]]:
    """Each knob: its key, its default, its meaning."""
    return [(knob.name, str(knob.default), knob.metadata["meaning"]) for knob in fields(Settings) if knob.metadata]


def settings(assignments: Iterable[str], alerts: Iterable[str]) -> Settings:
    """The defaults with these ``KEY=VALUE`` over them; ``alerts`` are the names that may stand before a dot.

    Raises SettingsError with every problem.
    """
    keys = {knob.name for knob in fields(Settings) if knob.metadata}
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
                values[key] = _value(key, value)
            elif alert in names and what in _OVERRIDES:
                overrides.setdefault(alert, {})[what] = _override(what, value)
            else:
                problems.append(f"{assignment}: no such key; generate alerts --help lists them")
        except ValueError as error:
            problems.append(f"{assignment}: {error}")
    if problems:
        raise SettingsError("\n".join(problems))
    if "page_url" in values:
        values.setdefault("runbook_url", f"{values['page_url']}/runbooks")
    frozen = MappingProxyType({name: MappingProxyType(override) for name, override in overrides.items()})
    return replace(Settings(), **values, overrides=frozen)


def _value(key: str, value: str) -> str:
    if key == "selector":
        if value and not _SELECTOR.fullmatch(value):
            raise ValueError('needs matchers such as env="prod", region=~"eu-.*"')
        return value
    if key == "group_labels":
        if not all(_LABEL.fullmatch(label.strip()) for label in value.split(",")) and value:
            raise ValueError("needs names of labels, such as namespace,env")
        return value
    if key == "labels":
        if value and not all(
            _LABEL.fullmatch(label.partition("=")[0].strip()) and "=" in label for label in value.split(",")
        ):
            raise ValueError("needs pairs such as team=streaming,tier=1")
        return value
    return value.rstrip("/")


def _override(what: str, value: str) -> str:
    if what == "severity":
        if value not in {Severity.CRITICAL, Severity.WARNING}:  # the route of `none` is the dead-man's switch
            raise ValueError("is critical or warning")
        return value
    if what == "enabled":
        if value not in {"true", "false"}:
            raise ValueError("is true or false")
        return value
    return Duration(value)
