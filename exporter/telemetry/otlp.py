"""``POST /v1/metrics``: OTLP over HTTP, in protobuf or JSON, as KIP-714 receivers and OpenTelemetry exporters send it.

Answers are those of the OTLP specification: an ExportMetricsServiceResponse in the encoding of the request, with
``partial_success`` where data points were refused; a ``google.rpc.Status`` for a request that is refused as a whole. Of
the statuses used here an exporter repeats the request after 429 and 503 only.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from urllib.parse import unquote

from exporter.bounds.memory import one_heavy_at_a_time
from exporter.ingest.admission import ADVICE, check_request
from exporter.ingest.latest import RefusedError
from exporter.telemetry import json_form, protobuf
from exporter.telemetry.clients import About, TelemetryReceiver
from exporter.telemetry.points import LONGEST_TEXT, OtlpError, PointTally
from exporter.web_server.messages import Answer, Request

log = logging.getLogger(__name__)

PATH = "/v1/metrics"
MAX_BYTES = 1024 * 1024
"""Largest body: what a Kafka broker takes from a client at once (``telemetry.max.bytes``)."""
MOST_BYTES = 4 * 1024 * 1024
"""Largest body once it is decompressed."""
MOST_MEMBERS = 100
_WEIGHT = 8  # bytes of memory that a byte of a decompressed body takes
_FORMS: Mapping[str, ModuleType] = {"application/x-protobuf": protobuf, "application/json": json_form}
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
    """The path. Any thread may call it. ``token`` returns the required token, "" for none; it may raise ValueError."""

    def __init__(self, receiver: TelemetryReceiver, token: Callable[[], str]) -> None:
        self._receiver = receiver
        self._token = token

    def refusal(self, request: Request) -> Answer | None:
        """Return why the head is refused. May read the file of the token."""
        try:
            check_request(request, self._token, tuple(_FORMS), MAX_BYTES)
        except RefusedError as error:
            return _refused(request, error)
        return None

    def __call__(self, request: Request, body: bytes) -> Answer:
        """200, with how many points were refused and why, or why the body is refused."""
        kind = _kind(request)
        form, tally = _FORMS[kind], PointTally()
        try:
            about = _about(request)
            self._receiver.admit()
            content = _decompressed(request, body)
            with one_heavy_at_a_time(len(content) * _WEIGHT):
                self._receiver.take(form.decode(content, tally), about, tally)
        except (RefusedError, OtlpError) as error:
            return _refused(request, error)
        return Answer(200, form.response(tally.refused, tally.why), kind)


def _kind(request: Request) -> str:
    """The content type of the answer: that of the request, or JSON where that is none of ours."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if kind in _FORMS else "application/json"


def _refused(request: Request, error: RefusedError | OtlpError) -> Answer:
    where = {"path": request.path, "client": request.client}
    log.debug("refused: %d %s", error.status, error, extra=where)
    kind = _kind(request)
    refusal = _FORMS[kind].status(_CODES.get(error.status, 2), str(error))
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
    content = b"".join(_members(body))
    if len(content) > MOST_BYTES:
        raise RefusedError(413, f"is more than {MOST_BYTES // 1024 // 1024} MB once decompressed: send smaller batches")
    return content


def _members(body: bytes) -> Iterator[bytes]:
    """The members of a gzip, until one byte more than ``MOST_BYTES``. Raises RefusedError."""
    left = MOST_BYTES + 1
    members = 0
    while body and left:
        members += 1
        if members > MOST_MEMBERS:  # each copies what is left of the body
            raise RefusedError(400, f"is a gzip of more than {MOST_MEMBERS} members")
        member = zlib.decompressobj(wbits=31)
        try:
            content = member.decompress(body, left)
        except zlib.error:
            raise RefusedError(400, "is not the gzip that it says it is") from None
        left -= len(content)
        if left and not member.eof:
            raise RefusedError(400, "is a gzip that is cut off")
        yield content
        body = member.unused_data
