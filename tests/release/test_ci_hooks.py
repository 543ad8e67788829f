"""The GitHub Action and the pre-commit hook around ``check client``, by all of their steps, from a clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PRE_COMMIT = "pre-commit==4.7.0"
SECONDS = 900
GOOD, BAD = "acks=all\ntransactional.id=pay-${HOSTNAME}\n", "acks=1\ntransactional.id=pay-1\n"


def run(folder: Path, *words: str, status: int = 0, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone, as pip leaves files of its build in the folder that it installs."""
    folder = tmp_path_factory.mktemp("source")
    run(folder, "git", "clone", "--quiet", str(ROOT), str(folder))
    return folder


@pytest.mark.proof
def test_the_action_installs_itself_and_finds_what_is_wrong(source: Path, tmp_path: Path) -> None:
    action = yaml.safe_load((source / "action.yml").read_text())
    install, check = (step["run"] for step in action["runs"]["steps"])
    (tmp_path / "producer.properties").write_text(BAD)
    given = {name: setting.get("default", "") for name, setting in action["inputs"].items()}
    environment = {"ACTION": str(source), "RUNNER_TEMP": str(tmp_path / "temp")}
    environment |= {"FILES": "*.properties", "GOAL": given["for"], "SARIF": given["sarif"]}
    run(tmp_path, "bash", "-e", "-c", install, environment=environment)
    assert "acks-not-all" in run(tmp_path, "bash", "-e", "-c", check, status=1, environment=environment)
    found = json.loads((tmp_path / given["sarif"]).read_text())["runs"][0]["results"]
    assert [result["ruleId"] for result in found] == ["acks-not-all"]


@pytest.mark.proof
@pytest.mark.timeout(2 * SECONDS)
def test_the_hook_stops_a_commit_of_wrong_settings_only(source: Path, tmp_path: Path) -> None:
    run(tmp_path, sys.executable, "-m", "venv", "venv")
    run(tmp_path, "venv/bin/pip", "install", "--quiet", PRE_COMMIT)
    project, cached = tmp_path / "project", {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
    project.mkdir()
    run(project, "git", "init", "--quiet")

    def checked(settings: str, status: int) -> str:
        (project / "producer.properties").write_text(settings)
        run(project, "git", "add", "producer.properties")
        words = ("try-repo", str(source), "kafka-eos-check-client")
        command = str(tmp_path / "venv" / "bin" / "pre-commit")
        return run(project, command, *words, status=status, environment=cached)

    assert "acks-not-all" in checked(BAD, 1)
    assert "Passed" in checked(GOOD, 0)
