"""``POST /v1/metrics``: OTLP over HTTP, in protobuf or JSON, as KIP-714 receivers and OpenTelemetry exporters send it.

Answers are those of the OTLP specification: an ExportMetricsServiceResponse in the encoding of the request, with
``partial_success`` where data points were refused; a ``google.rpc.Status`` for a request that is refused as a whole. Of
the statuses used here an exporter repeats the request after 429 and 503 only.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from urllib.parse import unquote

from exporter.ingest.admission import ADVICE, check_request
from exporter.ingest.latest import RefusedError
from exporter.telemetry.clients import About, TelemetryReceiver
from exporter.telemetry.points import LONGEST_TEXT, OtlpError, PointTally
from exporter.telemetry.protobuf import JSON, PROTOBUF, decode, response, status
from exporter.web_server.messages import Answer, Request

log = logging.getLogger(__name__)

PATH = "/v1/metrics"
MOST_BYTES = 1024 * 1024
"""Largest body, once it is decompressed as well: what a Kafka broker takes from a client at once
(``telemetry.max.bytes``). Measured: 1 MB of empty points are 60 MB in memory while they are read.
"""
_HEADERS = {
    "kafka-cluster": "cluster",
    "kafka-client-instance-id": "instance",
    "kafka-client-id": "client_id",
    "kafka-client-software-name": "software",
    "kafka-client-software-version": "version",
    "kafka-client-principal": "principal",
    "kafka-client-address": "address",
}
"""Headers of our receiver in brokers, percent-encoded UTF-8: properties of the client from its broker."""
_CODES = {400: 3, 401: 16, 413: 8, 429: 8, 503: 14}
"""google.rpc.Code by status; 2 is UNKNOWN."""


class OtlpApp:
    """The path. Bodies are read one at a time, by the thread of posts.

    ``token`` returns the required token, "" for none; it may raise ValueError.
    """

    def __init__(self, receiver: TelemetryReceiver, token: Callable[[], str]) -> None:
        self._receiver = receiver
        self._token = token

    def refusal(self, request: Request) -> Answer | None:
        """Return why the head is refused. May read the file of the token."""
        try:
            check_request(request, self._token, (PROTOBUF, JSON), MOST_BYTES)
        except RefusedError as error:
            return _refused(request, error)
        return None

    def __call__(self, request: Request, body: bytes) -> Answer:
        """200, with how many points were refused and why, or why the body is refused."""
        kind = _kind(request)
        tally = PointTally()
        try:
            about = _about(request)
            self._receiver.admit()
            self._receiver.take(decode(_decompressed(request, body), kind, tally), about, tally)
        except (RefusedError, OtlpError) as error:
            return _refused(request, error)
        return Answer(200, response(kind, tally.refused, tally.why), kind)


def _kind(request: Request) -> str:
    """The content type of the answer: that of the request, or JSON where that is none of ours."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if kind == PROTOBUF else JSON


def _refused(request: Request, error: RefusedError | OtlpError) -> Answer:
    where = {"path": request.path, "client": request.client}
    log.debug("refused: %d %s", error.status, error, extra=where)
    kind = _kind(request)
    refusal = status(kind, _CODES.get(error.status, 2), str(error))
    return Answer(error.status, refusal, kind, ADVICE.get(error.status, {}))


def _about(request: Request) -> About:
    """Return the client by the headers. Raises RefusedError."""
    found = {}
    for name, field in _HEADERS.items():
        text = unquote(request.headers.get(name, ""), errors="replace")
        if len(text) > LONGEST_TEXT or not text.isprintable():
            raise RefusedError(400, f"the header {name} must be at most {LONGEST_TEXT} printable characters")
        found[field] = text
    interval = request.headers.get("kafka-push-interval-ms", "")
    good = interval.isascii() and interval.isdecimal() and len(interval) <= 9
    return About(
        **found,
        interval=int(interval) / 1000 if good and int(interval) else None,
        terminating=request.headers.get("kafka-client-terminating", "").lower() == "true",
        whole=bool(found["instance"]),
    )


def _decompressed(request: Request, body: bytes) -> bytes:
    """The body, decompressed within ``MOST_BYTES``. Raises RefusedError."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in {"identity", ""}:
        return body
    if encoding != "gzip":
        raise RefusedError(415, "Content-Encoding must be gzip or none")
    stream = zlib.decompressobj(wbits=31)
    try:
        content = stream.decompress(body, MOST_BYTES + 1)
    except zlib.error:
        raise RefusedError(400, "is not the gzip that it says it is") from None
    if len(content) > MOST_BYTES:
        raise RefusedError(413, f"is more than {MOST_BYTES // 1024 // 1024} MB once decompressed: send smaller batches")
    if not stream.eof or stream.unused_data:
        raise RefusedError(400, "is not one whole member of gzip")
    return content
