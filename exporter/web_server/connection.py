"""One client's connection: uvicorn's HTTP protocol over llhttp, with bounds in bytes and in time.

llhttp, the parser of Node.js, parses every request; further refusals are made here on its result. An incomplete request
holds its bytes and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from exporter.web_server.hosts import is_host, network_of
from exporter.web_server.messages import refused
from exporter.web_server.tls import Tls

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 64 * 1024
MAX_TELEMETRY_BYTES = 1024 * 1024
"""Largest body of ``/v1/metrics``: what a Kafka broker takes from a client at once (``telemetry.max.bytes``)."""
MAX_PIPELINED = 16
"""Largest number of pipelined requests of one connection."""

REQUEST_BYTES = 3000
"""Memory of a request besides its texts."""
HEADER_BYTES = 200
"""Memory of a header besides its texts: the objects that hold them."""

PIECE_BYTES = 4096
"""Bytes given to llhttp at once."""

READ_BUFFER_BYTES = 16 * 1024
"""Bytes that TLS decrypts ahead while nothing is read."""

WRITE_BUFFER_BYTES = 64 * 1024
"""Bytes buffered for a client that reads slowly, besides the kernel's buffer."""

_ONCE = frozenset({b"authorization", b"content-length", b"content-type", b"expect", b"host", b"origin"})

Headers = Sequence[tuple[bytes, bytes]]


class Limits(NamedTuple):
    """Seconds: for a handshake and a request to arrive, for its answer, between two requests, and for the answer to a
    client that closed its sending half.
    """

    arrival: float = 10.0
    exchange: float = 30.0
    rest: float = 120.0
    half_closed: float = 5.0


DEFAULT_LIMITS = Limits()


class Watcher(Protocol):
    """The part of the server that connections use."""

    limits: Limits

    def holds(self, connection: Connection, size: int) -> None:
        """Note the bytes of its unanswered requests, and close connections when the sum is too large."""

    def takes(self, connection: Connection, body: bytes, sent: int) -> None:
        """Note how many bytes of a large body were sent to it, b"" after the last one, and close slow readers when the
        bodies are too much together.
        """

    def left(self, connection: Connection) -> None:
        """Remove it: it is closed."""


