from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.bounds.text import printable, printable_identity, printable_json

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("\\xuU0123456789abcdef\x1b\u202e\U000e0041")), max_size=20)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a\x1b[31m", r"a\x1b[31m"),
        ("line\nbreak\r\t", r"line\x0abreak\x0d\x09"),
        ("\x7f\x9b31m", r"\x7f\x9b31m"),
        ("\u202egnp.txt\u202c", r"\u202egnp.txt\u202c"),
        ("\u2066isolate\u2069\u200f\u061c", r"\u2066isolate\u2069\u200f\u061c"),
        ("a\u200bb\u200dc\ufeffd\u2060", r"a\u200bb\u200dc\ufeffd\u2060"),
        ("a\u2028b\u2029c\u00a0d", r"a\u2028b\u2029c\xa0d"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("lone \ud800", r"lone \ud800"),
        ("plain żółć 😀 \\d", "plain żółć 😀 \\d"),
    ],
)
def test_what_does_not_print_is_escaped_and_everything_else_is_not(text: str, escaped: str) -> None:
    assert printable(text) == escaped


@given(TEXTS)
def test_escaping_again_changes_nothing(text: str) -> None:
    assert printable(printable(text)) == printable(text)
    assert printable(text).isprintable()


@given(TEXTS, TEXTS)
def test_two_texts_never_become_the_same_identity(one: str, other: str) -> None:
    assert (printable_identity(one) == printable_identity(other)) == (one == other)


def test_a_text_that_looks_like_an_escape_is_another_identity_than_what_it_looks_like() -> None:
    assert printable_identity("\u202e") == r"\u202e"
    assert printable_identity(r"\u202e") == r"\x5cu202e"
    assert printable_identity(r"DOMAIN\user") == r"DOMAIN\user"


@given(st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=5))
def test_json_is_read_as_the_same_values(value: object) -> None:
    line = printable_json(json.dumps(value, ensure_ascii=False))
    assert line.isprintable()
    assert json.loads(line) == value
