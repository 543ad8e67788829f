"""Files of Java properties: names, values, escapes and lines."""

from __future__ import annotations

import pytest

from exporter.bounds.properties_text import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b c ", {"a": "b c "}),
        ("a: b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("# a=b\n! c=d\n\n e=f", {"e": "f"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\=b=c\\u0041\\n", {"a=b": "cA\n"}),
        ("a=", {"a": ""}),
        ("a=\\uD83D\\uDE00\\uD800", {"a": "\U0001f600\ufffd"}),
        ("a=b\\", {"a": "b"}),
        ("bootstrap.servers=k:1,l:2", {"bootstrap.servers": "k:1,l:2"}),
    ],
)
def test_java_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert {entry.name: entry.value for entry in parse_properties(text)} == expected


def test_an_entry_has_the_line_in_which_it_begins() -> None:
    found = [(entry.name, entry.line) for entry in parse_properties("# x\na=1\\\n2\r\nb=3\rc=4")]
    assert found == [("a", 2), ("b", 4), ("c", 5)]
