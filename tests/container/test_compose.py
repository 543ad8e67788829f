"""demo/compose.yaml, as far as it can be judged without an engine: by Compose's own loader, and file by file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.cli import parser
from testkit.jars import DEFAULT_VERSION

ROOT = Path(__file__).parents[2]
FILE = ROOT / "demo" / "compose.yaml"
RUN_SECONDS = 120


def load(tools: Path, file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tools / "compose", file], capture_output=True, text=True, timeout=RUN_SECONDS, check=False)


@pytest.fixture(scope="module")
def project(tools: Path) -> dict[str, Any]:
    done = load(tools, FILE)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded: dict[str, Any] = yaml.safe_load(done.stdout)
    return loaded


def test_a_misspelt_key_is_refused(tools: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("cap_drop:", "cap_dropp:"))
    assert "cap_dropp" in load(tools, wrong).stdout


def test_all_that_is_mounted_is_there(project: dict[str, Any]) -> None:
    mounts = [volume for service in project["services"].values() for volume in service.get("volumes", ())]
    binds = [mount for mount in mounts if mount["type"] == "bind"]
    assert len(binds) == 6
    for bind in binds:
        assert Path(bind["source"]).exists(), bind["source"]
        assert bind["read_only"]


def test_nothing_is_reached_from_other_machines(project: dict[str, Any]) -> None:
    ports = [port for service in project["services"].values() for port in service.get("ports", ())]
    assert ports
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}


def test_images_are_pinned_and_kafka_is_the_tested_one(project: dict[str, Any]) -> None:
    images = {name: service["image"] for name, service in project["services"].items() if "image" in service}
    assert images["kafka"] == f"apache/kafka:{DEFAULT_VERSION}"
    for image in images.values():
        assert image.partition(":")[2].strip("v").count(".") == 2, image


def test_the_agent_is_built_here_and_as_confined_as_it_may_be(project: dict[str, Any]) -> None:
    agent = project["services"]["kafka-eos-exporter"]
    assert Path(agent["build"]["context"]) == ROOT
    assert parser().parse_args(agent["command"])
    assert (agent["read_only"], agent["cap_drop"]) == (True, ["ALL"])


def test_prometheus_scrapes_the_agent_and_takes_the_rules(project: dict[str, Any], tmp_path: Path) -> None:
    mounts = {volume["target"]: volume["source"] for volume in project["services"]["prometheus"]["volumes"]}
    text = Path(mounts["/etc/prometheus/prometheus.yml"]).read_text()
    for inside, outside in mounts.items():
        text = text.replace(inside, outside)
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    done = subprocess.run(["promtool", "check", "config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout
    config = yaml.safe_load(text)
    targets = [*config["scrape_configs"], *config["alerting"]["alertmanagers"]]
    for target in targets:
        [address] = target["static_configs"][0]["targets"]
        assert address.partition(":")[0] in project["services"]


def test_grafana_finds_its_source_and_the_dashboards(project: dict[str, Any]) -> None:
    grafana = project["services"]["grafana"]
    mounts = {volume["target"]: Path(volume["source"]) for volume in grafana["volumes"]}
    [source] = yaml.safe_load(next(mounts["/etc/grafana/provisioning/datasources"].iterdir()).read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    [provider] = yaml.safe_load(next(mounts["/etc/grafana/provisioning/dashboards"].iterdir()).read_text())["providers"]
    folder = mounts[provider["options"]["path"]]
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (folder / home.name).exists()
