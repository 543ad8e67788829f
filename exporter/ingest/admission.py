"""``POST /ingest/…``: authentication and size limits of posted documents."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from exporter.ingest.latest import RefusedError
from exporter.ingest.receivers import Receivers
from exporter.web.messages import Answer, Request, plain

log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024

_ADVICE: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    405: {"Allow": "POST"},
    429: {"Retry-After": "5"},
}


class Receiver(Protocol):
    """Accepts one document. Raises RefusedError."""

    def take(self, body: bytes) -> None: ...


class IngestApp:
    """One of the paths. Any thread may call it.

    ``token`` returns the required token, "" for none, at each request; it may raise ValueError.
    """

    def __init__(self, inbox: Receiver, token: Callable[[], str]) -> None:
        self._inbox = inbox
        self._token = token

    def __call__(self, request: Request, body: bytes) -> Answer:
        """204, or why the body is refused. May read the file of the token."""
        try:
            self._check(request)
            self._inbox.take(body)
        except RefusedError as error:
            where = {"path": request.path, "client": request.client}
            log.debug("refused: %d %s", error.status, error, extra=where)
            return plain(str(error), error.status, _ADVICE.get(error.status, {}))
        return Answer(204)

    def _check(self, request: Request) -> None:
        """Raises RefusedError for a request that is not allowed."""
        if request.method != "POST":
            raise RefusedError(405, "only POST")
        try:
            token = self._token()
        except ValueError:
            raise RefusedError(503, "the agent cannot read its token") from None
        if token:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            known = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
            if scheme.lower() != "bearer" or not known:
                raise RefusedError(401, "the token is missing or wrong")
        # A page of another site cannot send this content type without CORS permission, which is never given.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RefusedError(415, "Content-Type must be application/json")
        length = request.headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()):
            raise RefusedError(411, "Content-Length is required")
        if len(length.lstrip("0")) > 12 or int(length) > MAX_BYTES:
            raise RefusedError(413, f"more than {MAX_BYTES // 1024} KB: send what matters only")


def ingest_apps(inboxes: Receivers, token: Callable[[], str]) -> Mapping[str, IngestApp]:
    """The receivers of posted documents, by their path."""
    return {
        "/ingest/librdkafka": IngestApp(inboxes.clients, token),
        "/ingest/spark": IngestApp(inboxes.spark, token),
        "/ingest/audit": IngestApp(inboxes.audits, token),
    }
