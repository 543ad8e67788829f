"""Each team gets its own alerts and no others: by the label of the rules and a real Alertmanager."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.alerts.files import FORMATS
from exporter.alerts.settings import Settings
from exporter.catalogue import OWNER_INFO
from exporter.config import ConfigError, ConfigSource
from tests.rules.alertmanager import running
from tests.rules.promtool import Case, Series, bare, run, scraped
from tests.rules.table import CASES
from tests.rules.written import written_rules

TEAMS = ("payments", "logistics", "fraud")
SETTINGS = Settings(teams=TEAMS)


def alert(name: str, severity: str = "warning", **labels: str) -> dict[str, str]:
    return {"alertname": f"KafkaEos{name}", "severity": severity, "kafka_cluster": "prod", **labels}


SUBJECTS = {
    "holder": ("producer_id",),
    "application": ("application",),
    "query": ("spark_application", "query"),
    "connector": ("connect", "connector"),
    "group": ("group",),
    "topic": ("topic",),
}
RULES = bare(written_rules())


def subjects(labels: Mapping[str, str]) -> dict[str, str]:
    """The subjects of an alert by kind: the first of them decides who owns it."""
    return {kind: "/".join(labels[name] for name in names) for kind, names in SUBJECTS.items() if {*names} <= {*labels}}


FIRING = {case.alert: subjects(labels) for case in CASES for check in case.checks for labels in check.alerts}


def test_the_label_owner_of_every_alert_is_that_of_its_subjects() -> None:
    rules = {
        rule["alert"]: rule["labels"]["owner"]
        for group in RULES["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    kinds = {key: re.findall(r'kind="(\w+)"', owner) for key, owner in rules.items()}
    assert kinds == {key: [*FIRING[key], "cluster"] for key in rules}


def owned(case: Case) -> Case:
    """The case with an owner for each subject of its alerts, of which a failed scrape takes the last sample away."""
    series: dict[tuple[str, str, str], Series] = {}
    checks = []
    for check in case.checks:
        expected = []
        for labels in check.alerts:
            cluster = labels.get("kafka_cluster", "prod")
            rows = {(cluster, kind, subject): f"of-{kind}" for kind, subject in subjects(labels).items()}
            rows[cluster, "cluster", cluster] = "unowned"
            series |= {row: scraped(OWNER_INFO, *row, team, values="1 stale 1x1500") for row, team in rows.items()}
            expected.append({**labels, "owner": next(iter(rows.values()))})
        checks.append(replace(check, alerts=tuple(expected)))
    return replace(case, series=(*case.series, *series.values()), checks=tuple(checks))


@pytest.mark.parametrize(
    "alert",
    [
        *("KafkaEosUnmarkedTransaction", "KafkaEosProducerFenced", "KafkaEosSparkQueryStalled"),
        *("KafkaEosConnectTaskFailed", "KafkaEosGroupLagHigh", "KafkaEosTornTransaction", "KafkaEosPostureFailed"),
    ],
)
def test_an_alert_keeps_the_owner_of_its_subject_over_a_failed_scrape(alert: str) -> None:
    assert run(RULES, [owned(next(case for case in CASES if case.alert == alert and case.fires))]) == ""


def test_each_of_three_teams_gets_its_own_alerts_and_no_others(tmp_path: Path) -> None:
    firing = [
        alert("ProducerFenced", application="pay-eu", owner="payments"),
        alert("AbortRatioHigh", "critical", application="billing", reason="fast", owner="payments"),
        alert("ProducerFenced", application="shipping", owner="logistics"),
        alert("ConnectTaskFailed", "critical", connect="main", connector="ship-out", task="0", owner="logistics"),
        alert("ReadersLate", topic="scores", owner="fraud"),
        alert("HangingTransaction", "critical", producer_id="7", owner="fraud"),
        alert("TransactionLogUnderMinIsr", "critical", owner="unowned"),
        alert("SourceDown", source="posture", target="prod"),
        alert("Watchdog", "none"),
    ]
    with running(FORMATS["alertmanager"](SETTINGS), tmp_path) as alertmanager:
        alertmanager.send([{"labels": labels} for labels in firing])
        got: defaultdict[str, set[str]] = defaultdict(set)
        for notification in alertmanager.received(len(firing) - 1):
            got[notification.receiver].update(
                alert["alertname"].removeprefix("KafkaEos") for alert in notification.alerts
            )
    assert got == {
        "payments-tickets": {"ProducerFenced"},
        "logistics-tickets": {"ProducerFenced"},
        "logistics-pages": {"ConnectTaskFailed"},
        "fraud-tickets": {"ReadersLate"},
        "fraud-pages": {"HangingTransaction"},
        "kafka-eos-pages": {"TransactionLogUnderMinIsr"},
        "kafka-eos-tickets": {"SourceDown"},
        "kafka-eos-watchdog": {"Watchdog"},
    }  # the transaction log's outage inhibits the share of aborts


def test_owners_are_settings_of_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "eos.yaml"
    cluster = "clusters: [{name: prod, kafka: {bootstrap.servers: 'k:9092'}}]\n"
    path.write_text(f"{cluster}owners:\n  - {{team: payments, channel: '#pay', applications: ['pay.*']}}\n")
    (entry,) = ConfigSource(path, {}).load().owners
    assert (entry.team, entry.channel, entry.applications) == ("payments", "#pay", ("pay.*",))
    path.write_text(f"{cluster}owners:\n  - {{team: payments}}\n  - {{team: 'a b', topics: [x]}}\n")
    with pytest.raises(ConfigError) as error:
        ConfigSource(path, {}).load()
    assert "owners[0]" in str(error.value)
    assert "owners[1].team" in str(error.value)


def test_a_page_about_one_group_leaves_the_ticket_about_another(tmp_path: Path) -> None:
    firing = [
        alert("GroupLagHigh", "critical", group="a", topic="orders"),
        alert("GroupLagHigh", "warning", group="a", topic="orders"),
        alert("GroupLagHigh", "warning", group="b", topic="orders"),
    ]
    with running(FORMATS["alertmanager"](Settings()), tmp_path) as alertmanager:
        alertmanager.send([{"labels": labels} for labels in firing])
        got = {
            notification.receiver: [labels["group"] for labels in notification.alerts]
            for notification in alertmanager.received(2)
        }
    assert got == {"kafka-eos-pages": ["a"], "kafka-eos-tickets": ["b"]}
