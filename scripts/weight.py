"""Print the weight of the project: code lines, modules, tests, docs and generated files. ``make weight`` runs it."""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = ("exporter", "alerts", "dashboards")
GENERATED = ("alerts/generated", "dashboards/generated", "docs/schemas", "helm")
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Return the lines of Python source that have code: no blank lines, comments or docstrings."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                docstrings.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def tracked(*folders: str) -> list[Path]:
    """Return the files that git tracks below these folders, links left out."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    paths = [ROOT / name for name in names if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def size(paths: Iterable[Path]) -> str:
    return f"{sum(path.stat().st_size for path in paths) / 1000:,.0f} kB"


def main() -> None:
    modules = [path for path in tracked(*CODE) if path.suffix == ".py"]
    tests = [path for path in tracked("tests") if path.suffix == ".py"]
    pages = [path for path in tracked("docs") if path.suffix == ".md"]
    generated_pages = {"client-settings.md", "configuration.md", "metrics.md"}
    by_hand = [path for path in pages if path.name not in generated_pages]
    generated = [
        path
        for path in tracked(*GENERATED)
        if path.suffix in {".json", ".yaml", ".yml", ".libsonnet"} and "templates" not in path.parts
    ]
    rows = (
        ("code lines of exporter/, alerts/, dashboards/", f"{sum(code_lines(p.read_text()) for p in modules):,}"),
        ("modules", f"{len(modules):,}"),
        ("lines of tests/, all of them", f"{sum(len(p.read_text().splitlines()) for p in tests):,}"),
        ("docs by hand, for users", size(p for p in by_hand if p.parent.name != "internals")),
        ("docs/internals", size(p for p in by_hand if p.parent.name == "internals")),
        ("generated rules, boards and schemas", size(generated)),
    )
    for name, value in rows:
        print(f"{name:<55}{value:>10}")


if __name__ == "__main__":
    main()
