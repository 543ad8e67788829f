"""The mixin, compiled by jsonnet; the templates, rendered by amtool."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import _gojsonnet
import pytest
import yaml

from exporter.alerts import table
from exporter.alerts.mixin import mixin
from exporter.alerts.rules import groups
from exporter.alerts.settings import Settings, settings
from exporter.commands.generate_dashboards import files
from tests.rules.written import written

Mixin = dict[str, Any]
KEYS = "{ alerts: m.prometheusAlerts, rules: m.prometheusRules, dashboards: m.grafanaDashboards }"


LABELS = ['selector=env="prod"', "group_labels=namespace,team"]


def written_mixin(folder: Path, assignments: list[str]) -> Path:
    file = folder / "mixin.libsonnet"
    file.write_text(mixin({path.name: text for path, text in files().items()}, settings(assignments, table.names())))
    return file


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Mixin:
    return compiled(written_mixin(tmp_path_factory.mktemp("plain"), []), "{}")


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Mixin:
    overrides = "{ KafkaEosProducerFenced: { 'for': '9m' }, KafkaEosTransactionTimeouts: { enabled: false } }"
    return compiled(
        written_mixin(tmp_path_factory.mktemp("changed"), LABELS),
        "{ labels: { tier: '1' }, runbookURL: 'https://wiki.example.com', dashboardURL: 'https://grafana.example.com/d',"
        f" pageURL: 'https://eos.example.com', overrides: {overrides} }}",
    )


def compiled(file: Path, config: str) -> Mixin:
    source = f"local m = (import '{file}') + {{ _config+:: {config} }}; {KEYS}"
    made: Mixin = json.loads(_gojsonnet.evaluate_snippet("test.jsonnet", source))
    return made


def every(made: Mixin) -> list[dict[str, Any]]:
    """All rules, records before alerts."""
    return [rule for kind in ("rules", "alerts") for group in made[kind]["groups"] for rule in group["rules"]]


def ours(configured: Settings) -> list[dict[str, Any]]:
    rules = [rule for group in groups(configured) for rule in group["rules"]]
    return [*(rule for rule in rules if "record" in rule), *(rule for rule in rules if "alert" in rule)]


def test_without_a_config_it_has_the_rules_and_the_dashboards_that_generate_makes(plain: Mixin) -> None:
    assert every(plain) == ours(Settings())
    assert plain["dashboards"] == {path.name: json.loads(text) for path, text in files().items()}


def test_its_config_does_what_set_does(changed: Mixin) -> None:
    wanted = settings(
        [
            *LABELS,
            "labels=tier=1",
            "runbook_url=https://wiki.example.com",
            "dashboard_url=https://grafana.example.com/d",
            "page_url=https://eos.example.com",
            "KafkaEosProducerFenced.for=9m",
            "KafkaEosTransactionTimeouts.enabled=false",
        ],
        table.names(),
    )
    assert every(changed) == ours(wanted)


def test_every_query_of_a_panel_has_the_selector(changed: Mixin) -> None:
    for dashboard in changed["dashboards"].values():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                # A recorded series has a colon in its name, and is of a rule with the selector.
                assert re.search(r"env=\"prod\"|ALERTS|\w:\w", target["expr"]), target["expr"]


@pytest.mark.parametrize("which", ["plain", "changed"])
def test_promtool_takes_what_it_compiles_to(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    made: Mixin = request.getfixturevalue(which)
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [*made["rules"]["groups"], *made["alerts"]["groups"]]}))
    tool = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", str(file)]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- Notifications ----------------------------------------------------------------------------------------------------


def rendered(tmp_path: Path, name: str, alerts: int, status: str = "firing") -> str:
    (tmp_path / "kafka-eos.tmpl").write_text(written()["alerts/generated/kafka-eos.tmpl"])
    annotations = {
        "summary": "A summary.",
        "page_url": "https://p",
        "dashboard_url": "https://d",
        "runbook_url": "https://r",
    }
    data = {
        "status": status,
        "externalURL": "https://alertmanager.example.com",
        "groupLabels": {"alertname": "KafkaEosLsoStalled", "kafka_cluster": "prod & eu"},
        "commonLabels": {"severity": "critical"},
        "commonAnnotations": {"summary": "A summary."},
        "alerts": [
            {"status": status, "labels": {}, "annotations": {**annotations, "description": f"Description {at}."}}
            for at in range(alerts)
        ],
    }
    file = tmp_path / "data.json"
    file.write_text(json.dumps(data))
    tool = ["amtool", "template", "render", f"--template.glob={tmp_path}/*.tmpl", f"--template.data={file}"]
    done = subprocess.run(
        [*tool, f'--template.text={{{{ template "{name}" . }}}}'],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_a_title_has_the_count_the_severity_and_the_cluster(tmp_path: Path) -> None:
    assert rendered(tmp_path, "kafka-eos.title", 7) == "[7 firing, critical] KafkaEosLsoStalled on prod & eu"
    assert (
        rendered(tmp_path, "kafka-eos.title", 1, "resolved") == "[resolved, critical] KafkaEosLsoStalled on prod & eu"
    )


def test_a_silence_link_is_of_the_group(tmp_path: Path) -> None:
    assert rendered(tmp_path, "kafka-eos.silence", 1) == (
        "https://alertmanager.example.com/#/silences/new?filter="
        "%7Balertname%3D%22KafkaEosLsoStalled%22%2C%20kafka_cluster%3D%22prod+%26+eu%22%7D"
    )


def test_a_text_writes_five_alerts_out_and_says_how_many_there_are(tmp_path: Path) -> None:
    text = rendered(tmp_path, "kafka-eos.text", 7)
    assert text.startswith("A summary.")
    assert re.findall(r"Description (\d)", text) == ["0", "1", "2", "3", "4"]
    assert "These are 5 of 7" in text
    assert text.splitlines()[-4:-1] == ["Page: https://p", "Dashboard: https://d", "Runbook: https://r"]
    assert "These are" not in rendered(tmp_path, "kafka-eos.text", 5)


def test_alertmanager_takes_the_templates(tmp_path: Path) -> None:
    (tmp_path / "kafka-eos.tmpl").write_text(written()["alerts/generated/kafka-eos.tmpl"])
    config = yaml.safe_load(written()["alerts/generated/alertmanager.yaml"])
    config["templates"] = [str(tmp_path / "*.tmpl")]
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    done = subprocess.run(["amtool", "check-config", file], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 templates" in done.stdout
