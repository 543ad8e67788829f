"""THE table of alerts, in the order of the rules file. A new subject is a module with ``alerts`` and a line here."""

from __future__ import annotations

from exporter.alerts import agent, audits, cluster, engines, lso, spark, transactions
from exporter.alerts.rule import Alert, Record
from exporter.alerts.settings import Settings

SUBJECTS = (lso, transactions, cluster, engines, spark, audits, agent)
_RECORDS = {transactions.__name__: transactions.records, agent.__name__: agent.records}


def subjects(settings: Settings) -> tuple[tuple[str, tuple[Record, ...], tuple[Alert, ...]], ...]:
    """Each subject: its name, its recording rules and its alerts, which read those of the same subject only."""
    return tuple(
        (
            subject.__name__.rpartition(".")[2],
            tuple(_RECORDS[subject.__name__]()) if subject.__name__ in _RECORDS else (),
            tuple(subject.alerts(settings)),
        )
        for subject in SUBJECTS
    )


def alerts(settings: Settings) -> tuple[Alert, ...]:
    """Every alert, its variants one after the other."""
    return tuple(alert for _, _, alerts in subjects(settings) for alert in alerts)


def names() -> tuple[str, ...]:
    """The names of all alerts, each once."""
    return tuple(dict.fromkeys(alert.name for alert in alerts(Settings())))


def records() -> tuple[Record, ...]:
    """Every recording rule."""
    return tuple(record for _, records, _ in subjects(Settings()) for record in records)
