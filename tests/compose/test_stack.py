"""demo/compose.yaml, brought up by Compose: a stall becomes a page in Alertmanager. `make compose` prepares it."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.image.engine import wait

ROOT = Path(__file__).parents[2]
FILE = ROOT / "demo" / "compose.yaml"
RUN_SECONDS = 300
PAGE_SECONDS = 600
pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Stack:
    """The project that is up."""

    words: tuple[str, ...]
    services: dict[str, Any]

    def compose(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self.words, *words], capture_output=True, text=True, timeout=RUN_SECONDS, check=False, cwd=FILE.parent
        )
        assert not check or done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def get(self, service: str, port: int, path: str) -> Any:
        """Return what a service's published port answers: JSON, or else text; None when it does not answer."""
        address = self.compose("port", service, str(port)).strip()
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return None
        try:
            return json.loads(text)
        except ValueError:
            return text


def adapted() -> dict[str, Any]:
    """The file with images that this machine has and ports that are free. Services without an image are left out."""
    images = dict(line.split() for line in os.environ["COMPOSE_IMAGES"].splitlines())
    project: dict[str, Any] = yaml.safe_load(FILE.read_text())
    del project["name"]  # Compose 1 does not know it
    for name, service in list(project["services"].items()):
        if service.pop("build", None):
            service["image"] = os.environ["COMPOSE_AGENT"]
        elif service["image"] in images:
            service["image"] = images[service["image"]]
        else:
            del project["services"][name]
            continue
        service["ports"] = [f"127.0.0.1::{port.rpartition(':')[2]}" for port in service.get("ports", ())]
    return project


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    project = adapted()
    file = tmp_path_factory.mktemp("compose") / "compose.yaml"
    file.write_text(yaml.safe_dump(project))
    command = os.environ["COMPOSE"].split()
    words = (*command, "--project-name", f"eos{os.getpid()}", "--project-directory", str(FILE.parent))
    found = Stack((*words, "--file", str(file)), project["services"])
    try:
        print(found.compose("up", "--detach", "--no-build"))
        yield found
    finally:
        print(found.compose("logs", "--tail=20", check=False)[-6000:])
        found.compose("down", "--volumes", "--timeout", "10", check=False)


def test_the_services_are_those_of_the_file_but_what_no_registry_gives(stack: Stack) -> None:
    whole = set(yaml.safe_load(FILE.read_text())["services"])
    assert whole - set(stack.services) <= {"grafana"}


def test_the_agent_sees_the_broker_and_counts_its_transactions(stack: Stack) -> None:
    def committed() -> bool:
        lines = (stack.get("kafka-eos-exporter", 10618, "/metrics") or "").splitlines()
        mine = [line for line in lines if line.startswith("kafka_eos_transactions_total{")]
        return any('application="orders"' in sample and 'outcome="committed"' in sample for sample in mine)

    wait("committed transactions of orders", committed, 180)


def test_prometheus_scrapes_it_and_has_the_rules(stack: Stack) -> None:
    def up() -> bool:
        found = (stack.get("prometheus", 9090, "/api/v1/targets") or {}).get("data", {}).get("activeTargets", [])
        return [sample["health"] for sample in found] == ["up"]

    wait("the target to be up", up, 120)
    groups = stack.get("prometheus", 9090, "/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 30
    assert all(rule["health"] != "err" for rule in rules)


def test_the_stall_is_a_page_in_alertmanager(stack: Stack) -> None:
    def paged() -> list[dict[str, Any]]:
        return [
            sample
            for sample in stack.get("alertmanager", 9093, "/api/v2/alerts?active=true") or []
            if sample["labels"]["alertname"] == "KafkaEosLsoStalled"
        ]

    [alert, *_] = wait("KafkaEosLsoStalled in Alertmanager", paged, PAGE_SECONDS, 2)
    assert alert["labels"]["kafka_cluster"] == "demo"
    assert "billing-1" in alert["annotations"]["description"]
    assert alert["status"]["state"] == "active"
    assert [receiver["name"] for receiver in alert["receivers"]]
