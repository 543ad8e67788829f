from __future__ import annotations

from pathlib import Path

from scripts.release import ENTRY, problems, sections

CHANGELOG = """\
# Changelog

## Unreleased

* [FEATURE] lso: one.

## 0.1.0 / 2026-11-21

* [BUGFIX] web: two.
"""


def test_a_changelog_has_a_section_for_each_version() -> None:
    assert sections(CHANGELOG) == {"Unreleased": "* [FEATURE] lso: one.", "0.1.0": "* [BUGFIX] web: two."}


def test_a_version_with_its_heading_and_nothing_unreleased_can_be_tagged() -> None:
    text = CHANGELOG.replace("* [FEATURE] lso: one.\n", "")
    assert list(problems("0.1.0", text, "0.1.0", set(), "")) == []


def test_everything_that_is_missing_is_named() -> None:
    found = list(problems("0.2.0", CHANGELOG, "0.1.0", set(), " M README.md\n"))
    assert [line.split()[0] for line in found] == [
        "CHANGELOG.md",
        "CHANGELOG.md",
        "helm/kafka-eos-exporter/Chart.yaml",
        "1",
    ]


def test_a_version_is_tagged_once() -> None:
    text = CHANGELOG.replace("* [FEATURE] lso: one.\n", "")
    assert list(problems("0.1.0", text, "0.1.0", {"v0.1.0"}, "")) == [
        "v0.1.0 is tagged already: set the next version in exporter/__init__.py"
    ]


def test_every_entry_of_the_changelog_has_a_kind_and_an_area() -> None:
    found = sections((Path(__file__).parents[3] / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert "0.2.0" in found
    for text in found.values():
        assert text.count("\n* ") + text.startswith("* ") == len(ENTRY.findall(text))
