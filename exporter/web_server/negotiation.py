"""Content negotiation (RFC 9110, section 12.5): the formats and encodings that a client accepts.

prometheus_client's ``choose_encoder`` raises TypeError for ``version=abc``, passes over qualities, and says
``version=2.0.0`` of OpenMetrics 1.0 where a client asks so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from exporter.exposition.text_format import CONTENT_TYPES, Format

MOST_CHOICES = 32
"""Largest number of choices of a header, and of parameters of a choice, that are read: browsers send at most eight."""

_FORMATS = {
    "application/openmetrics-text": Format.OPENMETRICS,
    "text/plain": Format.TEXT,
    "text/*": Format.TEXT,
    "*/*": Format.TEXT,
}


class _Choice(NamedTuple):
    """One element of an Accept header."""

    value: str
    parameters: Mapping[str, str]
    quality: float

    @property
    def rank(self) -> tuple[float, int, int]:
        """Sort key, higher is preferred: by quality, then by exactness."""
        return self.quality, -self.value.count("*"), len(self.parameters)


def negotiate(accept: str) -> tuple[Format, str]:
    """The format that the Accept header prefers, and its content type; the text format if none.

    Prometheus 3 also asks for an escaping of names with UTF-8. Names here need none, so of the four kinds only those
    that leave names unchanged are accepted.
    """
    for choice in sorted(_choices(accept), key=lambda offered: offered.rank, reverse=True):
        fmt, version = _FORMATS.get(choice.value), choice.parameters.get("version", "")
        draft = fmt is Format.OPENMETRICS and version.startswith("0.")
        if fmt is None or choice.quality <= 0 or draft:
            continue
        content_type = CONTENT_TYPES[fmt]
        if version == "1.0.0":
            content_type = content_type.replace("0.0.4", version)
            if "escaping" in choice.parameters:
                asked = choice.parameters["escaping"]
                content_type += f"; escaping={asked if asked == 'allow-utf-8' else 'underscores'}"
        return fmt, content_type
    return Format.TEXT, CONTENT_TYPES[Format.TEXT]


def takes_gzip(accept_encoding: str) -> bool:
    """Return whether the Accept-Encoding header takes gzip, by its name or by an asterisk."""
    qualities = {choice.value: choice.quality for choice in _choices(accept_encoding)}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def takes_html(accept: str) -> bool:
    """Return whether Accept names text/html: a browser's does, and another client's asterisk is not meant so."""
    return any(choice.value == "text/html" and choice.quality > 0 for choice in _choices(accept))


def _choices(header: str) -> Iterator[_Choice]:
    for element in header.lower().split(",", MOST_CHOICES)[:MOST_CHOICES]:
        value, *rest = (part.strip() for part in element.split(";", MOST_CHOICES)[:MOST_CHOICES])
        if not value:
            continue
        parameters = {name.strip(): text.strip() for name, _, text in (part.partition("=") for part in rest)}
        yield _Choice(value, parameters, _quality(parameters.pop("q", "1")))


def _quality(text: str) -> float:
    """0 to 1; 0 for what is no quality."""
    try:
        quality = float(text) if len(text) <= 5 else 0.0
    except ValueError:
        return 0.0
    return quality if 0 <= quality <= 1 else 0.0
