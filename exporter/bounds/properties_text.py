r"""Files of java.util.Properties: ``key=value``, ``key: value``, ``#`` and ``!`` comments, ``\`` at a line's end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LINE_END = re.compile(r"\r\n|\r|\n")
_ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertyEntry(NamedTuple):
    """A name with its value, unescaped, and the line in which it begins, from 1."""

    name: str
    value: str
    line: int


def parse_properties(text: str) -> Iterator[PropertyEntry]:
    """Yield the entries of a text, in its order."""
    lines = enumerate(LINE_END.split(text), 1)
    for number, line in lines:
        parts = [line.lstrip(" \t\f")]
        if not parts[0] or parts[0][0] in "#!":
            continue
        while _continues(parts[-1]):
            _, following = next(lines, (0, ""))
            parts[-1] = parts[-1][:-1]
            parts.append(following.lstrip(" \t\f"))
        if match := _ENTRY.match("".join(parts)):
            yield PropertyEntry(_unescaped(match[1]), _unescaped(match[2]), number)


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        sign = match[1]
        return chr(int(sign[1:], 16)) if len(sign) == 5 else _CONTROLS.get(sign, sign)

    # Java writes a character beyond U+FFFF as two escapes.
    return _ESCAPED.sub(unescape, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
