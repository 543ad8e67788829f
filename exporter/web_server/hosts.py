"""Checks of Host and Origin: allowed names of the endpoint, and requests from web pages of other sites.

A page in a browser can send requests to this machine's own ports, and by DNS rebinding read the answers: then its own
host name, which now resolves to this host, is in the Host header. A script can set neither Host nor Origin.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from exporter.settings.values import is_loopback
from exporter.web_server.messages import Answer, Request, refused

_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._~-]{1,255})(?::([0-9]{0,5}))?", re.IGNORECASE)
_ORIGIN = re.compile(rf"(https?)://({_HOST.pattern})", re.IGNORECASE)
_DEFAULT_PORTS = {"http": "80", "https": "443"}

ANY = "*"
"""Entry of the list of allowed hosts that allows all."""

_FOREIGN_HOST = "this host name is not served here; web.allowed_hosts names those that are"
_FOREIGN_ORIGIN = "a page of another origin asks"
_NO_BROWSER = "a browser cannot reload the settings"


def is_host(text: str) -> bool:
    """Return whether this is a host with or without a port, as a Host header may hold it (RFC 9110, section 7.2)."""
    return _HOST.fullmatch(text) is not None


def name_of(text: str) -> str:
    """The host of a Host header for comparison: without its port, in lower case; "" for an invalid one."""
    match = _HOST.fullmatch(text)
    return match[1].lower().strip("[]").rstrip(".") if match else ""


def from_browser(request: Request) -> bool:
    """Return whether the request has a header that browsers add to every request, and that scripts cannot leave out."""
    return not request.headers.keys().isdisjoint({"accept-language", "origin", "sec-fetch-site", "sec-fetch-mode"})


def foreign(request: Request, allowed: Collection[str]) -> Answer | None:
    """The refusal of a request by a foreign name or from a foreign page; None for one that may go on.

    ``allowed`` are hosts as ``name_of`` gives them, or ``ANY``. Without any, a listener on loopback takes loopback
    names only, and another listener takes every name, as it cannot know its own.
    """
    host = request.headers.get("host", "")
    if (allowed or request.loopback) and not _is_served(name_of(host), allowed, request):
        return refused(403, _FOREIGN_HOST)
    origin = request.headers.get("origin")
    if origin is not None and not _is_own(origin, host, allowed):
        return refused(403, _FOREIGN_ORIGIN)
    if request.method == "POST" and request.headers.get("sec-fetch-site", "none") in {"cross-site", "same-site"}:
        return refused(403, _FOREIGN_ORIGIN)
    return None


def reload_refusal(request: Request) -> Answer | None:
    """The refusal of a reload from a browser: no page of the agent requests one."""
    headers = request.headers
    return refused(403, _NO_BROWSER) if "origin" in headers or "sec-fetch-site" in headers else None


def _is_served(host: str, allowed: Collection[str], request: Request) -> bool:
    if ANY in allowed or host in allowed:
        return True
    if "host" not in request.headers:  # HTTP/1.0, which no browser uses
        return True
    return request.loopback and is_loopback(host)


def _is_own(origin: str, host: str, allowed: Collection[str]) -> bool:
    """Return whether the origin is the requested host, or an allowed one. Schemes are not compared: a proxy may end
    TLS.
    """
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return False
    if name_of(match[2]) in allowed:
        return True
    own = _HOST.fullmatch(host)
    default = _DEFAULT_PORTS[match[1].lower()]
    return own is not None and name_of(host) == name_of(match[2]) and (own[2] or default) == (match[4] or default)
