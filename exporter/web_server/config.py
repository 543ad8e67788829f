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
from typing import Annotated, Any, NamedTuple

from exporter.bounds.files import warn_of_writers
from exporter.core.durations import parse_go_duration
from exporter.settings.file_text import read_file_text
from exporter.settings.layers import Problem
from exporter.settings.reading import Contradiction, ValueForm, read
from exporter.settings.yaml_file import layer_of
from exporter.web_server.tls import Tls, TlsServer, build

Users = Mapping[str, bytes]
"""Names to bcrypt hashes."""

LOWEST_COST, HIGHEST_COST = 4, 14
"""Above 14 one check takes longer than a second, and so would the first scrape."""
_HASH = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


# exporter-toolkit's closed list, and the allowed values.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}


def _go_seconds(value: object) -> float:
    return parse_go_duration(value if isinstance(value, str) else "")


def _header_values(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Headers that may be set, without empty ones. Raises ValueError for any other."""
    for name, value in headers.items():
        if name not in _HEADERS:
            raise ValueError(f"{name!r:.60} cannot be set; known here: {', '.join(_HEADERS)}")
        if value and _HEADERS[name] and value not in _HEADERS[name]:
            raise ValueError(f"{name} must be {' or '.join(_HEADERS[name])}")
        if not (value.isascii() and (value.isprintable() or not value)):
            raise ValueError(f"{name} must be one line of plain characters")
    return {name: value for name, value in headers.items() if value}


@dataclass(frozen=True, kw_only=True, slots=True)
class WebHttp:
    """``http_server_config``."""

    http2: bool | None = None
    headers: Annotated[Mapping[str, str], ValueForm(after=_header_values)] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """``rate_limit``, a token bucket: ``burst`` requests at once, then one each ``interval`` seconds; 0 is no limit."""

    interval: Annotated[float, ValueForm(before=_go_seconds)] = 0.0
    burst: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WebSettings:
    """The whole file; without ``tls_server_config``, or with an empty one, there is no TLS."""

    tls_server_config: TlsServer | None = None
    http_server_config: WebHttp = WebHttp()
    basic_auth_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    rate_limit: RateLimit = RateLimit()


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


def read_web_config(path: Path) -> WebConfigReading:
    """Read the file and those that it names. Never raises."""
    layer = layer_of(read_file_text(path))
    file, problems = read(WebSettings, layer.tree, {(): str(path)})
    if file is None or layer.problems:
        return WebConfigReading(None, layer.problems or problems, (path,))
    settings, tls = file.tls_server_config, None
    files = (path, *(settings.files(path.parent) if settings else ()))
    for each in files:
        warn_of_writers(each)
    wrong = list(_contradictions(file))
    if settings is not None and layer.tree["tls_server_config"]:
        tls, wrong_tls = build(settings, path.parent)
        wrong += [(problem.path, problem.text) for problem in wrong_tls]
    if wrong:
        return WebConfigReading(None, tuple(Problem(place, text, str(path)) for place, text in wrong), files)
    return WebConfigReading(_config(file, tls), (), files)


def hash_problem(text: str) -> str:
    """The fault of a hash, "" without one. Never repeats it."""
    match = _HASH.fullmatch(text)
    if match is None:
        return "is no bcrypt hash: make one with `htpasswd -nBC 10 USER`"
    if not LOWEST_COST <= int(match[1]) <= HIGHEST_COST:
        return f"has a cost of {match[1]}, and {LOWEST_COST} to {HIGHEST_COST} are taken: each step doubles the time"
    return ""


def _contradictions(file: WebSettings) -> Iterator[Contradiction]:
    """Beside those of TLS, so that all are reported at once."""
    for user, hashed in file.basic_auth_users.items():
        if not user or ":" in user:
            yield ("basic_auth_users",), "a name must not be empty nor have a colon in it"
        elif text := hash_problem(hashed):
            yield ("basic_auth_users", user), text
    if file.rate_limit.interval > 0 and file.rate_limit.burst < 1:
        yield ("rate_limit", "burst"), "must be 1 or more"


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
