"""The table as a Prometheus rules file and as a PrometheusRule of the Prometheus operator."""

from __future__ import annotations

from typing import Any

from exporter.alerts import table
from exporter.alerts.agent import ABSENT
from exporter.alerts.bound import bounded, others
from exporter.alerts.labels import expression, text
from exporter.alerts.owners import owner_label
from exporter.alerts.rule import KEEP_FIRING_FOR, Alert, Severity
from exporter.alerts.settings import Settings, SettingsError
from exporter.alerts.text import document

Rule = dict[str, Any]


def groups(settings: Settings) -> list[Rule]:
    """The groups of a rules file, one for each subject: Prometheus evaluates groups in parallel, rules of a group in
    sequence. Raises SettingsError when an override cannot be applied.
    """
    subjects = [
        (
            subject,
            [alert for alert in subject.alerts() if settings.override(alert.name, "enabled") != "false"],
            [*subject.records()],
        )
        for subject in table.SUBJECTS
    ]
    every = [alert for _, alerts, _ in subjects for alert in alerts]
    return [
        {
            "name": f"kafka-eos.{subject.name}",
            **({"interval": subject.interval} if subject.interval else {}),
            "rules": [
                *({"record": record.name, "expr": expression(record.expr, settings)} for record in records),
                *(_rule(alert, settings, every) for alert in alerts),
            ],
        }
        for subject, alerts, records in subjects
        if alerts or records  # other subjects read records, too
    ]


def rules_file(settings: Settings) -> str:
    """A file for ``rule_files`` of prometheus.yml."""
    return document({"groups": groups(settings)})


def prometheus_rule(settings: Settings) -> str:
    """The same rules as an object of the Prometheus operator."""
    return document(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {"name": "kafka-eos-exporter", "labels": {"app.kubernetes.io/name": "kafka-eos-exporter"}},
            "spec": {"groups": groups(settings)},
        }
    )


def _rule(alert: Alert, settings: Settings, alerts: list[Alert]) -> Rule:
    rule: Rule = {"alert": alert.name, "expr": expression(bounded(alert), settings)}
    hold = settings.override(alert.name, "for") or alert.hold
    if hold:
        rule["for"] = hold
    keep = settings.override(alert.name, "keep_firing_for") or (KEEP_FIRING_FOR if alert.keeps else "")
    if keep:
        rule["keep_firing_for"] = str(keep)
    rule["labels"] = {
        **{name: value for name, value in settings.static.items() if name != "severity"},
        **_severity(alert, settings, alerts),
        **alert.labels,
        "owner": _described(owner_label(alert), settings),
    }
    rule["annotations"] = {
        "summary": _described(alert.summary, settings),
        "description": _described(alert.description + others(alert), settings),
        "runbook_url": _runbook(alert, settings),
        "dashboard_url": _dashboard(alert, settings),
        "page_url": _page(alert, settings),
    }
    return rule


def _described(template: str, settings: Settings) -> str:
    """Counts are whole: an increase is extrapolated, and ``humanize`` would write 12.47 or 1.371k."""
    return text(template.replace("alue | humanize }}", "alue | printf `%.0f` }}"), settings)


def _severity(alert: Alert, settings: Settings, alerts: list[Alert]) -> dict[str, str]:
    """The label; none where the expression has it."""
    wanted = settings.override(alert.name, "severity")
    if (
        wanted is not None
        and len({one for other in alerts if other.name == alert.name for one in other.severities}) > 1
    ):
        raise SettingsError(f"{alert.name}.severity: it has both severities; change their thresholds")
    severity = wanted or alert.severity
    return {"severity": Severity(severity).value} if severity else {}


def _runbook(alert: Alert, settings: Settings) -> str:
    """A repository shows the file; elsewhere a runbook is a page by the alert's name. A dead agent has none."""
    base = settings.runbook_url
    if alert.name == ABSENT and base == f"{settings.page_url}/runbooks":
        base = Settings.runbook_url
    return f"{base}/{alert.name}" + (".md" if "/blob/" in base else "")


def _dashboard(alert: Alert, settings: Settings) -> str:
    """The board, with the variables that the alert names."""
    names = [name for name in ("kafka_cluster", "application") if f"$labels.{name} " in alert.summary]
    variables = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in names)
    return f"{settings.dashboard_url}/{alert.dashboard}" + (f"?{variables}" if variables else "")


def _page(alert: Alert, settings: Settings) -> str:
    """The page, filtered by what the alert is about; the card of a transaction by its producer id."""
    if "$labels.kafka_cluster " not in alert.summary:
        return settings.page_url
    query = "cluster={{ $labels.kafka_cluster | urlquery }}"
    if "$labels.application " in f"{alert.summary}{alert.description}":
        query += "&application={{ $labels.application | urlquery }}"
    card = "#producer-{{ $labels.producer_id }}" if alert.of_holder else ""
    return f"{settings.page_url}/?{query}{card}"
