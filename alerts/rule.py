"""A row of the table: an alert or a recording rule. Frozen; PromQL is plain text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from textwrap import indent

KEEP_FIRING_FOR = "7m"
"""How long an alert keeps firing without data: longer than it takes to detect that its agent or its source is gone."""
BRIDGE = "3m"
"""How far back a value is searched, so that a failed scrape does not restart a ``for``."""
EVENT_WINDOW = "10m"
"""How long after a fence, a timeout or a failed task its ticket stays open."""
EVENT_SECONDS = 600


class Severity(StrEnum):
    """``critical`` is a page, ``warning`` a ticket for working hours, ``none`` for the watchdog alone."""

    CRITICAL = "critical"
    WARNING = "warning"
    NONE = "none"


class Board(StrEnum):
    """The dashboards that alerts link to, by uid."""

    OVERVIEW = "kafka-eos-overview"
    STALLS = "kafka-eos-stalls"
    TRANSACTIONS = "kafka-eos-transactions"
    CLIENTS = "kafka-eos-clients"
    BROKERS = "kafka-eos-brokers"
    JOBS = "kafka-eos-jobs"
    AGENT = "kafka-eos-agent"


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule; the name is ``level:metric:operations``."""

    name: str
    expr: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert, or one variant of it: the same name with another ``reason``.

    ``severity`` is None where the expression has it as a label, of a ticket that becomes a page: ``by_severity``.
    ``hold`` is Prometheus' ``for``, "" for none: most ages come from a timestamp, which a failed scrape or a restart of
    Prometheus cannot reset. ``summary`` is a headline: the cluster, what happens and who is hit, in two sentences.
    ``description`` begins with what to do first; a page has evidence by query after it, a ticket links to page and
    dashboard. ``keeps`` is False where the rule looks back by itself, so that a failed scrape cannot resolve it.
    ``of_holder`` is of an alert about a transaction that holds partitions, which has a card on the page by its producer
    id. ``when`` describes the condition in docs/alerts.md. ``steady`` is of values that keep their order, such as ages,
    or are all the same: alerts.bound.
    """

    name: str
    severity: Severity | None
    dashboard: Board
    expr: str
    summary: str
    description: str
    hold: str = ""
    keeps: bool = True
    reason: str = ""
    of_holder: bool = False
    steady: bool = False
    when: str = field(kw_only=True)

    @property
    def severities(self) -> tuple[Severity, ...]:
        """The severities that it may have."""
        return (self.severity,) if self.severity else (Severity.WARNING, Severity.CRITICAL)

    @property
    def labels(self) -> dict[str, str]:
        """The labels beside the severity."""
        return {"reason": self.reason} if self.reason else {}


def labelled(expr: str, label: str, value: str) -> str:
    """The series of an expression with one more label."""
    return f'label_replace(\n{indent(expr, "  ")},\n  "{label}", "{value}", "", ""\n)'


def by_severity(warning: str, critical: str) -> str:
    """The tickets and the pages of one event."""
    return f"{labelled(warning, 'severity', 'warning')}\nor\n{labelled(critical, 'severity', 'critical')}"
