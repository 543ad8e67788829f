"""Labels that are not the agent's: rules with a selector and group labels keep two namespaces apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from exporter.alerts import table
from exporter.alerts.labels import expression, text
from exporter.alerts.rules import rules_file
from exporter.alerts.settings import Settings, SettingsError, settings
from tests.rules.promtool import Case, Check, Series, bare, run
from tests.rules.table import CASES

GROUPED = settings(['selector=env="prod"', "group_labels=namespace,team", "labels=tier=1"], table.names())
RULES: dict[str, Any] = bare(yaml.safe_load(rules_file(GROUPED)))
BIG = 60
"""Cases with more series than this take long: one is taken only where an alert has no smaller one."""


def elsewhere(case: Case) -> Case:
    """The case in two namespaces with the same clusters, and in another environment, which is not watched."""

    def everywhere(series: Series) -> Iterator[Series]:
        if "instance" not in series.labels:  # ALERTS, of no case that is used here
            yield series
            return
        for namespace, env in (("blue", "prod"), ("green", "prod"), ("blue", "test")):
            place = {"namespace": namespace, "team": "a", "env": env}
            yield replace(
                series, labels={**series.labels, **place, "instance": f"{namespace}-{env}-{series.labels['instance']}"}
            )

    checks = tuple(
        Check(
            check.at,
            tuple(
                {**alert, "namespace": namespace, "team": "a", "tier": "1"}
                for alert in check.alerts
                for namespace in ("blue", "green")
            ),
        )
        for check in case.checks
    )
    return replace(case, series=tuple(made for series in case.series for made in everywhere(series)), checks=checks)


def first_of(name: str) -> list[Case]:
    """The first case that fires and whose alerts name no instance and no target that was not scraped."""
    usable = [
        case
        for case in CASES
        if case.alert == name
        and case.fires
        and not any("instance" in alert for check in case.checks for alert in check.alerts)
        and all("instance" in series.labels for series in case.series)
    ]
    return [next((case for case in usable if len(case.series) <= BIG), usable[0])]


BY_INSTANCE = (*("KafkaEosExporterAbsent never", "KafkaEosWatchdog", "KafkaEosLabelsAmbiguous missing"),)
"""Alerts with an instance, or with none of anybody's labels."""


@pytest.mark.parametrize(
    "name", [fromkey for fromkey in dict.fromkeys(case.alert for case in CASES) if fromkey not in BY_INSTANCE]
)
def test_two_namespaces_with_one_name_of_a_cluster_are_two_alerts(name: str) -> None:
    assert run(RULES, [elsewhere(case) for case in first_of(name)]) == ""


def test_without_labels_nothing_changes() -> None:
    for alert in table.alerts():
        assert expression(alert.expr, Settings()) == alert.expr
        assert text(alert.description, Settings()) == alert.description


def test_every_query_of_a_text_begins_with_the_cluster() -> None:
    """The group labels follow it: evidence is of the namespace of its alert."""
    others = re.compile(r"(?<![\w:])(?:[\w:]*kafka_eos_[\w:]++|ALERTS\b)(?!\{kafka_cluster=%q)")
    for alert in table.alerts():
        if "$labels.kafka_cluster " in alert.summary:
            for query in re.findall(r"`([^`]*kafka_eos[^`]*)`", alert.summary + alert.description):
                assert others.search(query) is None, query


def test_evidence_is_of_the_namespace_of_its_alert() -> None:
    query = "max(kafka_eos_a{kafka_cluster=%q, topic=%q}) and a:kafka_eos_b{kafka_cluster=%q}"
    arguments = "$labels.kafka_cluster $labels.topic $labels.kafka_cluster"
    template = f"{{{{ $labels.kafka_cluster }}}}: {{{{ range query (printf `{query}` {arguments}) }}}}"
    assert text(template, replace(Settings(), selector='env="prod"', group_labels="namespace")) == (
        "{{ $labels.kafka_cluster }}: {{ range query (printf"
        ' `max(kafka_eos_a{kafka_cluster=%q, namespace=%q, env="prod", topic=%q})'
        " and a:kafka_eos_b{kafka_cluster=%q, namespace=%q}`"
        " $labels.kafka_cluster $labels.namespace $labels.topic $labels.kafka_cluster $labels.namespace) }}"
    )


@pytest.mark.parametrize(
    "wrong",
    ["selector=env", 'selector=env="a" or x', "group_labels=a b", "group_labels=a,,b", "labels=team", "labels=1=2"],
)
def test_wrong_labels_are_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match="needs"):
        settings([wrong], table.names())
