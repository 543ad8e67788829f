"""Tests of the release that scripts/build-dist left in dist/: installed in an empty environment, and complete."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import __version__
from exporter.alerts.table import names
from exporter.model import Deadline
from testkit.processes import poll
from testkit.settings import free_ports

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
COMMAND = DIST / "venv" / "bin" / "kafka-eos-exporter"
RUN_SECONDS = 120
PACKAGED = ("alerts", "dashboards", "exporter", "pyproject.toml")
LINKED = ("exporter/alerts", "exporter/dashboards")


@pytest.fixture(scope="module")
def wheel() -> zipfile.ZipFile:
    [file] = DIST.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.fixture(scope="module")
def revision(wheel: zipfile.ZipFile) -> str:
    return wheel.read("exporter/REVISION").decode().strip()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder from which no checkout is found."""
    return tmp_path


def run(elsewhere: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        words, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )


def test_the_wheel_holds_one_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"exporter", f"kafka_eos_exporter-{__version__}.dist-info"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name]


def test_every_file_of_ours_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "alerts", "dashboards", "exporter"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    there = (name for name in listed.stdout.splitlines() if (ROOT / name).exists() and name not in LINKED)
    ours = {name if name.startswith("exporter/") else f"exporter/{name}" for name in there}
    assert ours - set(wheel.namelist()) == set()


def test_the_wheel_is_made_from_the_source_distribution(wheel: zipfile.ZipFile) -> None:
    [file] = DIST.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    packaged = {name for name in wheel.namelist() if "dist-info" not in name}
    assert packaged - inside == set()
    assert {"LICENSE", "README.md", "pyproject.toml"} <= inside


def test_the_revision_is_the_commit_unless_there_are_changes(revision: str, elsewhere: Path) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no", "--", *PACKAGED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    if not dirty.stdout:
        assert revision == head.stdout.strip()
    said = run(elsewhere, COMMAND, "--version").stdout
    assert said.startswith(f"kafka-eos-exporter, version {__version__} (revision: {revision[:12]},")


def test_what_is_installed_needs_no_extra(elsewhere: Path) -> None:
    done = run(elsewhere, sys.executable, "-m", "pip", "--python", str(DIST / "venv" / "bin" / "python"), "check")
    assert done.returncode == 0, done.stdout
    rules = run(elsewhere, COMMAND, "generate", "alerts")
    assert "KafkaEosLsoStalled" in rules.stdout, rules.stderr
    for module in ("pyspark", "grafanalib", "pytest"):
        assert run(elsewhere, COMMAND.with_name("python"), "-c", f"import {module}").returncode != 0


@pytest.fixture
def port(elsewhere: Path) -> Iterator[int]:
    [number] = free_ports(1)
    words: list[str | Path] = [
        COMMAND,
        "run",
        "--bootstrap-server",
        "127.0.0.1:1",
        "--web.listen-address",
        f"127.0.0.1:{number}",
    ]
    with subprocess.Popen(words, cwd=elsewhere, stderr=subprocess.DEVNULL) as process:
        try:
            until = Deadline.after(RUN_SECONDS)
            while _get(number, "/-/healthy") is None and process.poll() is None and poll(until, 0.1):
                pass
            yield number
        finally:
            process.terminate()
            process.wait(RUN_SECONDS)


def _get(port: int, path: str) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return None


def test_the_installed_agent_tells_its_build_and_has_its_pages(port: int, revision: str) -> None:
    metrics = _get(port, "/metrics") or ""
    [info] = [line for line in metrics.splitlines() if line.startswith("kafka_eos_exporter_build_info{")]
    assert f'version="{__version__}"' in info
    assert f'revision="{revision[:12]}"' in info
    assert "<html" in (_get(port, "/") or "")
    for name in names():
        assert name in (_get(port, f"/runbooks/{name}") or ""), name


def test_the_bill_of_materials_is_of_the_pinned_versions() -> None:
    [file] = DIST.glob("*.cdx.json")
    bill = json.loads(file.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    component = bill["metadata"]["component"]
    assert (component["name"], component["version"]) == ("kafka-eos-exporter", __version__)
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {_canonical(line.partition("==")[0]): line.partition("==")[2] for line in lines if "==" in line}
    for part in bill["components"]:
        assert pins[_canonical(part["name"])] == part["version"]
        assert part["licenses"], part["name"]
    listed = {_canonical(component["name"]) for component in bill["components"]}
    assert {"confluent-kafka", "kafka-python", "pyyaml", "uvicorn"} <= listed


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
