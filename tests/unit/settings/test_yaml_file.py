"""YAML of settings: texts only, and bounded whatever aliases stand for."""

from __future__ import annotations

import pytest

from exporter.settings.file_text import FileText
from exporter.settings.yaml_file import layer_of


def bomb(leaf: str, level: str) -> str:
    """Eight levels, each ten times the one before."""
    pairs = zip("abcdefgh", "bcdefghi", strict=True)
    return f"a: &a {leaf}\n" + "\n".join(f"{n}: &{n} {level.format(','.join(['*' + p] * 10))}" for p, n in pairs)


def test_scalars_are_the_texts_that_were_written_and_null_is_nothing() -> None:
    layer = layer_of(FileText("x.yml", 'a: 0123\nb: on\nc: ~\nd: [1.50, "\\ud800"]\n~: e\n'))
    assert layer.tree == {"a": "0123", "b": "on", "c": None, "d": ["1.50", "\\ud800"], "": "e"}


def test_anchors_and_merges_are_read() -> None:
    layer = layer_of(FileText("x.yml", "a: &a {k: 1, l: 2}\nb: {<<: *a, l: 3}\nc: *a\n"))
    assert layer.tree == {"a": {"k": "1", "l": "2"}, "b": {"k": "1", "l": "3"}, "c": {"k": "1", "l": "2"}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (bomb("[x,x,x]", "[{}]"), "has more than 20000 nodes, those of aliases counted"),
        (bomb("{k: x, l: x}", "{{<<: [{}]}}"), "has more than 20000 nodes, those of aliases counted"),
        ("a: &a [*a]", "is nested too deeply"),
        ("a: " + "[" * 400 + "]" * 400, "is nested too deeply"),
        ("a: " + "[" * 30 + "]" * 30, "is nested too deeply"),
        ("- a", "must be a mapping of settings, such as `clusters: [...]`"),
    ],
)
def test_what_is_too_much_is_refused(text: str, expected: str) -> None:
    [problem] = layer_of(FileText("x.yml", text)).problems
    assert (problem.text, problem.origin) == (expected, "x.yml")
