"""The HTTP server: one thread with an event loop, several addresses, and fixed limits.

A connection costs a socket until its first byte, a TLS session until its handshake is done, and the bytes of its
request until that is complete. Nothing on the loop's thread waits, and a round of the loop is short (``Turns``). Above
the limit of connections, each new one closes one of the client network with the most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import resource
import socket
import threading
import time
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from exporter.bounds.ledger import Ledger
from exporter.web_server.connection import DEFAULT_LIMITS, Connection, Limits
from exporter.web_server.hosts import is_loopback
from exporter.web_server.tls import Tls
from exporter.web_server.turns import Turns
from exporter.words import HeldBytes

log = logging.getLogger(__name__)

Application = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]
"""An application of ASGI 3."""

ClientConnections = dict[Connection, None]
"""Connections of one client's network, oldest first."""

MAX_CONNECTIONS = 256
"""Largest number of connections, and at most a quarter of the files that the process may open: brokers need some as
well.
"""

BACKLOG = 1024
"""Backlog of the kernel; further clients retry a second later."""

TWO_BODIES = 2
"""Bodies as long as the newest one that are never too much: a reader may still take the one before."""

ACCEPTS_AT_ONCE = 2
STOP_SECONDS = 1.0
TLS_READ_BYTES = 16 * 1024

SEND_BUFFER_BYTES = 64 * 1024
"""The kernel's buffer of a connection, which takes twice this. It is in no budget, a pod pays for it, and the kernel
itself would let it grow to 4 MB (``tcp_wmem``) for each client that does not read.
"""

RATE_SECONDS = 1.0
"""How long a client reads a large body before its rate is known."""
_HELLO_BYTES = 6
_LONGEST_RECORD = 1 << 14
_PLAIN_ON_TLS = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"This port speaks HTTPS only.\n"
)


class ListenError(Exception):
    """The address cannot be listened on; the text names it and says why."""


class _BodyReader:
    """How much a client has taken of a large body, and since when (monotonic)."""

    __slots__ = ("body", "sent", "since")

    def __init__(self, body: bytes) -> None:
        self.body, self.sent, self.since = body, 0, time.monotonic()

    @property
    def rate(self) -> float:
        """Bytes a second so far; infinite for a reader that has just begun, whose rate is not known yet."""
        seconds = time.monotonic() - self.since
        return math.inf if seconds < RATE_SECONDS else self.sent / seconds


