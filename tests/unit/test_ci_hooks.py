"""The pre-commit hook and the GitHub Action around ``check client``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
[HOOK] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.mark.parametrize(
    ("path", "is_checked"),
    [
        ("src/main/resources/application-prod.yml", True),
        ("producer.properties", True),
        ("connect/connector-orders.json", True),
        ("my_producer.properties", False),
        ("producer.py", False),
    ],
)
def test_the_hook_checks_files_that_are_named_as_settings_usually_are(path: str, is_checked: bool) -> None:
    assert (re.search(HOOK["files"], path) is not None) is is_checked


@pytest.mark.parametrize(("acks", "status"), [("all", 0), ("1", 1)])
def test_the_action_writes_sarif_and_ends_as_the_check_does(tmp_path: Path, acks: str, status: int) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "kafka-eos-exporter" / "bin" / "kafka-eos-exporter"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m exporter "$@"\n')
    command.chmod(0o755)
    (tmp_path / "producer.properties").write_text(f"acks={acks}\ntransactional.id=pay-${{HOSTNAME}}\n")
    inputs = {"FILES": "*.properties", "GOAL": ACTION["inputs"]["for"]["default"], "SARIF": "$(touch x).sarif"}
    done = subprocess.run(
        ["bash", "-e", "-c", ACTION["runs"]["steps"][1]["run"]],
        cwd=tmp_path,
        env={**os.environ, **inputs, "RUNNER_TEMP": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    document = json.loads((tmp_path / "$(touch x).sarif").read_text())
    assert bool(document["runs"][0]["results"]) is bool(status)
    assert not (tmp_path / "x").exists()
    assert "${{" not in ACTION["runs"]["steps"][1]["run"]
