"""What the distribution says of itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from exporter import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_in_the_wheel() -> None:
    tops = ("alerts", "dashboards", "exporter")
    folders = {file.parent.relative_to(ROOT) for top in tops for file in (ROOT / top).rglob("*.py")}
    assert {".".join(folder.parts) for folder in folders} == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_dependency_has_its_tested_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {_canonical(line.partition("==")[0]) for line in lines if "==" in line}
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    names = {_canonical(re.split(r"[=<>~!\[; ]", each)[0]) for each in wanted}
    assert names - {project["name"]} <= pinned


def test_no_lock_holds_an_address() -> None:
    assert "://" not in (ROOT / "constraints.txt").read_text()


def test_the_make_targets_that_the_readme_shows_are_there() -> None:
    shown = set(re.findall(r"(?:^|`)make ([a-z0-9]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z0-9]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= shown <= targets


def test_the_version_is_a_plain_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
