"""Every alert fires and is silent when it should, in the cases of this folder, by Prometheus' own rule engine."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter import alerts, catalogue
from exporter.alerts import table
from exporter.alerts.rule import Severity
from exporter.alerts.rules import groups, rules_file
from exporter.alerts.settings import Settings, SettingsError, settings
from exporter.dashboards.generate import boards
from tests.rules.mutation import EQUIVALENT, mutants, survivors
from tests.rules.promtool import Case, bare, large, run, small, variant_of
from tests.rules.table import CASES
from tests.rules.written import written_rules

RULES: dict[str, Any] = written_rules()
ALERTS = table.alerts()
ROOT = Path(__file__).parents[2]
FOLDER = Path(alerts.__file__).parent
CASES_OF = {
    name: [case for case in CASES if case.alert == name] for name in dict.fromkeys(case.alert for case in CASES)
}
SMALL = 1000
SAMPLE = 20
"""Every so-maniest mutant is tried with each run of the tests; ``make mutants`` tries all."""


def of(name: str) -> list[Case]:
    return [case for case in CASES if case.alert.split()[0] == name]


@pytest.mark.parametrize("name", CASES_OF)
def test_the_alert_does_what_its_cases_say(name: str) -> None:
    assert run(bare(RULES), small(CASES_OF[name], SMALL)) == ""


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name, cases in CASES_OF.items() if large(cases, SMALL)])
def test_the_alert_does_what_its_large_cases_say(name: str) -> None:
    assert run(bare(RULES), large(CASES_OF[name], SMALL)) == ""


@pytest.mark.parametrize("name", table.names())
def test_every_alert_has_a_case_that_fires_and_one_that_is_silent(name: str) -> None:
    assert any(checked.fires for checked in of(name))
    assert any(not checked.fires for checked in of(name)) or name == "KafkaEosWatchdog"  # it always fires


def test_every_variant_of_an_alert_fires_in_some_case() -> None:
    fired = {
        (case.alert.split()[0], labels["severity"], variant_of(labels))
        for case in CASES
        for check in case.checks
        for labels in check.alerts
    }
    assert fired == {(alert.name, one.value, alert.reason) for alert in ALERTS for one in alert.severities}


def test_no_case_is_about_an_alert_that_does_not_exist() -> None:
    assert {case.alert.split()[0] for case in CASES} == set(table.names())


@pytest.mark.proof  # make mutants tries them all
def test_a_sample_of_the_mutants_is_killed() -> None:
    sample = list(mutants(RULES))[int(os.environ.get("MUTANTS_FROM", "0")) :: SAMPLE]
    _, alive = survivors(CASES, sample)
    assert alive == []


def test_every_mutant_that_is_said_to_be_equivalent_is_one() -> None:
    assert EQUIVALENT.keys() <= {mutant.what for mutant in mutants(RULES)}


def test_every_metric_of_an_expression_or_description_is_in_the_catalogue() -> None:
    known = {row.name for row in catalogue.rows()}
    series = known | {f"{name}{suffix}" for name in known for suffix in ("_bucket", "_count")}
    records = {record.name for record in table.records()}
    for alert in ALERTS:
        named = set(re.findall(r"[a-z_:]*kafka_eos_[\w:]+", f"{alert.expr} {alert.summary} {alert.description}"))
        assert named <= series | records


@pytest.mark.parametrize("alert", ALERTS, ids=lambda named: f"{named.name}-{named.reason}")
def test_what_an_alert_says_is_complete(alert: Any) -> None:
    rules = [rule for group in groups(Settings()) for rule in group["rules"] if rule.get("alert") == alert.name]
    assert alert.summary.startswith(("{{ $labels.", "kafka-eos-exporter:", "A cap "))  # the cluster, where there is one
    sentences = re.findall(r"\. [A-Z]", re.sub(r"\{\{.*?\}\}", "x", alert.summary))
    assert len(sentences) <= 1  # two before the first action
    assert alert.description.startswith("First: ")
    chosen = next(board.variables for board in boards() if board.uid == alert.dashboard)
    for rule in rules:
        assert rule["annotations"]["runbook_url"].endswith(f"/runbooks/{alert.name}.md")
        assert f"/d/{alert.dashboard}" in rule["annotations"]["dashboard_url"]
        variables = set(re.findall(r"var-(\w+)=", rule["annotations"]["dashboard_url"]))
        assert variables <= {"kafka_cluster", *(variable.name for variable in chosen)}


def test_no_alert_and_no_runbook_spells_a_line_that_ends_a_transaction() -> None:
    texts = [alert.description for alert in ALERTS] + [path.read_text() for path in (FOLDER / "runbooks").glob("*.md")]
    for text in texts:
        assert "forceTerminateTransaction" not in text
        assert "--start-offset" not in text
        assert " abort --" not in text


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {path.stem for path in (FOLDER / "runbooks").glob("*.md")} == set(table.names())


def test_the_default_runbook_is_a_page_of_the_repository() -> None:
    """It is there while the agent and its cluster are not."""
    home = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
    base = Settings().runbook_url
    assert base.startswith(f"{home}/blob/main/")
    folder = ROOT / base.removeprefix(f"{home}/blob/main/")
    rules = [rule for group in groups(Settings()) for rule in group["rules"] if "alert" in rule]
    pages = {rule["annotations"]["runbook_url"] for rule in rules}
    assert [page for page in pages if not (folder / page.removeprefix(f"{base}/")).is_file()] == []


def test_prometheus_finds_nothing_to_warn_of(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(rules_file(Settings()))
    tool = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", str(file)]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_parses_every_query_of_a_runbook(tmp_path: Path) -> None:
    lines = [
        line
        for path in (FOLDER / "runbooks").glob("*.md")
        for line in re.findall(r"^    (\S.*)$", path.read_text(), re.MULTILINE)
        if not re.match(r"(kafka-[a-z-]+(\.sh)?|curl|ls|grep|SELECT) ", line)
    ]
    assert len(lines) >= 3
    rules = [{"record": f"runbook:line:{number}", "expr": line} for number, line in enumerate(lines)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


KNOWN = {"exporter.catalogue", "exporter.core.durations", "exporter.core.thresholds", "exporter.model"}


def test_the_alerts_know_only_the_catalogue_the_model_and_the_words_of_the_next_steps() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "exporter":
                modules = [node.module] if "." in node.module else [f"exporter.{alias.name}" for alias in node.names]
                for module in modules:
                    assert module in KNOWN or module.startswith("exporter.alerts")


@pytest.mark.parametrize("subject", table.SUBJECTS, ids=lambda subject: subject.name)
def test_recording_rules_are_kept_where_all_alerts_of_their_subject_are_disabled(subject: table.Subject) -> None:
    """Rules and panels of other subjects read them: the habit of an application, the error budget."""
    off = settings([f"{alert.name}.enabled=false" for alert in subject.alerts()], table.names())
    kept = {rule["record"] for group in groups(off) for rule in group["rules"] if "record" in rule}
    assert kept == {record.name for record in table.records()}


def test_links_severities_and_waits_are_settable() -> None:
    ours = settings(
        [
            "runbook_url=https://wiki.example.com/eos/",
            "KafkaEosTransactionTimeouts.enabled=false",
            "KafkaEosProducerFenced.severity=critical",
            "KafkaEosSourceDown.for=1h",
            "KafkaEosSourceDown.keep_firing_for=2h",
        ],
        table.names(),
    )
    written = yaml.safe_load(rules_file(ours))
    assert written == {"groups": groups(ours)}
    every = [rule for group in written["groups"] for rule in group["rules"] if "alert" in rule]
    rules = {rule["alert"]: rule for rule in reversed(every)}
    assert (
        rules["KafkaEosLsoStalled"]["annotations"]["runbook_url"] == "https://wiki.example.com/eos/KafkaEosLsoStalled"
    )
    assert "KafkaEosTransactionTimeouts" not in rules
    assert rules["KafkaEosProducerFenced"]["labels"]["severity"] == Severity.CRITICAL
    assert (rules["KafkaEosSourceDown"]["for"], rules["KafkaEosSourceDown"]["keep_firing_for"]) == ("1h", "2h")


def test_a_runbook_is_a_page_of_the_agent_where_its_address_is_set_unless_the_agent_is_gone() -> None:
    made = groups(settings(["page_url=https://eos.example.com/"], table.names()))
    rules = [rule for group in made for rule in group["rules"] if "alert" in rule]
    pages = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules}
    assert pages.pop("KafkaEosExporterAbsent") == f"{Settings().runbook_url}/KafkaEosExporterAbsent.md"
    assert pages == {name: f"https://eos.example.com/runbooks/{name}" for name in pages}


def test_every_wrong_setting_is_reported_at_once() -> None:
    wrong = ["stall_warning=10m", "nonsense=1", "KafkaEosNothing.for=5m", "KafkaEosLsoStalled.for=soon", "page_url"]
    with pytest.raises(SettingsError) as error:
        settings(wrong, table.names())
    assert [line.split(":")[0] for line in str(error.value).splitlines()] == wrong


@pytest.mark.parametrize("severity", ["none", "page", ""])
def test_a_severity_whose_alerts_nobody_would_get_is_refused(severity: str) -> None:
    with pytest.raises(SettingsError, match="is critical or warning"):
        settings([f"KafkaEosProducerFenced.severity={severity}"], table.names())


def test_the_severity_of_an_alert_in_two_severities_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"KafkaEosLsoStalled\.severity"):
        groups(settings(["KafkaEosLsoStalled.severity=warning"], table.names()))
