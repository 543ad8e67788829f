"""JSON with a line for each item."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from exporter.status.json_lines import json_lines

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4), st.integers(0, 6))
def test_any_document_is_read_as_it_was(document: dict[str, Any], levels: int) -> None:
    assert json.loads(json_lines(document, levels)) == document


def test_items_of_the_outermost_levels_have_lines_and_the_others_do_not() -> None:
    document = {"a": [{"b": [1, 2], "c": {}}, {"d": "\n"}], "e": [], "f": {"g": 1}}
    assert json_lines(document, 2).decode() == (
        '{\n "a": [\n  {"b": [1, 2], "c": {}},\n  {"d": "\\n"}\n ],\n "e": [],\n "f": {\n  "g": 1\n }\n}'
    )


def test_a_lone_surrogate_is_replaced() -> None:
    assert json_lines({"a": "\ud800x"}, 1).decode() == '{\n "a": "\N{REPLACEMENT CHARACTER}x"\n}'


def test_characters_that_do_not_print_are_escaped_and_read_as_they_were() -> None:
    hostile = {"id\u202e": ["\x1b[2J", "\x7f\x9b", "\u2028\u2066\u200b", "\U000e0041", "żółć 😀"]}
    for levels in range(3):
        content = json_lines(hostile, levels).decode()
        assert content.replace("\n", "").isprintable()
        assert json.loads(content) == hostile
        assert "żółć 😀" in content
