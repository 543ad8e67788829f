"""Whether a posted document is read: its token, type and size."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence

from exporter.ingest.latest import RefusedError
from exporter.web_server.messages import Request

MAX_BYTES = 64 * 1024
MOST_AHEAD_SECONDS = 600.0
"""Seconds by which the time of what is posted may be ahead of our clock: what comes after it would count as older."""

ADVICE: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    405: {"Allow": "POST"},
    429: {"Retry-After": "5"},
}


def check_request(request: Request, token: Callable[[], str], types: Sequence[str], most_bytes: int) -> None:
    """Raises RefusedError for a request that is not allowed, or whose head says that its body cannot be read."""
    if request.method != "POST":
        raise RefusedError(405, "only POST")
    try:
        word = token()
    except ValueError:
        raise RefusedError(503, "the agent cannot read its token") from None
    if word:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode("utf-8", "replace"), word.encode())
        if scheme.lower() != "bearer" or not known:
            raise RefusedError(401, "the token is missing or wrong")
    # A page of another site cannot send these content types without CORS permission, which is never given.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in types:
        raise RefusedError(415, f"Content-Type must be {' or '.join(types)}")
    length = request.headers.get("content-length", "")
    if not (length.isascii() and length.isdecimal()):
        raise RefusedError(411, "Content-Length is required")
    if len(length.lstrip("0")) > 12 or int(length) > most_bytes:
        raise RefusedError(413, f"more than {most_bytes // 1024} KB: send what matters only")
