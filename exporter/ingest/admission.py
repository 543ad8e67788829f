"""``POST /ingest/…``: who may hand something in, and how large it may be."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from exporter.ingest.latest import RefusedError
from exporter.ingest.receivers import Inboxes

log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024

_PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    503: "Service Unavailable",
}


class Inbox(Protocol):
    """Takes what came in; raises RefusedError for what it does not take."""

    def take(self, body: bytes) -> None: ...


class IngestDoor:
    """The WSGI application behind one of the paths.

    ``token`` gives the one that is asked for, "" for none, at each request; it may raise ValueError.
    """

    def __init__(self, inbox: Inbox, token: Callable[[], str]) -> None:
        self._inbox = inbox
        self._token = token

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:  # noqa: ANN401 -- WSGI
        try:
            self._inbox.take(self._admitted(environ))
        except RefusedError as error:
            status, text = error.status, str(error)
            where = {"path": environ.get("PATH_INFO"), "client": environ.get("REMOTE_ADDR")}
            log.debug("refused: %d %s", status, text, extra=where)
            headers = [("Content-Type", "text/plain; charset=utf-8"), *_advice(status)]
            start_response(f"{status} {_PHRASES[status]}", headers)
            return [f"{text}\n".encode()]
        start_response("204 No Content", [])
        return []

    def _admitted(self, environ: dict[str, Any]) -> bytes:
        """The body of a request that may come in. Raises RefusedError."""
        if environ.get("REQUEST_METHOD") != "POST":
            raise RefusedError(405, "only POST")
        try:
            token = self._token()
        except ValueError:
            raise RefusedError(503, "the agent cannot read its token") from None
        if token:
            scheme, _, given = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
            known = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
            if scheme.lower() != "bearer" or not known:
                raise RefusedError(401, "the token is missing or wrong")
        # A page in a browser on this machine could post to loopback too, but not with this type without being let to.
        if str(environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower() != "application/json":
            raise RefusedError(415, "Content-Type must be application/json")
        length = str(environ.get("CONTENT_LENGTH") or "")
        if not (length.isascii() and length.isdecimal()):
            raise RefusedError(411, "Content-Length is required")
        if int(length[:12]) > MAX_BYTES:
            raise RefusedError(413, f"more than {MAX_BYTES // 1024} KB: send what matters only")
        body: bytes = environ["wsgi.input"].read(int(length))
        if len(body) != int(length):
            raise RefusedError(400, "the body is cut off")
        return body


def doors_of(inboxes: Inboxes, token: Callable[[], str]) -> Mapping[str, IngestDoor]:
    """The doors to all inboxes, by their path."""
    return {
        "/ingest/librdkafka": IngestDoor(inboxes.clients, token),
        "/ingest/spark": IngestDoor(inboxes.spark, token),
        "/ingest/audit": IngestDoor(inboxes.audits, token),
    }


def _advice(status: int) -> list[tuple[str, str]]:
    match status:
        case 401:
            return [("WWW-Authenticate", "Bearer")]
        case 405:
            return [("Allow", "POST")]
        case 429:
            return [("Retry-After", "5")]
    return []
