"""The queries of the dashboards, by promtool: all are PromQL, and firing alerts have their instants."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import yaml

from exporter.dashboards.generate import GENERATED, files


def _plain(expr: str) -> str:
    return re.sub(r"\$[a-z_]\w*", ".*", expr.replace("$__rate_interval", "1m"))


def _promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_every_query(tmp_path: Path) -> None:
    asked = [
        _plain(target["expr"])
        for text in files().values()
        for panel in json.loads(text)["panels"]
        for target in panel.get("targets", ())
    ]
    assert len(asked) > 150
    rules = [{"record": f"x:y{place}", "expr": expr} for place, expr in enumerate(asked)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "a", "rules": rules}]}))
    _promtool("check", "rules", path)


def test_a_firing_alert_has_the_instant_of_its_condition_and_a_pending_one_has_no_row(tmp_path: Path) -> None:
    (panel,) = (
        panel
        for panel in json.loads(files()[GENERATED / "kafka-eos-overview.json"])["panels"]
        if panel["title"] == "Which alerts fire?"
    )
    firing = 'alertname="KafkaEosTaskFailed", severity="warning", kafka_cluster="prod", connect="etl", task="3"'
    pending = 'alertname="KafkaEosLsoStalled", severity="critical", kafka_cluster="prod", topic="orders"'
    given = [
        {"series": f'ALERTS{{{firing}, alertstate="firing"}}', "values": "1x60"},
        {"series": f'ALERTS{{{pending}, alertstate="pending"}}', "values": "1x60"},
        {"series": f"ALERTS_FOR_STATE{{{firing}}}", "values": "100x60"},
        {"series": f"ALERTS_FOR_STATE{{{pending}}}", "values": "200x60"},
    ]
    row = "{" + firing.replace('task="3"', 'task="task 3"') + ', subject="etl  task 3"}'
    asked = [
        {"expr": _plain(target["expr"]), "eval_time": "10m", "exp_samples": [{"labels": row, "value": value}]}
        for target, value in zip(panel["targets"], (1, 100_000), strict=True)
    ]
    path = tmp_path / "test.yaml"
    test = {"interval": "1m", "input_series": given, "promql_expr_test": asked}
    path.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    _promtool("test", "rules", path)


def _value(board: str, title: str, series: list[str], value: float | None, tmp_path: Path) -> None:
    """Hold a number of a dashboard, None where it has none, with these series, each with the value 1."""
    panels = json.loads(files()[GENERATED / f"{board}.json"])["panels"]
    (panel,) = (found for found in panels if found["title"] == title)
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    asked = [{"expr": _plain(panel["targets"][0]["expr"]), "eval_time": "10m", "exp_samples": samples}]
    given = [{"series": one, "values": "1x60"} for one in series]
    path = tmp_path / "test.yaml"
    test = {"interval": "1m", "input_series": given, "promql_expr_test": asked}
    path.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    _promtool("test", "rules", path)


def test_topics_of_one_name_in_two_clusters_are_two(tmp_path: Path) -> None:
    verdict = 'kafka_eos_audit_verdict{job="a", instance="b", audit="hourly", topic="orders", verdict="findings"'
    series = [f'{verdict}, kafka_cluster="{cluster}"}}' for cluster in ("eu", "us")]
    _value("kafka-eos-jobs", "Topics with findings", series, 2, tmp_path)


def test_a_fatal_producer_without_transactions_is_counted_and_one_with_them_once(tmp_path: Path) -> None:
    title, of = "Fatal librdkafka clients", 'job="a", instance="b", kafka_cluster="eu", target="t"'
    plain = f'kafka_eos_producer_idempotence_state{{{of}, client_id="plain", state="%s"}}'
    _value("kafka-eos-clients", title, [], None, tmp_path)
    _value("kafka-eos-clients", title, [plain % "assigned"], 0, tmp_path)
    _value("kafka-eos-clients", title, [plain % "fatal_error"], 1, tmp_path)
    both = [
        f'kafka_eos_producer_{kind}_state{{{of}, client_id="pay", state="fatal_error"}}'
        for kind in ("txn", "idempotence")
    ]
    _value("kafka-eos-clients", title, [plain % "fatal_error", *both], 2, tmp_path)


def test_series_that_no_cap_keeps_out_are_0_and_unknown_without_an_agent(tmp_path: Path) -> None:
    up = 'kafka_eos_source_up{job="a", instance="b", kafka_cluster="eu", source="lso", target="eu"}'
    _value("kafka-eos-agent", "Series kept out by a cap", [up], 0, tmp_path)
    _value("kafka-eos-agent", "Series kept out by a cap", [], None, tmp_path)


def test_the_table_of_agents_has_a_row_for_each_agent_and_cluster_with_its_page_where_it_is_set(tmp_path: Path) -> None:
    (panel,) = (
        panel
        for panel in json.loads(files()[GENERATED / "kafka-eos-overview.json"])["panels"]
        if panel["title"] == "Which agents answer, and where are their pages?"
    )
    build = 'version="1.0", revision="abc", python="3.11", job="eos"'
    page = "https://eos.example.com"
    series = {
        'kafka_eos_source_up{kafka_cluster="prod", source="lso", target="prod", job="eos", instance="a"}': "1x60",
        'kafka_eos_source_up{kafka_cluster="prod", source="groups", target="prod", job="eos", instance="a"}': "0x60",
        'kafka_eos_source_up{kafka_cluster="prod", source="lso", target="prod", job="eos", instance="b"}': "1x60",
        'kafka_eos_source_up{kafka_cluster="test", source="lso", target="test", job="eos", instance="b"}': "1x60",
        f'kafka_eos_exporter_build_info{{{build}, external_url="{page}", instance="a"}}': "1x60",
        f'kafka_eos_exporter_build_info{{{build}, external_url="", instance="b"}}': "1x60",
    }
    rows = {
        f'{{kafka_cluster="prod", job="eos", instance="a", version="1.0", external_url="{page}"}}': 0,
        '{kafka_cluster="prod", job="eos", instance="b", version="1.0"}': 1,
        '{kafka_cluster="test", job="eos", instance="b", version="1.0"}': 1,
    }
    (target,) = panel["targets"]
    samples = [{"labels": labels, "value": value} for labels, value in rows.items()]
    asked = [{"expr": _plain(target["expr"]), "eval_time": "10m", "exp_samples": samples}]
    given = [{"series": name, "values": values} for name, values in series.items()]
    path = tmp_path / "test.yaml"
    test = {"interval": "1m", "input_series": given, "promql_expr_test": asked}
    path.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    _promtool("test", "rules", path)
