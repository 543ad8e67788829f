"""The Dockerfile, by hadolint's rules and by ours."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from exporter.cli import parser
from tests.container.dockerfile import context, lineage, stages

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
STAGES = stages(TEXT)
FINAL = ("agent", "spark")


def hadolint(tools: Path, file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tools / "hadolint", "--no-color", file], capture_output=True, text=True, timeout=120, check=False
    )


def test_hadolint_finds_nothing_and_would(tools: Path, tmp_path: Path) -> None:
    done = hadolint(tools, ROOT / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")
    careless = tmp_path / "Dockerfile"
    careless.write_text(TEXT.replace("FROM ${BASE}", "FROM python:latest"))
    assert "DL3007" in hadolint(tools, careless).stdout


@pytest.mark.parametrize("name", FINAL)
def test_an_image_is_not_root_by_number_and_says_what_it_is(name: str) -> None:
    parts = lineage(STAGES, name)
    # By number: Kubernetes' runAsNonRoot cannot judge a name.
    assert parts[-1].last("USER").value == "10618:10618"
    labels = " ".join(instruction.value for part in parts for instruction in part.all("LABEL"))
    for label in ("title", "description", "licenses", "revision"):
        assert f"org.opencontainers.image.{label}=" in labels


def test_bases_are_pinned_to_a_patch_release() -> None:
    foreign = {stage.base for stage in STAGES.values() if stage.base not in STAGES}
    assert foreign
    for text in foreign:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-slim-[a-z]+", text), text


def test_what_is_installed_is_locked_by_hashes_at_the_versions_of_the_tests() -> None:
    constraints = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text()))
    versions = {_normal(name): version for name, version in constraints.items()}
    files = sorted((ROOT / "docker").glob("requirements*.txt"))
    assert len(files) == 3
    for file in files:
        locked = re.findall(r"(?m)^([\w.-]+)==(\S+)(?: ; .*)? \\\n    --hash=sha256:[0-9a-f]{64}", file.read_text())
        assert len(locked) == len(re.findall("(?m)^[^ #]", file.read_text())), file
        assert {name: version for name, version in locked if versions.get(_normal(name), version) != version} == {}
    runs = " && ".join(instruction.value for stage in STAGES.values() for instruction in stage.all("RUN"))
    installs = re.findall(r"pip [^&]*install [^&]*", runs)
    assert len(installs) == 5
    for install in installs:
        assert "--require-hashes -r" in install or "--no-index --no-deps" in install, install


def _normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def test_nothing_but_the_jobs_image_gets_packages_of_debian() -> None:
    runs = {stage.name: " ".join(instruction.value for instruction in stage.all("RUN")) for stage in STAGES.values()}
    assert [name for name, text in runs.items() if "apt-get" in text] == ["spark"]


def test_what_is_built_by_default_is_the_agent() -> None:
    assert list(STAGES)[-1] == "agent"


def test_the_default_command_is_one_of_ours() -> None:
    words = STAGES["agent"].last("CMD").words
    assert parser().parse_args(words)


def test_only_what_is_copied_is_sent_to_the_engine() -> None:
    sent = context(ROOT, (ROOT / ".dockerignore").read_text())
    copied = {
        word.split("/")[0]
        for stage in STAGES.values()
        for instruction in stage.all("COPY")
        if not instruction.value.startswith("--from")
        for word in instruction.words[:-1]
    }
    assert {name.split("/")[0] for name in sent} == copied
    assert not [name for name in sent if "__pycache__" in name]
