"""Names that must be found by one search: classes of the package, the demo, the tests and the scripts."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CLASS = re.compile(r"\s*class (\w+)(?:\(.*|:.*)$")


def classes(folder: Path, root: Path = ROOT) -> dict[str, list[str]]:
    """Every class below a folder: its places by its name."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("*.py")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if match := _CLASS.match(line):  # as a search finds it; a syntax tree of all files takes seconds
                found.setdefault(match[1], []).append(f"{file.relative_to(root)}:{number}")
    return found


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for folder in ("exporter", "alerts", "dashboards", "demo", "testkit", "tests", "scripts"):
        for name, where in classes(ROOT / folder).items():
            places.setdefault(name, []).extend(where)
    assert len(places) > 700
    twice = {name: where for name, where in places.items() if len(set(where)) > 1}
    assert twice == {}, "rename one of them: a search for a name leads to one class"


def test_a_name_that_is_used_twice_is_found_with_its_places(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("class Twice:\n    class Once: ...\n" if name == "a.py" else "class Twice: ...\n")
    assert {name: len(where) for name, where in classes(tmp_path, tmp_path).items()} == {"Twice": 2, "Once": 1}


BEYOND_ONE_MODULE = {
    "alerts/test_pages_without_subject.py": "what is said when the subject of a page is absent",
    "applications/test_id_forms.py": "ids of forty products, and their applications",
    "core/test_clocks.py": "which modules read the wall clock",
    "dashboards/test_dashboards.py": "all dashboards",
    "dashboards/test_linter_rules.py": "all dashboards, by the rules of Grafana's linter",
    "posture/test_absent_subjects.py": "what each surface says of subjects that are not there",
    "status/test_runbook_pages.py": "runbooks as HTML",
    "test_ci_hooks.py": "the pre-commit hook and the GitHub Action",
    "test_distribution.py": "the wheel",
    "test_main.py": "python -m exporter",
    "test_names.py": "names of classes and tests",
    "test_systemd_unit.py": "the systemd unit",
}
"""Unit tests that belong to no single module, each with its subject."""


def strays(tests: Path, roots: tuple[Path, ...]) -> set[str]:
    """Test modules without a module: ``room/test_STEM.py`` and ``room/test_STEM_ASPECT.py`` need ``room/STEM.py``."""
    found = set()
    for file in tests.rglob("test_*.py"):
        room, name = file.parent.relative_to(tests), file.stem.removeprefix("test_")
        parts = name.split("_")
        stems = ["_".join(parts[:count]) for count in range(1, len(parts) + 1)]
        modules = [root / room / stem for root in roots for stem in stems]
        if not any(module.with_suffix(".py").is_file() or module.is_dir() for module in modules):
            found.add(str(file.relative_to(tests)))
    return found


def test_unit_tests_mirror_the_tree() -> None:
    found = strays(ROOT / "tests" / "unit", (ROOT / "exporter", ROOT, ROOT / "tests"))
    assert found == BEYOND_ONE_MODULE.keys() & found, "not a test of a module beside it: rename it, or name its subject"
    assert BEYOND_ONE_MODULE.keys() <= found, "listed, and it has a module now"


def test_a_test_without_its_module_is_found(tmp_path: Path) -> None:
    for path in (
        "exporter/lso/rules.py",
        "unit/lso/test_rules.py",
        "unit/lso/test_rules_model.py",
        "unit/lso/test_x.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert strays(tmp_path / "unit", (tmp_path / "exporter",)) == {"lso/test_x.py"}


def definitions(file: Path) -> set[str]:
    """Functions and classes of a module; methods as ``Class.method``."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = {node.name for node in tree.body if isinstance(node, kinds)}
    for owner in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        found |= {f"{owner.name}.{node.name}" for node in owner.body if isinstance(node, kinds)}
    return found


def test_the_functions_of_the_walks_in_the_architecture_exist() -> None:
    section = (
        (ROOT / "docs" / "internals" / "architecture.md")
        .read_text(encoding="utf-8")
        .split("## The path of two values")[1]
        .split("\n## ")[0]
    )
    lines = re.findall(r"^([a-z_/]+\.py) +((?:[A-Za-z_.]+, )*[A-Za-z_.]+)", section, re.MULTILINE)
    assert len(lines) > 20
    missing = {
        f"{path}: {name}" for path, names in lines for name in names.split(", ")
        if name not in definitions(ROOT / "exporter" / path)
    }  # fmt: skip
    assert missing == set()
