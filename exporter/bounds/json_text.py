"""Foreign JSON: its size in memory is limited before it is parsed. Any bytes give a value or a JsonError."""

from __future__ import annotations

import json
import json.scanner
import re
from typing import Any

MOST_WEIGHT = 64 * 1024 * 1024
"""Bytes of memory that one document may take, by ``weight``: about 8 MB of JSON as a Jolokia agent writes it."""

MOST_DEPTH = 64

NO_JSON = "is no JSON"
"""The text of an error for bytes that are not JSON, or not complete."""

MOST_ITEMS_AT_ONCE = 50_000
"""Items of the longest document that the parser in C reads, which holds the interpreter for up to 0.8 µs of each: 250
ms for all that ``MOST_WEIGHT`` allows. Longer ones are read by its form in Python while other threads run. It takes
five to twelve times as long: 90 ms for 1,000 connectors, 210 ms for an audit of 1,500 findings with their examples.
"""

PAIRS_AT_ONCE = 1000

_CONTAINER_BYTES = 200  # a dict with one item, its share of what holds it, and the list that may stand for it
_ITEM_BYTES = 150  # a key, a number or a short text, and their places in a container that is growing
_KEY_BYTES = 80  # a pair in the list of which the parser in Python makes an object
_ESCAPE_BYTES = 136  # a piece of a text that the parser joins
_MOST_DIGITS = 40
_LONG_NUMBER = b"0" * (_MOST_DIGITS + 1)
_DIGITS_AS_ZEROS = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape in a string: a pair of surrogates, a lone one (in group 1), or any other."""


class JsonError(ValueError):
    """The bytes are no JSON, or more of it than is parsed. The text is the end of a sentence, without their content."""


def weight(content: bytes) -> int:
    """Most bytes of memory that parsing takes, counted on the bytes: never less than what Python's objects take."""
    width = 1 if content.isascii() else 4  # one character beyond Latin-1 widens the whole text
    containers = content.count(b"[") + content.count(b"{")
    items, escapes = content.count(b","), content.count(b"\\")
    texts = len(content) * 2 * width
    keys = content.count(b":")
    return texts + containers * _CONTAINER_BYTES + items * _ITEM_BYTES + keys * _KEY_BYTES + escapes * _ESCAPE_BYTES


def parse_json(content: bytes, most_weight: int = MOST_WEIGHT, most_commas: int | None = None) -> Any:  # noqa: ANN401 -- JSON is anything
    r"""The document. Raises JsonError for what is no UTF-8, no JSON, too heavy, or nested beyond ``MOST_DEPTH``, and
    for more than ``most_commas``: what a reader would refuse when it is parsed need not be parsed.

    Lone surrogates become text (``\ud800``). A number of more than 40 digits is a float, infinite beyond its range as
    ``1e999`` is: readers take finite numbers only, so it costs no more than the item that it stands in.
    """
    if weight(content) > most_weight:
        raise JsonError(f"is larger than is read: it would take more than {most_weight // 1024 // 1024} MB of memory")
    commas = content.count(b",")
    if most_commas is not None and commas > most_commas:
        raise JsonError(f"is larger than is read: it has more than {most_commas:,} items")
    try:
        text = content.decode("utf-8-sig")
        if "\\u" in text:
            text = _ESCAPE.sub(_without_lone_surrogate, text)
        # The hook is called for every number: only where one is that needs it.
        number = _number if _LONG_NUMBER in content.translate(_DIGITS_AS_ZEROS) else None
        many = commas > MOST_ITEMS_AT_ONCE
        decoder = json.JSONDecoder(parse_int=number, object_pairs_hook=_object if many else None)
        if many:
            decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]  # of no stub
        document = decoder.decode(text)
    except (ValueError, RecursionError):
        raise JsonError(NO_JSON) from None
    if _deeper(document, MOST_DEPTH):
        raise JsonError(f"is nested more than {MOST_DEPTH} deep")
    return document


def _without_lone_surrogate(match: re.Match[str]) -> str:
    return f"\\\\{match[1].lower()}" if match[1] else match[0]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these pairs, which are removed. ``dict(pairs)`` of 250,000 holds the interpreter for 35 ms."""
    made: dict[str, Any] = {}
    pairs.reverse()
    while pairs:
        made.update(reversed(pairs[-PAIRS_AT_ONCE:]))
        del pairs[-PAIRS_AT_ONCE:]
    return made


def _number(digits: str) -> int | float:
    return int(digits) if len(digits.lstrip("-")) <= _MOST_DIGITS else float(digits)


def _deeper(document: object, most: int) -> bool:
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
    return bool(level)
