"""Foreign JSON: its size in memory, its depth, and unusual numbers and names."""

from __future__ import annotations

import json
import math
import sys
import tracemalloc
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.bounds import json_text
from exporter.bounds.json_text import MOST_DEPTH, MOST_ITEMS_AT_ONCE, JsonError, parse_json, weight

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**42), 10**42) | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


def printable(value: Any) -> Any:
    """As ``parse_json`` should give it: with lone surrogates written out, and very long numbers as floats."""
    if isinstance(value, int) and len(str(abs(value))) > 40:
        return float(value)
    if isinstance(value, str):
        return "".join(f"\\u{ord(text):04x}" if "\ud800" <= text <= "\udfff" else text for text in value)
    if isinstance(value, list):
        return [printable(member) for member in value]
    if isinstance(value, dict):
        return {printable(key): printable(member) for key, member in value.items()}
    return value


@given(json_values, st.booleans())
def test_what_is_written_is_read_back(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    if not ascii_only and any("\ud800" <= letter <= "\udfff" for letter in text):
        return  # no UTF-8 has it
    assert parse_json(text.encode()) == printable(value)
    with patch.object(json_text, "MOST_ITEMS_AT_ONCE", -1):
        assert parse_json(text.encode()) == printable(value)


def test_a_document_of_more_items_than_its_reader_takes_is_not_parsed() -> None:
    assert parse_json(b"[1,2,3]", most_commas=2) == [1, 2, 3]
    with pytest.raises(JsonError, match="it has more than 2 items"):
        parse_json(b"[1,2,3,no JSON", most_commas=2)


@given(st.lists(st.sampled_from(["\\", "\\ud800", "\\uDC00", "\\udbff", "\\u0041", "a", "u", "d800", '\\"', "\\n"])))
def test_lone_surrogates_become_text_and_nothing_else_changes(parts: list[str]) -> None:
    content = f'"{"".join(parts)}"'
    try:
        expected = printable(json.loads(content))
    except ValueError:
        with pytest.raises(JsonError):
            parse_json(content.encode())
    else:
        found = parse_json(content.encode())
        assert found == expected
        found.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b'"\xed\xa0\x80"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1]x",
        b"\x00",
        '"é"'.encode("utf-16"),
    ],
)
def test_bytes_that_are_no_json_are_one_fault(content: bytes) -> None:
    for most in (MOST_ITEMS_AT_ONCE, -1):
        with (
            patch.object(json_text, "MOST_ITEMS_AT_ONCE", most),
            pytest.raises(JsonError, match="is no JSON"),
        ):
            parse_json(content)


def test_depth_is_bounded() -> None:
    assert parse_json(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH)
    with pytest.raises(JsonError, match="deep"):
        parse_json(b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1))


@pytest.mark.parametrize(
    ("digits", "value"), [("9" * 401, math.inf), ("-" + "9" * 5000, -math.inf), ("1e999", math.inf)]
)
def test_a_number_beyond_a_float_is_infinite(digits: str, value: float) -> None:
    assert parse_json(f'{{"a": {digits}, "b": 7}}'.encode()) == {"a": value, "b": 7}
    assert isinstance(parse_json(b"9" * 40), int)


BOMBS = {
    "lists": b"[" + b"[]," * 100_000 + b"[]]",
    "objects": b"[" + b"{}," * 100_000 + b"{}]",
    "objects of one": b"[" + b'{"a":0},' * 60_000 + b"{}]",
    "numbers": b"[" + b"1.5," * 200_000 + b"1]",
    "large numbers": b"[" + b"9" * 40 + (b"," + b"9" * 40) * 20_000 + b"]",
    "texts": b"[" + b'"ab",' * 200_000 + b"1]",
    "keys": b"{" + b",".join(b'"%d":%d' % (number, number + 1000) for number in range(200_000)) + b"}",
    "one wide character": ('"😀' + "a" * 1_000_000 + '"').encode(),
    "escapes": b'"' + b"\\u1234" * 200_000 + b'"',
    "newlines": b'"' + b"\\n" * 400_000 + b'"',
    "surrogates": b'"' + b"\\ud800" * 200_000 + b'"',
}


@pytest.mark.parametrize("name", BOMBS)
def test_nothing_takes_more_memory_than_it_is_weighed(name: str) -> None:
    content = BOMBS[name]
    tracemalloc.start()
    try:
        parse_json(content, 2**40)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= weight(content) * 1.05
    with pytest.raises(JsonError, match="memory"):
        parse_json(content, weight(content) - 1)


@pytest.mark.parametrize("other", [0, 10**40])
def test_a_sign_is_no_digit_whatever_else_the_document_has(other: int) -> None:
    number, _ = parse_json(json.dumps([-(10**39), other]).encode())
    assert number == -(10**39)
    assert isinstance(number, int)


def test_a_large_object_has_the_order_and_the_last_values_that_the_parser_in_c_gives() -> None:
    inner = ",".join(f'"k{number % 15_000}": [{number}, {{"a": {number}, "a": 7}}]' for number in range(20_000))
    content = f'{{"first": 1, {inner}}}'.encode()
    assert content.count(b",") > MOST_ITEMS_AT_ONCE
    found = parse_json(content)
    assert list(found.items()) == list(json.loads(content).items())


def test_an_object_is_made_of_few_pairs_at_once() -> None:
    taken = []

    class Pairs(list[tuple[str, int]]):
        def __getitem__(self, at: Any) -> Any:
            part = super().__getitem__(at)
            taken.append(len(part))
            return part

    pairs = Pairs((f"k{number}", number) for number in range(2500))
    assert list(json_text._object(pairs)) == [f"k{number}" for number in range(2500)]
    assert taken == [1000, 1000, 500]
    assert not pairs


@pytest.mark.parametrize(
    ("items", "least"), [(MOST_ITEMS_AT_ONCE - 1, 0), (MOST_ITEMS_AT_ONCE + 2, MOST_ITEMS_AT_ONCE)]
)
def test_other_threads_may_run_after_every_item_of_a_long_document(items: int, least: int) -> None:
    """The interpreter may change threads where a function in Python begins: the parser in C calls none."""
    content = b"{" + b",".join(b'"%d":%d' % (number, number + 1000) for number in range(items)) + b"}"
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        parse_json(content)
    finally:
        sys.setprofile(None)
    assert least <= calls < least * 3 + 100
