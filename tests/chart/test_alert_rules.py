"""The chart's rules are those of `generate alerts` with the same settings."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.alerts.rules import groups
from exporter.alerts.settings import knobs, settings
from exporter.alerts.table import names
from tests.chart.tools import CHART, Charts, ToolRefusedError, of_kind

SERVICE = "http://eos-kafka-eos-exporter.kafka.svc:10618"
ADDRESSES = {key: default for key, default, _ in knobs() if key.endswith("_url")}


def rendered(charts: Charts, given: dict[str, Any], overrides: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    rule = {"enabled": True, "settings": given, "overrides": overrides or {}}
    [found] = of_kind(charts.objects({"bootstrapServers": "kafka:9092", "prometheusRule": rule}), "PrometheusRule")
    result: list[dict[str, Any]] = found["spec"]["groups"]
    return result


def told(given: dict[str, Any], overrides: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return what the command makes of the same. Phones do not open the Service: its runbooks are those of the
    repository.
    """
    own = {} if "page_url" in given else {"page_url": SERVICE, "runbook_url": ADDRESSES["runbook_url"]}
    pairs = {**own, **given}
    for alert, wanted in (overrides or {}).items():
        pairs |= {f"{alert}.{key}": str(value).lower() for key, value in wanted.items()}
    return groups(settings([f"{key}={value}" for key, value in pairs.items()], names()))


@pytest.mark.parametrize("given", [{"page_url": "here"}, {"nonsense": "1"}, {"labels": "a=b"}])
def test_what_is_no_setting_of_the_rules_is_refused(charts: Charts, given: dict[str, str]) -> None:
    with pytest.raises(ToolRefusedError, match=next(iter(given))):
        rendered(charts, given)


@pytest.mark.parametrize("given", [{"selector": 'env="prod"'}, {"group_labels": ""}])
def test_a_setting_that_was_removed_names_the_page_of_upgrades(charts: Charts, given: dict[str, str]) -> None:
    with pytest.raises(ToolRefusedError, match=rf"settings\.{next(iter(given))}: removed; docs/upgrading\.md"):
        rendered(charts, given)


def other(default: str) -> str:
    return f"{default}x"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {key: other(default) for key, default in ADDRESSES.items()},
        {"runbook_url": "https://wiki.example.com/eos"},
        {"page_url": "https://eos.example.com"},
        {"dashboard_url": 'https://grafana.example.com/a?b="c"&d={{ e }}'},
    ],
    ids=["defaults", "addresses", "wiki", "page", "awkward"],
)
def test_the_same_settings_give_the_same_rules(charts: Charts, given: dict[str, Any]) -> None:
    assert rendered(charts, given) == told(given)


def test_the_same_overrides_give_the_same_rules(charts: Charts) -> None:
    overrides = {
        "KafkaEosTransactionTimeouts": {"enabled": False},
        "KafkaEosProducerFenced": {"severity": "critical", "for": "1m", "keep_firing_for": "30m"},
        "KafkaEosLsoStalled": {"for": "2m"},
    }
    assert rendered(charts, {}, overrides) == told({}, overrides)


def test_labels_for_every_alert_do_not_replace_its_own(charts: Charts) -> None:
    rule = {"enabled": True, "alertLabels": {"team": "streaming", "severity": "info"}}
    [found] = of_kind(charts.objects({"bootstrapServers": "kafka:9092", "prometheusRule": rule}), "PrometheusRule")
    alerts = [rule for group in found["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    assert {alert["labels"]["team"] for alert in alerts} == {"streaming"}
    of_rules = {alert["labels"].get("severity") for alert in alerts}
    assert of_rules == {"critical", "warning", "none", None}  # None: by the expression
    records = [rule for group in found["spec"]["groups"] for rule in group["rules"] if "record" in rule]
    assert not [record for record in records if "labels" in record]


def test_promtool_takes_the_rules(charts: Charts, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": rendered(charts, {})}))
    done = subprocess.run(
        ["promtool", "check", "rules", file], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_listener_with_tls_is_linked_as_such(charts: Charts) -> None:
    values = yaml.safe_load((CHART / "ci" / "web-existing-values.yaml").read_text())
    [found] = of_kind(charts.objects({**values, "prometheusRule": {"enabled": True}}), "PrometheusRule")
    rules = [rule for group in found["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    addresses = {rule["annotations"]["page_url"].partition("/?")[0] for rule in rules}
    assert addresses == {"https://eos-kafka-eos-exporter.kafka.svc:10618"}
