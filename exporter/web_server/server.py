"""The HTTP server: uvicorn on a thread of its own, on one or several addresses, with fixed limits."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import threading
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from exporter.settings.values import is_loopback
from exporter.web_server.connection import DEFAULT_LIMITS, Connection, Handshake, Limits
from exporter.web_server.tls import Tls

log = logging.getLogger(__name__)

Application = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]
"""An application of ASGI 3."""

MAX_CONNECTIONS = 128
"""Largest number of connections, and at most a quarter of the files that the process may open: brokers need some as
well.
"""

BACKLOG = 128
STOP_SECONDS = 1
TLS_READ_BYTES = 16 * 1024

SEND_BUFFER_BYTES = 64 * 1024
"""The kernel's buffer of a connection, which takes twice this. A pod pays for it, and the kernel itself would let it
grow to 4 MB (``tcp_wmem``) for each client that does not read.
"""


_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ListenError(Exception):
    """The address cannot be listened on; the text names it and says why."""


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, which does not look ten times a second whether it shall stop: that is a tenth of the processor
    time of an agent at rest.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)  # headers of every answer
        await self.stop.wait()


class Server:
    """An application on one or several addresses. ``open`` binds and serves in the background until ``close``."""

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        app: Application,
        tls: Callable[[], Tls | None] = lambda: None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """``addresses`` are pairs of host and port; host "" is every address of the machine, port 0 a free one.

        ``tls`` is called at each new connection: None is plain HTTP.
        """
        self.ports: list[int] = []  # where it listens, once open
        self._addresses, self._tls, self._limits = addresses, tls, limits
        self._most = min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self._loopback: set[tuple[str, int]] = set()  # addresses that only this machine reaches
        self._listeners: list[socket.socket] = []
        self._handshakes: set[Handshake] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # What clients do wrong is no line of the log, and the application logs its own errors.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        # Each TLS session keeps a buffer of this size for its reads, 256 kB otherwise.
        SSLProtocol.max_size = TLS_READ_BYTES
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", self._protocol),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,  # the application has it: uvicorn would wake up for it
            headers=[("Server", "kafka-eos-exporter")],
            backlog=BACKLOG,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        self._server = _Uvicorn(config)

    def open(self) -> None:
        """Listen on all addresses or on none. Raises ListenError."""
        try:
            for host, port in self._addresses:
                self._listeners.append(_bound(host, port))
                self.ports.append(int(self._listeners[-1].getsockname()[1]))
        except ListenError:
            for listener in self._listeners:
                listener.close()
            self._listeners.clear()
            raise
        names = [listener.getsockname()[:2] for listener in self._listeners]
        self._loopback = {name for name, (host, _) in zip(names, self._addresses, strict=True) if is_loopback(host)}
        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name="http", daemon=True)
        self._thread.start()
        for (host, _), port in zip(self._addresses, self.ports, strict=True):
            log.info("listening on %s", _written(host, port))

    def close(self) -> None:
        """Stop; requests in progress may finish for a second. Returns within about two."""
        if self._loop is None or self._thread is None:
            return
        with contextlib.suppress(RuntimeError):  # it ended by itself
            self._loop.call_soon_threadsafe(self._server.stop.set)
        self._thread.join(STOP_SECONDS + 1.0)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_tell)
        await self._server.serve(sockets=self._listeners)
        # What did not end in time: uvicorn leaves its transports open, and does not know those without a handshake.
        for transport in [conn.transport for conn in self._server.server_state.connections]:
            transport.abort()
        for handshake in list(self._handshakes):
            handshake.abort()
        await asyncio.sleep(0)

    def _protocol(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], _loop: object
    ) -> asyncio.BaseProtocol:
        """The protocol of a new connection, by the certificates that are in force now."""
        tls = self._tls()
        connection = Connection(
            config, server_state, app_state, self._limits, tls=tls, most=self._most, loopback=self._loopback
        )
        return Handshake(connection, tls, self._limits.head, self._handshakes, self._most) if tls else connection


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ListenError."""
    everywhere = not host and socket.has_dualstack_ipv6()
    refused: OSError | None = None
    try:
        found = socket.getaddrinfo(
            "::" if everywhere else host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        found, refused = [], error
    for family, _, _, _, address in found:
        try:
            listener = socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=everywhere)
        except OSError as error:
            refused = refused or error
        else:
            # For its connections. Without TCP_NODELAY the end of an answer waits 40 ms for an acknowledgement.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            return listener
    number = refused.errno if refused else None
    why = os.strerror(number) if number and number > 0 else str(refused.strerror if refused else "no such address")
    raise ListenError(f"cannot listen on {_written(host, port)}: {why.lower()}") from refused


def _written(host: str, port: int) -> str:
    """The address as it is written: ``127.0.0.1:10618``, ``[::1]:10618``, ``:10618``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log uncaught exceptions of the loop: those caused by clients at debug level, others as errors."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in _NO_RESOURCES:
        log.warning("cannot accept connections for a second: %s", error.strerror)
    elif isinstance(error, OSError):
        log.debug("%s: %s", context.get("message"), error)
    else:
        log.error("%s", context.get("message"), exc_info=error)
