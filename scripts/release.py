"""Print the tag that a release of this checkout would get, and what is missing: ``python -m scripts.release``.

Changes nothing. Exit code 0: it can be tagged; 1: something is missing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from exporter import __version__

ROOT = Path(__file__).parents[1]
HEADING = re.compile(r"^## (?P<name>Unreleased|\d+\.\d+\.\d+ / \d{4}-\d{2}-\d{2})$", re.MULTILINE)
ENTRY = re.compile(r"^\* \[(CHANGE|FEATURE|ENHANCEMENT|BUGFIX|SECURITY)\] [\w, -]+: ", re.MULTILINE)


def sections(changelog: str) -> dict[str, str]:
    """Return the text below each heading: ``Unreleased``, or a version without its date."""
    parts = HEADING.split(changelog)
    return {name.partition(" / ")[0]: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def problems(version: str, changelog: str, chart: str, tags: set[str], changed: str) -> Iterator[str]:
    """Yield a sentence for each thing that keeps this version from being tagged.

    ``chart`` is the chart's appVersion, ``changed`` the output of ``git status --porcelain``.
    """
    found = sections(changelog)
    if version not in found:
        yield f"CHANGELOG.md has no heading `## {version} / YYYY-MM-DD`"
    elif f"v{version}" in tags:
        yield f"v{version} is tagged already: set the next version in exporter/__init__.py"
    if entries := len(ENTRY.findall(found.get("Unreleased", ""))):
        yield f"CHANGELOG.md has {entries} entries under Unreleased: move them below the version's heading"
    if chart != version:
        yield f"helm/kafka-eos-exporter/Chart.yaml has appVersion {chart}"
    if changed:
        yield f"{len(changed.splitlines())} files have changes that are not committed"


def main() -> int:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    chart = yaml.safe_load((ROOT / "helm/kafka-eos-exporter/Chart.yaml").read_text(encoding="utf-8"))
    missing = list(
        problems(
            __version__,
            changelog,
            str(chart["appVersion"]),
            set(_git("tag", "--list").split()),
            _git("status", "--porcelain"),
        )
    )
    print(f"would tag v{__version__} at {_git('rev-parse', '--short', 'HEAD').strip()}")
    print(sections(changelog).get(__version__, ""))
    for line in missing:
        print(f"not yet: {line}", file=sys.stderr)
    return 1 if missing else 0


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
