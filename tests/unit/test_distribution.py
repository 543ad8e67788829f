"""The metadata of the distribution."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import bcrypt
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from exporter import __version__
from exporter.config import ConfigSource
from exporter.web_server.config import read_web_config
from scripts.lowest import EXTRAS, lowest
from testkit.certificates import Authority

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_in_the_wheel() -> None:
    linked = (ROOT / "exporter" / name for name in ("", "alerts", "dashboards"))  # rglob follows no links
    folders = {file.parent.relative_to(ROOT) for top in linked for file in top.rglob("*.py")}
    assert {".".join(folder.parts) for folder in folders} == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_file_of_data_is_in_the_wheel() -> None:
    data = PROJECT["tool"]["setuptools"]["package-data"]
    patterns = [f"{package.replace('.', '/')}/{glob}" for package, globs in data.items() for glob in globs]
    linked = (ROOT / "exporter" / name for name in ("", "alerts", "dashboards"))
    files = {file.relative_to(ROOT) for top in linked for file in top.rglob("*.*") if file.is_file()}
    of_data = [file for file in files if file.suffix not in {".py", ".pyc"}]
    assert of_data
    assert [str(file) for file in of_data if not any(map(file.match, patterns))] == []


def test_the_file_that_the_build_runs_needs_nothing_else() -> None:
    run = "import runpy, sys; print(runpy.run_path(sys.argv[1])['revision'].__name__)"
    file = ROOT / "exporter" / "exposition" / "revision.py"
    assert str(file.name) in (ROOT / "setup.py").read_text()
    done = subprocess.run([sys.executable, "-I", "-S", "-c", run, str(file)], capture_output=True, check=True)
    assert done.stdout == b"revision\n"


def test_every_dependency_has_its_tested_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {_canonical(line.partition("==")[0]) for line in lines if "==" in line}
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(requirement for extra in project["optional-dependencies"].values() for requirement in extra),
    ]
    names = {_canonical(re.split(r"[=<>~!\[; ]", requirement)[0]) for requirement in wanted}
    assert names - {project["name"]} <= pinned


def test_libraries_have_ranges_that_hold_the_tested_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {canonicalize_name(pin.name): pin.specifier for line in lines if "==" in line for pin in [Requirement(line)]}
    project = PROJECT["project"]
    libraries = [*project["dependencies"], *(project["optional-dependencies"][extra] for extra in EXTRAS)]
    for line in (requirement for given in libraries for requirement in ([given] if isinstance(given, str) else given)):
        wanted = Requirement(line)
        assert not [specifier for specifier in wanted.specifier if specifier.operator == "=="], line
        [tested] = pins[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(tested.version), line


def test_a_library_without_a_lower_bound_is_refused() -> None:
    project = "[project]\ndependencies = [{}]\noptional-dependencies = {{}}\n"
    assert list(lowest(project.format('"a>=1.2,<2", "b==3"'), ())) == ["a==1.2", "b==3"]
    with pytest.raises(ValueError, match="needs one lower bound"):
        list(lowest(project.format('"a<2"'), ()))


def test_the_package_and_the_chart_say_where_they_come_from() -> None:
    project = PROJECT["project"]
    chart = yaml.safe_load((ROOT / "helm" / "kafka-eos-exporter" / "Chart.yaml").read_text())
    assert project["authors"]
    assert (
        f"Programming Language :: Python :: {project['requires-python'].removeprefix('>=')}" in project["classifiers"]
    )
    assert chart["home"] == project["urls"]["Homepage"]
    assert chart["sources"] == [chart["home"]]
    assert chart["maintainers"]


def test_no_lock_holds_an_address() -> None:
    assert "://" not in (ROOT / "constraints.txt").read_text()


def test_the_make_targets_that_the_documents_show_are_there() -> None:
    text = "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "docs/internals/release.md"))
    shown = set(re.findall(r"(?:^|`)make ([a-z0-9]+)", text, re.MULTILINE))
    targets = set(re.findall(r"^([a-z0-9]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= shown <= targets


def test_the_readme_is_at_most_12_kb() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 12_000


def test_every_link_of_the_documents_leads_to_a_file() -> None:
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    for document in documents:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text()):
            assert "://" in link or (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_example_of_all_settings_is_complete_and_can_be_used(tmp_path: Path) -> None:
    example = (EXAMPLES / "all-settings.yml").read_text()
    for name in ("password", "ingest-token"):
        (tmp_path / name).write_text("made up")
    example = re.sub(r" *ssl\.ca\.location: .*\n", "", example).replace("/etc/kafka-eos-exporter", str(tmp_path))
    file = tmp_path / "config.yml"
    file.write_text(example)
    shown, known = yaml.safe_load(example), yaml.safe_load(ConfigSource(file, {}).printed())
    assert shown.keys() == known.keys()
    assert shown["clusters"][0].keys() == known["clusters"][0].keys()
    for section in ("state", "web", "log"):
        assert shown[section].keys() == known[section].keys()
    for section in ("topics", "lso", "transactions", "groups", "posture"):
        assert shown["clusters"][0][section].keys() == known["clusters"][0][section].keys()


def test_the_example_of_settings_can_be_used() -> None:
    assert ConfigSource(EXAMPLES / "kafka-eos-exporter.yml", {}).load().clusters


def test_the_example_of_who_may_scrape_can_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("tls")
    (tmp_path / "tls.pem").rename(tmp_path / "tls.crt")
    text = (EXAMPLES / "web.yml").read_text()
    file = tmp_path / "web.yml"
    # Both as it is and with what it shows in comments.
    for requirement in (text, re.sub(r"^( *)# (?=rate_limit:|  interval|  burst)", r"\1", text, flags=re.MULTILINE)):
        file.write_text(requirement)
        reading = read_web_config(file)
        assert not reading.problems
        assert reading.config is not None
        assert bcrypt.checkpw(b"change-me", reading.config.users["prometheus"])


def test_the_version_is_a_plain_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
