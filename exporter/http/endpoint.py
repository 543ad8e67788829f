"""Whom to ask over HTTP, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from exporter.model import Fault


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and how to come in. ``password_file`` and ``ca_file`` are read at every question, so may be renewed.

    ``ca_file`` is in PEM, None for the usual authorities. ``token`` is a bearer's.
    """

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    ca_file: Path | None = None
    token: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """``host:port``."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


class Reply(NamedTuple):
    """A whole answer with status 200, or with 204 and nothing in it."""

    body: bytes
    content_type: str


class AskError(Exception):
    """The question was not answered. ``status`` is the HTTP status of a refusal, 0 when there was none."""

    def __init__(self, fault: Fault, status: int = 0, body: bytes = b"") -> None:
        super().__init__(fault.detail)
        self.fault = fault
        self.status = status
        self.body = body
