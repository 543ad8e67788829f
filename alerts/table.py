"""The table of alerts, in the order of the rules file. A new subject is a module with ``alerts`` and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from exporter.alerts import aborts, agent, brokers, cluster, engines, failures, groups, jobs, lso, slo, transactions
from exporter.alerts.rule import Alert, Record


class Subject(NamedTuple):
    """A group of the rules file: its alerts, its recording rules, and its interval, "" for the usual one."""

    name: str
    alerts: Callable[[], Iterable[Alert]]
    records: Callable[[], Iterable[Record]] = tuple
    interval: str = ""


SUBJECTS = (
    Subject("lso", lso.alerts, lso.records),
    Subject("groups", groups.alerts),
    Subject("transactions", transactions.alerts, transactions.records),
    Subject("flink", transactions.flink_alerts),
    Subject("aborts", aborts.alerts, aborts.records),
    Subject("budgets", aborts.slow_alerts, aborts.slow_records, "5m"),
    Subject("cluster", cluster.alerts),
    Subject("brokers", brokers.alerts, brokers.records),
    Subject("storage", brokers.storage_alerts),
    Subject("canary", cluster.canary_alerts),
    Subject("failures", failures.alerts),
    Subject("connect", engines.connect_alerts),
    Subject("streams", engines.streams_alerts),
    Subject("clients", engines.client_alerts),
    Subject("spark", jobs.spark_alerts),
    Subject("audits", jobs.audit_alerts),
    Subject("agent", agent.alerts, agent.records),
    Subject("monitoring", agent.monitoring_alerts),
    Subject("freshness", tuple, slo.records),
    Subject("objectives", slo.slow_alerts, slo.slow_records, "5m"),
)


def alerts() -> tuple[Alert, ...]:
    """Every alert, its variants one after the other."""
    return tuple(alert for subject in SUBJECTS for alert in subject.alerts())


def names() -> tuple[str, ...]:
    """The names of all alerts, each once."""
    return tuple(dict.fromkeys(alert.name for alert in alerts()))


def records() -> tuple[Record, ...]:
    """Every recording rule."""
    return tuple(record for subject in SUBJECTS for record in subject.records())
