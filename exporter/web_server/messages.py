"""Messages between the endpoint's parts: a request with a complete head, and the answer to it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

TEXT = "text/plain; charset=utf-8"

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Request(NamedTuple):
    """The head of a request. Header names are in lower case; ``path`` is decoded, and "" where it cannot be valid.

    ``client`` is the address of the peer; ``loopback`` is whether the listener is on loopback only.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = _NO_HEADERS
    client: str = ""
    loopback: bool = False


class Answer(NamedTuple):
    """A whole answer. Its headers win over those that every answer has."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = _NO_HEADERS


def plain(text: str, status: int = 200, headers: Mapping[str, str] = _NO_HEADERS) -> Answer:
    """One or several lines of text."""
    return Answer(status, encoded(f"{text}\n"), TEXT, headers)


def refused(status: int, why: str = "", headers: Mapping[str, str] = _NO_HEADERS) -> Answer:
    """A refusal as one line of text, which quotes nothing of the request."""
    return plain(f"{status} {HTTPStatus(status).phrase}{f': {why}' if why else ''}", status, headers)


def encoded(text: str) -> bytes:
    """UTF-8, with U+FFFD for each lone surrogate: JSON of other programs may hold those, and UTF-8 cannot."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
