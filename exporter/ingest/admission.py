"""``POST /ingest/…``: authentication and size limits of posted documents."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from exporter.ingest.latest import RefusedError
from exporter.ingest.receivers import Receivers
from exporter.web.app import PostHandler
from exporter.web.messages import Answer, Request, plain

log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024

ADVICE: Mapping[int, Mapping[str, str]] = {
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
            check_request(request, self._token, ("application/json",), MAX_BYTES)
            self._inbox.take(body)
        except RefusedError as error:
            where = {"path": request.path, "client": request.client}
            log.debug("refused: %d %s", error.status, error, extra=where)
            return plain(str(error), error.status, ADVICE.get(error.status, {}))
        return Answer(204)


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


def ingest_apps(inboxes: Receivers, token: Callable[[], str]) -> Mapping[str, PostHandler]:
    """The receivers of posted documents, by their path."""
    from exporter.ingest.otlp import PATH, OtlpApp  # noqa: PLC0415 -- protobuf takes 5 MB, only where it is received

    return {
        "/ingest/librdkafka": IngestApp(inboxes.clients, token),
        "/ingest/spark": IngestApp(inboxes.spark, token),
        "/ingest/audit": IngestApp(inboxes.audits, token),
        PATH: OtlpApp(inboxes.telemetry, token),
    }
