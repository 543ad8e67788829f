"""One client's connection: uvicorn's HTTP protocol over llhttp, with limits of time and size."""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Collection
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from exporter.web_server.hosts import is_host
from exporter.web_server.messages import refused
from exporter.web_server.tls import Tls

MAX_HEAD_BYTES = 16 * 1024
MAX_HEADERS = 100
"""Headers of a request: each takes some 200 bytes besides its text."""

_ONCE = frozenset({b"authorization", b"content-length", b"content-type", b"expect", b"host", b"origin"})
_PLAIN_ON_TLS = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"This port speaks HTTPS only.\n"
)


class Limits(NamedTuple):
    """Seconds: for a handshake or the head of a request, for the rest of it with its answer, between two requests."""

    head: float = 10.0
    answer: float = 30.0
    rest: float = 120.0


DEFAULT_LIMITS = Limits()


class Connection(HttpToolsProtocol):
    """One client. Whatever takes longer than its limit is cut off, also where the client reads nothing more."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        limits: Limits,
        *,
        tls: Tls | None,
        most: int,
        loopback: Collection[tuple[str, int]],
    ) -> None:
        """``most`` connections are served; ``loopback`` are the addresses of listeners that only this machine
        reaches.
        """
        super().__init__(config, server_state, app_state, asyncio.get_running_loop())
        self.access_log = False
        self._limits, self._tls, self._most, self._listeners_on_loopback = limits, tls, most, loopback
        self._timer: asyncio.TimerHandle | None = None
        self._head = 0  # bytes of the head that is arriving
        self._in_head = True
        self._whole = False  # the request has arrived to its end
        self._at_rest = self._broken = False

    def _cut_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 -- asyncio's transports share no useful type
        super().connection_made(transport)
        self._cut_in(self._limits.head)
        self.app_state = {"loopback": self.server in self._listeners_on_loopback}
        if self._tls is not None and not self._tls.admits(transport.get_extra_info("ssl_object")):
            transport.abort()
        elif len(self.connections) > self._most:  # uvicorn's own limit counts a connection once it has sent a head
            self._refuse(503)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._broken = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._broken:
            return
        if self._at_rest or self._in_head:
            self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > MAX_HEAD_BYTES:
            self._refuse(431)

    def on_message_begin(self) -> None:
        if self.cycle and not self.cycle.response_complete:
            raise ValueError("a request before the answer to the last one")
        super().on_message_begin()
        self._at_rest = self._whole = False
        self._in_head = True
        self._cut_in(self._limits.head)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            raise ValueError("too many headers")

    def on_headers_complete(self) -> None:
        counts = Counter(name for name, _ in self.headers)
        version = self.parser.get_http_version()
        if (
            version not in {"1.0", "1.1"}
            or not self.url.startswith(b"/")  # an absolute URI, an asterisk: a proxy may read another path in it
            or self.url.startswith(b"//")
            or b"#" in self.url
            or b"transfer-encoding" in counts
            or any(counts[name] > 1 for name in _ONCE)
            or (version == "1.1" and not counts[b"host"])
            or any(name == b"host" and not is_host(value.decode("latin-1")) for name, value in self.headers)
            or len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES
        ):
            raise ValueError("a request that can be read in two ways, or with too long a head")
        super().on_headers_complete()
        self._in_head = False
        self._head = 0
        self._cut_in(self._limits.answer)
        if self.parser.should_upgrade():  # llhttp reads nothing behind it, not even a body
            self.cycle.keep_alive = False
            self._broken = True
        if any(name == b"content-length" and value.strip(b"0") for name, value in self.headers):
            self.flow.pause_reading()  # until the application asks for the body, or has answered without it

    def on_message_complete(self) -> None:
        self._whole = True
        super().on_message_complete()
        if self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()  # that timer waits for a client that does not read
        if self._whole and not self.transport.is_closing():
            self._rest()
        else:  # a body that nobody wants, or the end of the answer on its way
            self._cut_in(self._limits.head)

    def _rest(self) -> None:
        self._at_rest = True
        self._cut_in(self._limits.rest)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 -- uvicorn's words
        self._refuse(431 if self._in_head and self._head > MAX_HEAD_BYTES else 400)

    def _refuse(self, status: int) -> None:
        """Refuse what was sent and close the connection. An earlier request is answered first."""
        self._broken = True
        if self.cycle and not self.cycle.response_complete:
            self.flow.pause_reading()
            self.cycle.keep_alive = False
            return
        answer = refused(status)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"content-type: {answer.content_type}",
            f"content-length: {len(answer.body)}",
            "connection: close",
        )
        self.transport.write("\r\n".join((*head, "", "")).encode() + answer.body)
        self.transport.close()


class Handshake(SSLProtocol):
    """TLS around a connection. One more than ``most`` is closed before its handshake, which takes the time of 50
    requests.
    """

    def __init__(self, connection: Connection, tls: Tls, seconds: float, opened: set[Handshake], most: int) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            connection,
            tls.context,
            None,  # type: ignore[arg-type]  # nobody waits for the handshake, which may be so
            server_side=True,
            ssl_handshake_timeout=seconds,  # type: ignore[arg-type]  # typeshed has whole seconds
            ssl_shutdown_timeout=seconds,
        )
        self._opened, self._most = opened, most
        self._raw: asyncio.Transport | None = None
        self._begun = False

    def abort(self) -> None:
        """Close the connection without more words."""
        if self._raw is not None:
            self._raw.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._raw = transport
        if len(self._opened) >= self._most:
            transport.abort()
            return
        self._opened.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._opened.discard(self)
        super().connection_lost(exc)

    def buffer_updated(self, nbytes: int) -> None:
        first, self._begun = not self._begun, True
        if first and self._raw is not None and bytes(self.get_buffer(nbytes)[:1]).isupper():  # a method of HTTP
            self._raw.write(_PLAIN_ON_TLS)
            self._raw.close()
        else:
            super().buffer_updated(nbytes)
