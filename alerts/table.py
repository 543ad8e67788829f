"""THE table of alerts, in the order of the rules file. A new subject is a module with ``alerts`` and a line here."""

from __future__ import annotations

from exporter.alerts import agent, audits, cluster, engines, lso, spark, transactions
from exporter.alerts.rule import Alert, Record
from exporter.alerts.settings import Settings

SUBJECTS = (lso, transactions, cluster, engines, spark, audits, agent)


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """Every alert, its variants one after the other."""
    return tuple(alert for subject in SUBJECTS for alert in subject.alerts(settings))


def names() -> tuple[str, ...]:
    """The names of all alerts, each once."""
    return tuple(dict.fromkeys(alert.name for alert in alerts(Settings())))


def records() -> tuple[Record, ...]:
    """Every recording rule."""
    return tuple(transactions.records())