class Server:
    """An application on one or several addresses. ``open`` binds and serves in the background until ``close``."""

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        app: Application,
        tls: Callable[[], Tls | None] = lambda: None,
        limits: Limits = DEFAULT_LIMITS,
        ledger: Ledger | None = None,
    ) -> None:
        """``addresses`` are pairs of host and port; host "" is every address of the machine, port 0 a free one.

        ``tls`` is called at each new connection: None is plain HTTP. ``ledger`` has the bytes that clients cause.
        """
        self._ledger = ledger or Ledger()
        self.limits = limits
        self.ports: list[int] = []  # where it listens, once open
        self.most_connections = min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self._addresses, self._tls = addresses, tls
        self._listeners: list[tuple[socket.socket, bool]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = Turns()
        self._thread: threading.Thread | None = None
        self._open: dict[str, ClientConnections] = {}  # by client's network
        self._pending: dict[Connection, int] = {}  # bytes, last changed at the end
        self._pending_bytes = 0
        self._readers: dict[Connection, _BodyReader] = {}
        self._all_left: asyncio.Event | None = None
        self._state = ServerState()
        self._state.default_headers = [(b"server", b"kafka-eos-exporter")]
        self._config = Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=24 * 3600,  # the connection itself ends it earlier
        )

    # --- Life cycle
    # ---------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Listen on all addresses or on none. Raises ListenError."""
        self.ports.clear()
        try:
            for host, port in self._addresses:
                listener = _bound(host, port)
                self._listeners.append((listener, is_loopback(host)))
                self.ports.append(int(listener.getsockname()[1]))
        except ListenError:
            self._close_listeners()
            raise
        # Otherwise each TLS session keeps 256 kB for its reads.
        SSLProtocol.max_size = TLS_READ_BYTES
        self._config.load()
        self._loop = loop = asyncio.SelectorEventLoop(self._turns)
        loop.set_exception_handler(_tell)
        for listener, loopback in self._listeners:
            loop.add_reader(listener, self._accept, listener, loopback)
        self._thread = threading.Thread(target=self._run, args=(loop,), name="http", daemon=True)
        self._thread.start()
        for (host, _), port in zip(self._addresses, self.ports, strict=True):
            log.info("listening on %s", _written(host, port))

    def close(self) -> None:
        """Stop; requests in progress may finish for a second. Returns within about two."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        loop = self._loop
        with contextlib.suppress(RuntimeError):  # it ended by itself
            loop.call_soon_threadsafe(lambda: loop.create_task(self._stop(loop)))
        self._thread.join(STOP_SECONDS + 1.0)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.close()

    async def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        for listener, _ in self._listeners:
            loop.remove_reader(listener)
        self._close_listeners()
        for conn in self._connections():
            if conn.answering:
                conn.shutdown()
            else:
                conn.cut()
        self._all_left = asyncio.Event()
        if self._open:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_left.wait(), STOP_SECONDS)
        for conn in self._connections():
            conn.cut()
        await asyncio.sleep(0)  # the connections hear of their end before their requests do
        tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.2) if tasks else await asyncio.sleep(0)
        loop.stop()

    def _connections(self) -> list[Connection]:
        return [conn for of_client in self._open.values() for conn in of_client]

    def _close_listeners(self) -> None:
        for listener, _ in self._listeners:
            listener.close()

    # --- Accepting ------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket, loopback: bool) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:  # no file descriptor is left: pending clients are accepted later
                log.warning("cannot accept connections for a second: %s", error.strerror)
                self._pause(listener, loopback)
                return
            sock.setblocking(False)
            tls = self._tls()
            if tls is not None and _begins_no_handshake(sock):
                sock.close()
            else:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
                self._admit(sock, str(address[0]), loopback, tls)

    def _pause(self, listener: socket.socket, loopback: bool) -> None:
        assert self._loop is not None  # noqa: S101 -- it accepts only while it runs
        loop = self._loop
        loop.remove_reader(listener)
        loop.call_later(
            1.0, lambda: listener.fileno() >= 0 and loop.add_reader(listener, self._accept, listener, loopback)
        )

    def _admit(self, sock: socket.socket, client: str, loopback: bool, tls: Tls | None) -> None:
        assert self._loop is not None  # noqa: S101 -- as above
        if sum(map(len, self._open.values())) >= self.most_connections:
            self._connection_to_close(self._open.values()).cut()
        conn = Connection(self._config, self._state, self, sock, client, loopback=loopback, tls=tls)
        self._turns.clients[conn.descriptor] = conn
        self._open.setdefault(conn.network, {})[conn] = None
        if tls is None:
            self._enter(conn, sock)
        else:
            self._loop.add_reader(conn.descriptor, self._begin_tls, conn, sock)

    def _begin_tls(self, conn: Connection, sock: socket.socket) -> None:
        """Make a session of TLS: there are bytes for it, and it is the turn of this client."""
        assert self._loop is not None  # noqa: S101 -- as above
        if _begins_no_handshake(sock):
            conn.drop()
        else:
            # By number: asyncio writes out a socket, addresses included, in an error that it catches itself.
            self._loop.remove_reader(conn.descriptor)
            self._enter(conn, sock)

    def _enter(self, conn: Connection, sock: socket.socket) -> None:
        assert self._loop is not None  # noqa: S101 -- as above
        conn.entering = self._loop.create_task(self._connect(conn, sock))

    async def _connect(self, conn: Connection, sock: socket.socket) -> None:
        """Pass the socket to asyncio, which does the TLS handshake first."""
        loop = asyncio.get_running_loop()
        try:
            if conn.tls is None:
                await loop.connect_accepted_socket(lambda: conn, sock)
            else:
                seconds = self.limits.arrival
                await loop.connect_accepted_socket(
                    lambda: conn,
                    sock,
                    ssl=conn.tls.context,
                    ssl_handshake_timeout=seconds,
                    ssl_shutdown_timeout=seconds,
                )
        except OSError as error:
            log.debug("a client did not get in: %s", error, extra={"client": conn.address})
            error.__traceback__ = None  # its frames refer to it: the TLS session would stay until garbage collection
        finally:
            conn.entering = None
            if not conn.entered:
                conn.drop()

    @staticmethod
    def _connection_to_close(clients: Iterable[ClientConnections]) -> Connection:
        """The connection to close: of the client network with the most, the oldest without a request in progress."""
        most = max(clients, key=len)
        return next((conn for conn in most if not conn.answering), next(iter(most)))

    # --- Reports of connections ------------------------------------------------------------------------------------

    def holds(self, connection: Connection, size: int) -> None:
        """Note the bytes of its unanswered requests, and close connections when the sum is too large."""
        self._pending_bytes += size - self._pending.pop(connection, 0)
        if size:
            self._pending[connection] = size
        while self._pending_bytes > self._ledger.limits[HeldBytes.REQUESTS]:
            of_clients: Counter[str] = Counter()
            for waiting, held in self._pending.items():
                of_clients[waiting.network] += held
            most = max(of_clients, key=of_clients.__getitem__)
            next(waiting for waiting in self._pending if waiting.network == most).cut()
        self._ledger.held[HeldBytes.REQUESTS] = self._pending_bytes

    def takes(self, connection: Connection, body: bytes, sent: int) -> None:
        """Note how many bytes of a large body were sent to it, b"" after the last one.

        /metrics is another body every second, and each stays in memory while somebody reads it. When they are too much
        together, the slowest readers are closed, but none of the newest body.
        """
        reader = self._readers.get(connection)
        if reader is not None and reader.body is body:
            reader.sent = sent
            return
        self._readers.pop(connection, None)
        if body:
            self._readers[connection] = _BodyReader(body)
            most = max(self._ledger.limits[HeldBytes.ANSWERS], TWO_BODIES * len(body))
            while self._taken_bytes() > most:
                older = (reader for reader in self._readers.items() if reader[1].body is not body)
                min(older, key=lambda reader: reader[1].rate)[0].cut()
        self._ledger.held[HeldBytes.ANSWERS] = self._taken_bytes()

    def _taken_bytes(self) -> int:
        return sum({id(reader.body): len(reader.body) for reader in self._readers.values()}.values())

    def left(self, connection: Connection) -> None:
        """Remove it: it is closed."""
        self.holds(connection, 0)
        self.takes(connection, b"", 0)
        of_client = self._open.get(connection.network, {})
        of_client.pop(connection, None)
        if self._turns.clients.get(connection.descriptor) is connection:  # it may be that of another one by now
            del self._turns.clients[connection.descriptor]
        if not of_client:
            self._open.pop(connection.network, None)
        if self._all_left and not self._open:
            self._all_left.set()


def _begins_no_handshake(sock: socket.socket) -> bool:
    """Return whether the client has closed the connection, or sent what is no TLS; one of plain HTTP is told so."""
    try:
        first = sock.recv(_HELLO_BYTES, socket.MSG_PEEK)
        if first[:1].isupper():  # a method of HTTP
            sock.send(_PLAIN_ON_TLS)
            sock.shutdown(socket.SHUT_WR)
    except BlockingIOError:  # it has sent nothing yet
        return False
    except OSError:
        return True
    return not _may_be_hello(first)


def _may_be_hello(first: bytes) -> bool:
    """Return whether these bytes, of up to six, begin a ClientHello in a record of its own (RFC 8446, sections 4 and
    5.1).
    """
    begins = first[:1] == b"\x16" and first[1:2] in {b"", b"\3"}
    if not begins or len(first) < _HELLO_BYTES:
        return begins
    return 0 < int.from_bytes(first[3:5]) <= _LONGEST_RECORD and first[5:] == b"\1"


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
            listener = socket.create_server(
                address,
                family=family,
                backlog=BACKLOG,
                dualstack_ipv6=everywhere,
            )
        except OSError as error:
            refused = refused or error
        else:
            listener.setblocking(False)
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
    if isinstance(error, OSError):
        log.debug("%s: %s", context.get("message"), error)
    else:
        log.error("%s", context.get("message"), exc_info=error)