class Connection(HttpToolsProtocol):
    """One client, from the moment that it is accepted. For the event loop's thread."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        watcher: Watcher,
        sock: socket.socket,
        client: str,
        *,
        loopback: bool,
        tls: Tls | None,
    ) -> None:
        taking = weakref.WeakMethod(self._takes)  # a cycle would wait for the garbage collector
        given = {"loopback": loopback, "taking": lambda body, sent: bool((takes := taking()) and takes(body, sent))}
        super().__init__(config, state, given, asyncio.get_running_loop())
        self.access_log = False
        self.address, self.network = client, network_of(client)
        self.tls = tls
        self.entering: asyncio.Task[None] | None = None
        self.entered = False  # it has a transport, which reports the end
        self._served = self.app
        self._running: RequestResponseCycle | None = None  # later requests of the connection wait in its pipeline
        self._watcher, self._limits, self._socket = watcher, watcher.limits, sock
        self.descriptor = sock.fileno()  # TLS closes the socket before it says so
        self._timer: asyncio.TimerHandle | None = None
        self._requests = 0
        self._head = self._fields = 0  # bytes of the request that is arriving
        self._held = 0  # the memory that it takes
        self._owed: deque[int] = deque()  # memory of whole requests that are not answered, the running one included
        self._skipped = 0  # bytes of a body that llhttp does not consume
        self._at_rest = self._broken = self._gone = self._in_head = self._whole = False
        self.cut_in(self._limits.arrival)

    # --- Timeouts -----------------------------------------------------------------------------------------------------

    def cut_in(self, seconds: float) -> None:
        """Close it after so many seconds; replaces the earlier timeout."""
        if self._timer is not None:
            self._timer.cancel()
        if self._gone:
            return
        self._timer = self.loop.call_later(seconds, self.cut)

    def cut(self) -> None:
        """Close it now, in any state."""
        if self.entering is not None:
            self.entering.cancel()
        if self.entered:
            self.transport.abort()
        elif self.entering is None:
            self.drop()
        self._forget()

    def drop(self) -> None:
        """Close a socket that never became a connection of HTTP."""
        if self._socket.fileno() >= 0:
            self.loop.remove_reader(self._socket.fileno())
            with contextlib.suppress(OSError):
                self._socket.close()
        self.parser = None  # type: ignore[assignment]  # as uvicorn does: a cycle would wait for the garbage collector
        self._forget()

    @property
    def answering(self) -> bool:
        """Return whether one of its requests waits for an answer."""
        return self._requests > 0 and bool(self.cycle) and not self.cycle.response_complete

    # --- Life cycle
    # -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 -- asyncio's transports share no useful type
        super().connection_made(transport)
        self.entered = True
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if secured is not None:
            transport.set_read_buffer_limits(high=READ_BUFFER_BYTES)
        if self.tls is not None and (secured is None or not self.tls.admits(secured)):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._running is not None and not self._running.response_complete:
            # uvicorn tells the last request only: an earlier one would write to a TLS transport that is gone.
            self._running.disconnected = True
            self._running.message_event.set()
        self._unset_keepalive_if_required()  # uvicorn does so unless it was reset: its timer would hold it for a day
        super().connection_lost(exc)
        # What waited is freed now: not after the running request, which may take long, nor by the garbage collector.
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None:
                cycle.on_response = _nothing
        self._broken = True
        self._forget()

    def _forget(self) -> None:
        self._gone = True
        if self._timer is not None:
            self._timer.cancel()
        self._watcher.left(self)

    def _takes(self, body: bytes, sent: int) -> bool:
        if not self._gone:
            self._watcher.takes(self, body, sent)
        return not self._gone

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio.Protocol has it
        """Answer a client that closed its sending half; returns whether the connection stays open for that.

        One that closed the whole connection looks the same until something is sent to it.
        """
        if self.tls is not None or not self.answering:
            return False
        last = self.pipeline[0][0] if self.pipeline else self.cycle
        last.keep_alive = False
        self._limits = self._limits._replace(exchange=min(self._limits.half_closed, self._limits.exchange))
        self.cut_in(self._limits.exchange)
        return True

    # --- A request arrives --------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._broken:
            return
        if self._at_rest:
            self._at_rest = False
            self.cut_in(self._limits.arrival)
        if not self._requests and not data[:1].isupper():  # llhttp skips empty lines before a method
            self.send_400_response("")
            return
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("")
            return
        self._count()

    def _count(self) -> None:
        """Tell the server how many bytes of unanswered requests this connection holds."""
        if self._gone:
            return
        arriving = 0 if self._whole else max(self._head, self._held)
        self._watcher.holds(self, arriving + sum(self._owed))

    def _feed(self, data: bytes) -> None:
        """Give the data to llhttp in pieces, so that the size of an unfinished head is known with that accuracy."""
        while data and not self._broken:
            if self._skipped:
                data = self._skip(data)
                continue
            before = self._requests
            piece, data = data[:PIECE_BYTES], data[PIECE_BYTES:]
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:  # a request to upgrade the protocol, which is refused
                data = piece[upgrade.args[0] :] + data
            if self._in_head and self._requests == before:
                self._head += len(piece)
                self._check_head()

    def _skip(self, data: bytes) -> bytes:
        """Consume the body of a request that asked for another protocol; return the rest."""
        size = min(self._skipped, len(data))
        self._skipped -= size
        self.on_body(data[:size])
        if not self._skipped:
            self._complete()
        return data[size:]

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests wait")
        self._requests += 1
        self._head = self._fields = 0
        self._held = REQUEST_BYTES
        self._whole, self._in_head = False, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._fields += len(url)
        self._held += len(url)
        self._check_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._fields += len(name) + len(value) + 4
        self._held += len(name) + len(value) + HEADER_BYTES
        self._check_head()

    def _check_head(self) -> None:
        if max(self._head, self._fields) > MAX_HEAD_BYTES:
            raise httptools.HttpParserError("the head is too long")

    def on_headers_complete(self) -> None:
        self._in_head = False
        length = _length(self.headers)
        status = _problem(self.url, self.parser.get_http_version(), self.headers, length)
        self.app = self._served if status is None else _refusing(status)
        if self.parser.should_upgrade() and status is None:
            self._skipped = length
        super().on_headers_complete()
        # Measured: one character beyond the BMP makes each of a decoded path take four bytes.
        copies = self.scope["path"], self.scope["raw_path"], self.scope["query_string"]
        self._held += sum(map(sys.getsizeof, copies))

    def on_body(self, body: bytes) -> None:
        self._held += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._skipped:
            self._complete()

    def _complete(self) -> None:
        self._whole = True
        if self.answering:
            self._owed.append(self._held)
        super().on_message_complete()
        if self.answering:
            self.cut_in(self._limits.exchange)
        else:
            self._rest()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Callable[..., Any]) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 -- uvicorn's words
        """Refuse an invalid request and close the connection; earlier requests are answered first."""
        self._broken = True
        if self.answering:
            self.flow.pause_reading()
            last = self.pipeline[0][0] if self.pipeline else self.cycle
            last.keep_alive = False
            return
        status = 400
        if max(self._head, self._fields) > MAX_HEAD_BYTES:
            status = 413 if self.headers else 414
        answer = refused(status)
        head = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            *(f"{name.decode()}: {value.decode()}" for name, value in self.server_state.default_headers),
            f"content-type: {answer.content_type}",
            f"content-length: {len(answer.body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join((*head, "", "")).encode() + answer.body)
        self.transport.close()

    def on_response_complete(self) -> None:
        if self._owed:  # else the answer came before the whole request
            self._owed.popleft()
        super().on_response_complete()
        if self._owed:
            self.cut_in(self._limits.exchange)
        elif self._whole:
            self._rest()
        else:
            self.cut_in(self._limits.arrival)
        self._count()

    def _rest(self) -> None:
        self._at_rest = True
        # An answered request takes no memory until the next one.
        self.headers, self.scope, self.cycle, self._running = [], None, None, None  # type: ignore[assignment]
        self.url = b""
        self.cut_in(self._limits.rest)


def _nothing() -> None:
    """No answer is completed for a client that left."""


def _length(headers: Headers) -> int:
    """Content-Length, which llhttp has checked; 0 without one."""
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


def _problem(target: bytes, version: str, headers: Headers, length: int) -> int | None:
    """The status that refuses a request which llhttp accepts; None for one that may be served."""
    if version not in {"1.0", "1.1"}:
        return 505
    if not target.startswith(b"/") or target.startswith(b"//") or b"#" in target:
        return 400  # an absolute URI, an asterisk: a proxy may read another path in it
    counts = Counter(name for name, _ in headers)
    if b"transfer-encoding" in counts or any(counts[name] > 1 for name in _ONCE):
        return 400
    if version == "1.1" and not counts[b"host"]:
        return 400
    if any(name == b"host" and not is_host(value.decode("latin-1")) for name, value in headers):
        return 400
    telemetry = target.partition(b"?")[0].endswith(b"/v1/metrics")
    return 413 if length > (MAX_TELEMETRY_BYTES if telemetry else MAX_BODY_BYTES) else None


def _refusing(status: int) -> Callable[..., Any]:
    """An application that answers every request with this status and ends the connection."""
    answer = refused(status)

    async def application(_scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401 -- ASGI
        headers = [
            (b"content-type", answer.content_type.encode()),
            (b"content-length", b"%d" % len(answer.body)),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    return application
