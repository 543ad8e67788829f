"""The web-config file in exporter-toolkit's format, to one document with every problem at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError

from exporter.core.durations import parse_go_duration
from exporter.settings.file_text import FileText
from exporter.settings.layers import Problem
from exporter.settings.problems import problem_of
from exporter.settings.root import document_of
from exporter.settings.values import Section, one_or_more, wrong
from exporter.settings.yaml_layer import layer_of

Texts = Annotated[tuple[str, ...], BeforeValidator(one_or_more)]


class TlsServerSection(Section):
    """``tls_server_config``. Files are looked for beside the web-config file."""

    cert: str = ""
    key: SecretStr = SecretStr("")
    client_ca: str = ""
    cert_file: str = ""
    key_file: str = ""
    client_auth_type: str = ""
    client_ca_file: str = ""
    client_allowed_sans: Texts = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: Texts = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: Texts = ()


# exporter-toolkit's closed list, and the allowed values.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}


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


class _HttpSection(Section):
    """``http_server_config``."""

    http2: bool | None = None
    headers: Annotated[dict[str, str], AfterValidator(_header_values)] = Field(default_factory=dict)


class _RateLimitSection(Section):
    """``rate_limit``: so many requests at once, and one more each ``interval``; 0 is no limit."""

    interval: Annotated[float, BeforeValidator(_go_seconds)] = 0.0
    burst: int = 0


class WebFileSection(Section):
    """The whole file."""

    tls_server_config: TlsServerSection = TlsServerSection()
    http_server_config: _HttpSection = _HttpSection()
    basic_auth_users: dict[str, SecretStr] = Field(default_factory=dict)
    rate_limit: _RateLimitSection = _RateLimitSection()


class WebFileReading(NamedTuple):
    """The document of the file, None where it is not usable at all, and every problem of it."""

    document: Any
    problems: tuple[Problem, ...]


def read_web_file(file: FileText) -> WebFileReading:
    """Return what the file has, secrets included, without a look at the files that it names. Never raises."""
    layer = layer_of(file)
    if layer.problems:
        return WebFileReading(None, layer.problems)
    try:
        section = WebFileSection.model_validate(layer.tree)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return WebFileReading(None, tuple(problem_of(detail, WebFileSection, {(): file.origin}) for detail in found))
    document = document_of(section) | {"with_tls": bool(layer.tree.get("tls_server_config"))}
    return WebFileReading(document, ())
