"""Addresses that are read over HTTP, replies and errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from exporter.model import Fault


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and its credentials. ``password_file`` and ``ca_file`` are read at every request, so may be renewed.

    ``ca_file`` is in PEM, None for the usual authorities. ``token`` is a bearer token.
    """

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    ca_file: Path | None = None
    token: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """``host:port``; the URL where it has none, as one from a target file may: reading that is a fault."""
        try:
            parts = urlsplit(self.url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return self.url
        return f"[{parts.hostname}]:{port}" if ":" in (parts.hostname or "") else f"{parts.hostname}:{port}"

    @property
    def host(self) -> str:
        """The host; "" where the URL has none."""
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""


class Reply(NamedTuple):
    """A whole answer with status 200, or with 204 and nothing in it."""

    body: bytes
    content_type: str


class HttpError(Exception):
    """The request failed. ``status`` is the HTTP status of the answer, 0 without an answer."""

    def __init__(self, fault: Fault, status: int = 0, body: bytes = b"") -> None:
        super().__init__(fault.detail)
        self.fault = fault
        self.status = status
        self.body = body


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that led to it, also where requests and urllib3 keep them in arguments."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inner = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
        reason = getattr(error, "reason", None)
        error = error.__cause__ or (reason if isinstance(reason, BaseException) else None) or inner or error.__context__
