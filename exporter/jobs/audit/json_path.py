"""A quick way to what ``get_json_object`` returns, for documents of the usual form.

Spark's function parses each document with Jackson, over a new decoder with a buffer of 8 kB: most of the time of an
audit by an id in JSON. A regular expression that matches the whole document is faster. It matches only documents of
which the result is certain: an object on one line as serializers write it, without an escape, where the first field
of the name has a text that is not empty, or an integer. Strings have no escape, numbers are short, nesting is shallow.
For every other document the caller takes Spark's function, and so too for an empty match.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST = 32_768
"""Bytes of a document. Jackson refuses names of more than 50,000 characters."""
MOST_FIELDS = 3
_PATH = re.compile(r"\$((?:\.[A-Za-z0-9_]+)+)")
_NESTED = 1
"""Greatest depth of the values beside the path."""

_TEXT = r'"[^"\\]*"'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][-+]?[0-9]{1,2})?"
_SPACE = " ?+"
"""After a colon or a comma, as some serializers write it."""
# The value, with its quotes outside of the group. The look-behinds make both quotes go together.
_FOUND = r'"?+((?<=")[^"\\]+(?=")|(?<=[: ])(?:0|-?[1-9][0-9]{0,17})(?=[,}]))"?+'


def path_of(expression: Any) -> str:  # noqa: ANN401 -- an expression of the JVM
    """The path of an analysed ``get_json_object(value, '$.a.b')``; "" for any other expression."""
    if expression.getClass().getSimpleName() != "GetJsonObject":
        return ""
    json, path = expression.children().apply(0), expression.children().apply(1)
    if json.getClass().getSimpleName() != "AttributeReference" or json.name() != "value":
        return ""
    if path.getClass().getSimpleName() != "Literal" or path.value() is None:
        return ""
    return str(path.value().toString())


def pattern_of(path: str) -> str:
    """The pattern (java.util.regex) whose first group is the value at the path; "" for a path that it cannot follow."""
    matched = _PATH.fullmatch(path)
    if matched is None:
        return ""
    names = matched[1].split(".")[1:]
    if len(names) > MOST_FIELDS:
        return ""
    found = _FOUND
    for name in reversed(names):
        # The first field of this name: get_json_object takes it, unless it is null, which this does not match.
        before = rf'(?:(?!"{name}"){_field(_NESTED)},{_SPACE})*+'
        found = rf'\{{{before}"{name}":{_SPACE}{found}(?:,{_SPACE}{_field(_NESTED)})*+\}}'
    return rf"\A{found}\z"


def _field(depth: int) -> str:
    return rf"{_TEXT}:{_SPACE}{_value(depth)}"


def _value(depth: int) -> str:
    """Any value, with others in it to this depth. No quantifier gives back what it took but within one string."""
    plain = rf"{_TEXT}|{_NUMBER}|true|false|null"
    if not depth:
        return f"(?:{plain})"
    items, fields = _list(_value(depth - 1)), _list(_field(depth - 1))
    return rf"(?:{plain}|\[{items}\]|\{{{fields}\}})"


def _list(item: str) -> str:
    return rf"(?:{item}(?:,{_SPACE}{item})*+)?+"
