"""Foreign text made harmless: escaped for people, valid UTF-8, cut to a length.

Ids, topics, client ids and messages of brokers are arbitrary texts. ``printable`` is the one function that escapes them
where a person or another program reads them: page, terminal, labels, logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_SURROGATE = re.compile("[\ud800-\udfff]")
_LOOKS_ESCAPED = re.compile(r"\\(?=x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def printable(text: str) -> str:
    r"""Escape what does not print, as ``\x1b``, ``\u202e`` or ``\U000e0001``; a second call changes nothing.

    That is Unicode's Other and Separator but the space: line breaks and controls of terminals (C0, DEL, C1, U+2028,
    U+2029), marks, overrides and isolates that turn the direction of text, characters without width, lone surrogates.
    """
    return text if text.isprintable() else "".join(map(_escape, text))


def printable_value(value: object) -> object:
    """The value as a template shows it: texts printable, markup and everything else unchanged."""
    return printable(value) if type(value) is str else value


def printable_identity(text: str) -> str:
    r"""As ``printable``, and two texts never become the same: a backslash before what looks like such an escape
    becomes ``\x5c``.
    """
    return printable(_LOOKS_ESCAPED.sub(r"\\x5c", text) if "\\" in text else text)


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    point = ord(character)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def printable_json(line: str) -> str:
    r"""One line of JSON with ``\uXXXX`` for what does not print: it is parsed to the same values."""
    return line if line.isprintable() else "".join(map(_json_escape, line))


def _json_escape(character: str) -> str:
    # An encoder's default is to escape whatever is not ASCII, which pairs surrogates. It leaves DEL.
    return character if character.isprintable() else r"\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def without_surrogates(text: str) -> str:
    r"""The text with every lone surrogate written as ``\udXXX``: UTF-8 has none, and a page must not fail by one.

    JSON and YAML may name one by an escape, and Python puts them in names of files that are no UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text


def decoded(content: bytes) -> str:
    r"""The text of bytes in UTF-8; any invalid byte is written as ``\xXX``."""
    return content.decode("utf-8", "backslashreplace")


def cut(text: str, longest: int) -> str:
    """The text, with an ellipsis for what is beyond so many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def some(names: Sequence[object], most: int) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more} more" if more > 0 else "")


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 partition``, ``2 partitions``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def without_credentials(addresses: str) -> str:
    """One or more addresses, with all that may be a secret hidden: what stands before the last @, as a password may
    have a comma, and a query. ``https://[hidden]@idp/token?[hidden]``.
    """
    before, at, rest = addresses.rpartition("@")
    scheme, separator, _ = before.partition("://")
    known = f"{scheme}://" if separator and scheme.replace("_", "").isalnum() else ""
    shown, query, _ = rest.partition("?")
    return f"{f'{known}[hidden]@' if at else ''}{shown}{query and '?[hidden]'}"
