"""The paths that documents are posted to: ``/ingest/...`` and ``/v1/metrics``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from exporter.agent.receivers import Receivers
from exporter.ingest.admission import ADVICE, MAX_BYTES, check_request
from exporter.ingest.latest import RefusedError
from exporter.status.app import PostHandler
from exporter.web_server.messages import Answer, Request, plain

log = logging.getLogger(__name__)


class Receiver(Protocol):
    """Accepts one document. Raises RefusedError."""

    def take(self, body: bytes) -> None:
        """Keep what the body says."""


class IngestApp:
    """One of the paths. Any thread may call it.

    ``token`` returns the required token, "" for none, at each request; it may raise ValueError.
    """

    def __init__(self, receiver: Receiver, token: Callable[[], str]) -> None:
        self._receiver = receiver
        self._token = token

    def refusal(self, request: Request) -> Answer | None:
        """Return why the head is refused. May read the file of the token."""
        try:
            check_request(request, self._token, ("application/json",), MAX_BYTES)
        except RefusedError as error:
            return _refused(request, error)
        return None

    def __call__(self, request: Request, body: bytes) -> Answer:
        """204, or why the body is refused."""
        try:
            self._receiver.take(body)
        except RefusedError as error:
            return _refused(request, error)
        return Answer(204)


def _refused(request: Request, error: RefusedError) -> Answer:
    where = {"path": request.path, "client": request.client}
    log.debug("refused: %d %s", error.status, error, extra=where)
    return plain(str(error), error.status, ADVICE.get(error.status, {}))


def ingest_apps(receivers: Receivers, token: Callable[[], str]) -> Mapping[str, PostHandler]:
    """The receivers of posted documents, by their path."""
    from exporter.telemetry.otlp import PATH, OtlpApp  # noqa: PLC0415 -- protobuf takes 5 MB, only where it is received

    return {
        "/ingest/librdkafka": IngestApp(receivers.clients, token),
        "/ingest/spark": IngestApp(receivers.spark, token),
        "/ingest/audit": IngestApp(receivers.audits, token),
        PATH: OtlpApp(receivers.telemetry, token),
    }
