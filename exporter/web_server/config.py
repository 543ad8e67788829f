"""The web-config file: TLS, users and headers of the agent's own endpoint, in exporter-toolkit's format.

The format is that of Prometheus, Alertmanager and its exporters (exporter-toolkit, docs/web-configuration.md), so that
one file can serve all of them. All problems are reported together, each with its path; no message holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from exporter.bounds.files import warn_of_writers
from exporter.settings.child import ask_child
from exporter.settings.file_text import FileText, read_file_text
from exporter.settings.from_document import DocumentError, from_document
from exporter.settings.layers import Problem
from exporter.web_server.tls import Tls, TlsServer, build

Users = Mapping[str, bytes]
"""Names to bcrypt hashes."""

LOWEST_COST, HIGHEST_COST = 4, 14
"""Above 14 one check takes longer than a second, and so would the first scrape."""
_HASH = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class WebHttp:
    """``http_server_config``."""

    http2: bool | None
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RateLimit:
    """``rate_limit``, a token bucket: ``burst`` requests at once, then one each ``interval`` seconds; 0 is no limit."""

    interval: float
    burst: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WebSettings:
    """The whole file; ``with_tls`` where it has any setting of TLS."""

    tls_server_config: TlsServer
    http_server_config: WebHttp
    basic_auth_users: Mapping[str, str] = field(repr=False)
    rate_limit: RateLimit
    with_tls: bool


class WebConfig(NamedTuple):
    """The web-config in force. The default is plain HTTP without authentication."""

    tls: Tls | None = None
    users: Users = _NOTHING
    headers: Mapping[str, str] = _NOTHING
    rate_limit: RateLimit | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the hashes."""
        return f"WebConfig(tls={self.tls is not None}, users={len(self.users)})"


class WebConfigReading(NamedTuple):
    """The result of reading the file: ``config`` is None when it has problems. ``files`` are the file and those it
    names.
    """

    config: WebConfig | None
    problems: tuple[Problem, ...]
    files: tuple[Path, ...]


def read_web_config(path: Path, *, apart: bool = False) -> WebConfigReading:
    """Read the file and those that it names; ``apart``: its YAML by another process, for one that runs on.

    Never raises.
    """
    text = read_file_text(path)
    document, wrong = ask_child({"kind": "web", "file": text}) if apart else _read_here(text)
    if wrong:
        return WebConfigReading(None, wrong, (path,))
    try:
        file = from_document(WebSettings, document)
    except DocumentError as error:  # as where the package was replaced under this process
        problem = Problem((), f"read by another version, a restart may help: {error}", text.origin)
        return WebConfigReading(None, (problem,), (path,))
    files = (path, *file.tls_server_config.files(path.parent))
    for each in files:
        warn_of_writers(each)
    tls, problems = None, [problem._replace(origin=text.origin) for problem in _problems(file)]
    if file.with_tls:
        tls, found_wrong = build(file.tls_server_config, path.parent)
        problems += [Problem(problem.path, problem.text, text.origin) for problem in found_wrong]
    if problems:
        return WebConfigReading(None, tuple(problems), files)
    return WebConfigReading(_config(file, tls), (), files)


def _read_here(file: FileText) -> tuple[Any, tuple[Problem, ...]]:
    from exporter.settings.web_file import read_web_file  # noqa: PLC0415 -- pydantic and YAML

    return read_web_file(file)


def hash_problem(text: str) -> str:
    """The fault of a hash, "" without one. Never repeats it."""
    match = _HASH.fullmatch(text)
    if match is None:
        return "is no bcrypt hash: make one with `htpasswd -nBC 10 USER`"
    if not LOWEST_COST <= int(match[1]) <= HIGHEST_COST:
        return f"has a cost of {match[1]}, and {LOWEST_COST} to {HIGHEST_COST} are taken: each step doubles the time"
    return ""


def _problems(file: WebSettings) -> Iterator[Problem]:
    for user, hashed in file.basic_auth_users.items():
        if not user or ":" in user:
            yield Problem(("basic_auth_users",), "a name must not be empty nor have a colon in it")
        elif text := hash_problem(hashed):
            yield Problem(("basic_auth_users", user), text)
    if file.rate_limit.interval > 0 and file.rate_limit.burst < 1:
        yield Problem(("rate_limit", "burst"), "must be 1 or more")


def _config(file: WebSettings, tls: Tls | None) -> WebConfig:
    notes = []
    if file.http_server_config.http2:
        notes.append("http2 is ignored: the endpoint has HTTP/1.1 only, which every client of HTTP/2 can use")
    if tls is None and not file.basic_auth_users:
        notes.append("the web-config file sets neither TLS nor users: everybody who reaches the port is served")
    elif tls is None:
        notes.append("passwords are sent without TLS: they can be read in the traffic")
    return WebConfig(
        tls=tls,
        users={user: hashed.encode() for user, hashed in file.basic_auth_users.items()},
        headers=file.http_server_config.headers,
        rate_limit=file.rate_limit if file.rate_limit.interval > 0 else None,
        notes=tuple(notes),
    )
