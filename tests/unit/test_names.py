"""Names that must be found by one search: classes of the package, the demo, the tests and the scripts."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def classes(folder: Path, root: Path = ROOT) -> dict[str, list[str]]:
    """Every class below a folder: its places by its name."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{file.relative_to(root)}:{node.lineno}")
    return found


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for folder in ("exporter", "alerts", "dashboards", "demo", "tests", "scripts"):
        for name, where in classes(ROOT / folder).items():
            places.setdefault(name, []).extend(where)
    assert len(places) > 700
    assert {name: where for name, where in places.items() if len(set(where)) > 1} == {}


def test_a_name_that_is_used_twice_is_found_with_its_places(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("class Twice:\n    class Once: ...\n" if name == "a.py" else "class Twice: ...\n")
    assert {name: len(where) for name, where in classes(tmp_path, tmp_path).items()} == {"Twice": 2, "Once": 1}
