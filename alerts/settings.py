"""Everything about the alerts that an operator may want otherwise, in one place: ``--set KEY=VALUE``.

Thresholds of the rules are here and nowhere else. Durations are Prometheus' (``90s``, ``5m``, ``1h30m``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from exporter.alerts.rule import Severity

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_OVERRIDES = ("for", "keep_firing_for", "severity", "enabled")


class SettingsError(ValueError):
    """What is wrong with the settings, a line for each problem."""


class Duration(str):
    """A duration as Prometheus writes it. ``seconds`` is what it says. Raises ValueError for anything else."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        match = _DURATION.fullmatch(text)
        if not text or match is None:
            raise ValueError(f"{text!r} is no duration like 90s, 5m or 1h30m")
        return super().__new__(cls, text)

    @property
    def seconds(self) -> int:
        match = _DURATION.fullmatch(self)
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@dataclass(frozen=True)
class Settings:
    """The knobs, with their defaults. ``overrides`` are by alert name, then by one of for, keep_firing_for, severity,
    enabled.
    """

    runbook_url: str = field(
        default="http://kafka-eos-exporter:10618/runbooks",
        metadata={"meaning": "base of runbook_url; the agent serves the runbooks under /runbooks"},
    )
    dashboard_url: str = field(
        default="http://grafana:3000/d", metadata={"meaning": "base of dashboard_url: Grafana's /d"}
    )
    keep_firing_for: Duration = field(
        default=Duration("7m"),
        metadata={
            "meaning": "how long an alert goes on without data; longer than a failure of all scrapes should hide"
        },
    )
    bridge: Duration = field(
        default=Duration("3m"),
        metadata={
            "meaning": "how far back a value is looked for, so that a failed scrape does not begin a wait anew; more"
            " than two scrape intervals"
        },
    )
    stall_warning: Duration = field(
        default=Duration("5m"), metadata={"meaning": "a last stable offset that stands still this long is a ticket"}
    )
    stall_critical: Duration = field(
        default=Duration("15m"), metadata={"meaning": "... and this long a page, whoever holds it"}
    )
    stall_slack: Duration = field(
        default=Duration("1m"),
        metadata={
            "meaning": "a page comes already this long after the holder's own timeout, but not before the ticket"
        },
    )
    long_transaction: Duration = field(
        default=Duration("15m"),
        metadata={
            "meaning": "a transaction open for longer is a ticket (transaction.max.timeout.ms is 15m by default)"
        },
    )
    event_window: Duration = field(
        default=Duration("10m"),
        metadata={"meaning": "how long after a fence, a timeout or a failed task its ticket stays open"},
    )
    storm_fences: int = field(
        default=3, metadata={"meaning": "fences of one transactional.id within 10m that are a storm"}
    )
    abort_budget: float = field(
        default=0.05, metadata={"meaning": "share of transactions that may end otherwise than committed"}
    )
    abort_minimum: int = field(
        default=20, metadata={"meaning": "finished transactions in the long window below which no ratio is judged"}
    )
    completion_slow: float = field(
        default=10.0, metadata={"meaning": "seconds that the 99th percentile of completion may take"}
    )
    completion_minimum: int = field(
        default=10, metadata={"meaning": "completions in 10m below which the percentile is not judged"}
    )
    completion_stuck: Duration = field(
        default=Duration("5m"), metadata={"meaning": "a decided transaction without its markers for longer is a page"}
    )
    verification_failures: int = field(
        default=10, metadata={"meaning": "partitions of one broker that may fail verification in 15m"}
    )
    connect_commit_failures: float = field(
        default=0.1, metadata={"meaning": "share of a task's offset commits that may fail"}
    )
    restore_window: Duration = field(
        default=Duration("15m"), metadata={"meaning": "a restore that makes no progress for so long is stuck"}
    )
    spark_stalled: Duration = field(
        default=Duration("10m"),
        metadata={
            "meaning": "a streaming query without progress for so long is stalled; more than its trigger interval"
        },
    )
    audit_overdue: Duration = field(
        default=Duration("8d"), metadata={"meaning": "an audit that has not run for so long does not run any more"}
    )
    source_success: float = field(
        default=0.5, metadata={"meaning": "share of the reads of a source in 10m that should succeed"}
    )
    ignored_sources: str = field(
        default="",
        metadata={"meaning": "regular expression of sources that may be down, such as txnlog where READ is refused"},
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
    defaults = {knob.name: knob.default for knob in fields(Settings) if knob.name != "overrides"}
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
            elif key in defaults:
                values[key] = _parsed(defaults[key], value)
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


def _parsed(default: object, value: str) -> str | int | float | Duration:
    if isinstance(default, Duration):
        return Duration(value)
    if isinstance(default, int):
        return int(value)
    if isinstance(default, float):
        return float(value)
    return value.rstrip("/")


def _override(what: str, value: str) -> str:
    if what == "severity":
        return Severity(value).value
    if what == "enabled":
        if value not in {"true", "false"}:
            raise ValueError("is true or false")
        return value
    return Duration(value)
