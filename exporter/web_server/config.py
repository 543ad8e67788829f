"""The web-config file: TLS, users and headers of the agent's own endpoint, in exporter-toolkit's format.

The format is that of Prometheus, Alertmanager and its exporters (exporter-toolkit, docs/web-configuration.md), so that
one file can serve all of them. All problems are reported together, each with its path; no message holds a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError

from exporter.core.durations import parse_go_duration
from exporter.settings.layers import Problem
from exporter.settings.problems import problem_of
from exporter.settings.values import Section, wrong
from exporter.settings.yaml_layer import from_yaml
from exporter.web_server.tls import Tls, TlsServer, build
from exporter.web_server.users import Users, hash_problem

# exporter-toolkit's closed list, and the allowed values.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _go_seconds(value: object) -> float:
    try:
        return parse_go_duration(value if isinstance(value, str) else "")
    except ValueError as error:
        raise wrong(str(error)) from None


def _header_values(headers: dict[str, str]) -> dict[str, str]:
    """Headers that may be set, without empty ones. Raises a problem for any other."""
    for name, value in headers.items():
        if name not in _HEADERS:
            raise wrong(f"{name!r:.60} cannot be set; known here: {', '.join(_HEADERS)}")
        if value and _HEADERS[name] and value not in _HEADERS[name]:
            raise wrong(f"{name} must be {' or '.join(_HEADERS[name])}")
        if not (value.isascii() and (value.isprintable() or not value)):
            raise wrong(f"{name} must be one line of plain characters")
    return {name: value for name, value in headers.items() if value}


class _Http(Section):
    """``http_server_config``."""

    http2: bool | None = None
    headers: Annotated[dict[str, str], AfterValidator(_header_values)] = Field(default_factory=dict)


class _RateLimit(Section):
    """``rate_limit``: so many requests at once, and one more each ``interval``; 0 is no limit."""

    interval: Annotated[float, BeforeValidator(_go_seconds)] = 0.0
    burst: int = 0


class _File(Section):
    """The whole file."""

    tls_server_config: TlsServer = TlsServer()
    http_server_config: _Http = _Http()
    basic_auth_users: dict[str, SecretStr] = Field(default_factory=dict)
    rate_limit: _RateLimit = _RateLimit()


class RateLimit(NamedTuple):
    """A token bucket: ``burst`` requests at once, then one each ``interval`` seconds."""

    interval: float
    burst: int


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
    origin = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else "is no UTF-8 text"
        return WebConfigReading(None, (Problem((), why, origin),), (path,))
    layer = from_yaml(text, origin)
    if layer.problems:
        return WebConfigReading(None, layer.problems, (path,))
    try:
        file = _File.model_validate(layer.tree)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return WebConfigReading(None, tuple(problem_of(each, _File, {(): origin}) for each in found), (path,))
    files = (path, *file.tls_server_config.files(path.parent))
    tls, problems = None, [problem._replace(origin=origin) for problem in _problems(file)]
    if layer.tree.get("tls_server_config"):
        tls, found_wrong = build(file.tls_server_config, path.parent)
        problems += [Problem(each.path, each.text, origin) for each in found_wrong]
    if problems:
        return WebConfigReading(None, tuple(problems), files)
    return WebConfigReading(_config(file, tls), (), files)


def _problems(file: _File) -> Iterator[Problem]:
    for user, hashed in file.basic_auth_users.items():
        if not user or ":" in user:
            yield Problem(("basic_auth_users",), "a name must not be empty nor have a colon in it")
        elif text := hash_problem(hashed.get_secret_value()):
            yield Problem(("basic_auth_users", user), text)
    if file.rate_limit.interval > 0 and file.rate_limit.burst < 1:
        yield Problem(("rate_limit", "burst"), "must be 1 or more")


def _config(file: _File, tls: Tls | None) -> WebConfig:
    limit = file.rate_limit
    notes = []
    if file.http_server_config.http2:
        notes.append("http2 is ignored: the endpoint has HTTP/1.1 only, which every client of HTTP/2 can use")
    if tls is None and not file.basic_auth_users:
        notes.append("the web-config file sets neither TLS nor users: everybody who reaches the port is served")
    elif tls is None:
        notes.append("passwords are sent without TLS: they can be read in the traffic")
    return WebConfig(
        tls=tls,
        users={user: hashed.get_secret_value().encode() for user, hashed in file.basic_auth_users.items()},
        headers=file.http_server_config.headers,
        rate_limit=RateLimit(limit.interval, limit.burst) if limit.interval > 0 else None,
        notes=tuple(notes),
    )
