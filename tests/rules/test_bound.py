"""A cluster with many subjects in trouble: at most twenty alerts of a rule, in each cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from exporter.alerts import table
from exporter.alerts.aborts import MANY
from exporter.alerts.bound import MOST_ALERTS, is_bounded
from exporter.alerts.rule import Alert
from tests.rules.promtool import Case, Labels, Series, bare, counted, size
from tests.rules.table import CASES
from tests.rules.written import written_rules

RULES: dict[str, Any] = written_rules()
SUBJECTS = 24
CLUSTERS = ("prod", "test")
_NO_SUBJECT = {"kafka_cluster", "severity", "reason"}
BOUNDED = [alert for alert in table.alerts() if is_bounded(alert)]


def name_of(alert: Alert) -> str:
    return f"{alert.name} {alert.reason}".strip()


def own(labels: Labels, alert: Alert) -> bool:
    return labels["severity"] == alert.severities[-1] and {*alert.labels.items()} <= {*labels.items()}


def smallest(alert: Alert) -> tuple[Case, str, Labels]:
    """The smallest case with a time at which one alert of this rule fires: that time, and the alert's labels."""
    found = [
        (case, check.at, labels)
        for case in CASES
        if case.alert == name_of(alert)
        for check in case.checks
        for labels in check.alerts
        if own(labels, alert) and len([fired for fired in check.alerts if own(fired, alert)]) == 1
    ]
    return min(found, key=lambda pair: size(pair[0]))


def crowd(case: Case, subject: Mapping[str, str], cluster: str) -> list[Series]:
    """The case's series for many subjects in this cluster, and once those that are not about the subject."""
    made: dict[tuple[str, ...], Series] = {}
    for number in range(SUBJECTS):
        for series in case.series:
            labels = dict(series.labels)
            if "kafka_cluster" in labels:
                labels["kafka_cluster"] = cluster
            for name, value in subject.items():
                for label, text in labels.items():
                    if label == name or (text == value and label not in {"instance", "pod", "job"}):
                        labels[label] = text.replace(value, f"{value}-{number}") if value else text
            made[series.metric, *labels.values()] = replace(series, labels=labels)
    return list(made.values())


@pytest.mark.parametrize("alert", BOUNDED, ids=lambda bounded: f"{name_of(bounded)}-{bounded.severities[-1]}")
def test_no_more_than_twenty_alerts_of_a_rule_fire_in_a_cluster(alert: Alert) -> None:
    case, at, labels = smallest(alert)
    subject = {name: value for name, value in labels.items() if name not in _NO_SUBJECT}
    first = dict([next((name, value) for name, value in subject.items() if value)])
    series = tuple(series for cluster in CLUSTERS for series in crowd(case, first, cluster))
    crowded = replace(case, series=series, checks=())
    matchers = {"severity": alert.severities[-1].value, **alert.labels}
    rules = bare(RULES)
    for group in rules["groups"]:  # one alert stands for all these applications in the shortest windows
        group["rules"] = [rule for rule in group["rules"] if rule.get("record") != str(MANY)]
    assert counted(rules, crowded, at, dict.fromkeys(CLUSTERS, MOST_ALERTS), **matchers) == ""
