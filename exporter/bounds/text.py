"""Foreign text made printable: in UTF-8, without lone surrogates, cut to a length."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
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
