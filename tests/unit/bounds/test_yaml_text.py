"""Foreign YAML: texts, lists and mappings only."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.bounds.yaml_text import MOST_NODES, YamlError, excess, parse_yaml


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", None),
        ("a: 1", {"a": "1"}),
        ("- 2020-99-99\n- 0x1\n- on", ["2020-99-99", "0x1", "on"]),
        ("a:\nb: '~'", {"a": "", "b": "~"}),
        ("a: &x [b, c]\nd: *x", {"a": ["b", "c"], "d": ["b", "c"]}),
        ("a: !!int 1", {"a": "1"}),
        ("!!python/object:os.system {}", {}),
    ],
)
def test_scalars_are_the_texts_that_were_written(text: str, tree: Any) -> None:
    assert parse_yaml(text) == tree


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[a]: b]", "no JSON or YAML"),
        ("--- a\n--- b", "no JSON or YAML"),
        ("[" * 100_000, "deep"),
        ("a: \x00", "no JSON or YAML"),
        ("{", "no JSON or YAML"),
        ("*a", "no JSON or YAML"),
        ("[" + "a," * MOST_NODES + "]", str(MOST_NODES)),
    ],
)
def test_anything_else_is_one_fault(text: str, why: str) -> None:
    with pytest.raises(YamlError, match=why):
        parse_yaml(text)


def test_aliases_take_no_more_memory_than_they_are_long() -> None:
    rows = ["- &a0 [a, a, a, a, a, a, a, a, a, a]"]
    rows += [f"- &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 40)]
    assert len(parse_yaml("\n".join(rows))) == 40


def test_what_is_too_much_is_known_before_it_is_built() -> None:
    assert excess("a: [b, c]", 2, 5) == ""
    assert "deeply" in excess("[[[a]]]", 2, 100)
    assert "nodes" in excess("[a, b, c, d]", 2, 3)
    assert excess("a: [", 5, 5) == "", "what cannot be read is for whoever reads it"
