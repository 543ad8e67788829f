"""What Alertmanager makes of the alerts, by amtool and by the configuration itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from exporter.alerts import table
from exporter.alerts.files import generated

TEXT = generated()["alerts/generated/alertmanager.yaml"]
CONFIG = yaml.safe_load(TEXT)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "alertmanager.yml"
    path.write_text(TEXT)
    return str(path)


def test_amtool_accepts_it(config: str) -> None:
    done = subprocess.run(["amtool", "check-config", config], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_amtool_accepts_what_the_page_of_the_alerts_shows(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
    (example,) = re.findall(r"^```yaml\n(route:.*?)^```$", page, re.MULTILINE | re.DOTALL)
    path = tmp_path / "alertmanager.yml"
    path.write_text(example)
    done = subprocess.run(["amtool", "check-config", path], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "kafka-eos-pages"), ("warning", "kafka-eos-tickets")])
def test_severity_decides_who_is_told(config: str, severity: str, receiver: str) -> None:
    labels = ["alertname=KafkaEosLsoStalled", f"severity={severity}", "kafka_cluster=prod", "producer_id=7"]
    tool = ["amtool", "config", "routes", "test", f"--config.file={config}", *labels]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.split() == [receiver]


def test_forty_stalled_partitions_are_one_page() -> None:
    for route in CONFIG["route"]["routes"]:
        assert route["group_by"] == ["alertname", "kafka_cluster"]


def test_every_alert_that_inhibits_or_is_inhibited_exists() -> None:
    for rule in CONFIG["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            name, is_regex, value = re.fullmatch(r'(\w+)=(~?)"(.*)"', matcher).groups()  # type: ignore[union-attr]
            if name == "alertname":
                assert [each for each in table.names() if re.fullmatch(value if is_regex else re.escape(value), each)]


def test_a_page_that_is_out_is_withheld_by_nothing_but_the_hanging_one_of_its_own_holder() -> None:
    pages = [rule for rule in CONFIG["inhibit_rules"] if 'severity="warning"' not in rule["target_matchers"]]
    tickets = (['alertname="KafkaEosProducerFenced"'], ['alertname="KafkaEosSourceDown"'])
    (withheld,) = (rule for rule in pages if rule["target_matchers"] not in tickets)
    assert withheld["target_matchers"] == ['alertname="KafkaEosLsoStalled"']
    assert {"kafka_cluster", "producer_id"} <= {*withheld["equal"]}


def test_nothing_inhibits_what_is_of_another_cluster_or_of_one_with_the_same_name_in_another_region() -> None:
    for rule in CONFIG["inhibit_rules"]:
        assert {"kafka_cluster", "cluster", "region", "env", "namespace"} <= {*rule["equal"]}
