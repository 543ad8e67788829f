"""An HTTP listener that slow, broken and many clients cannot tie up.

cheroot serves each request on one of a few threads. Left alone, ten clients that connect and say nothing hold all ten.
So here a connection gets a thread only when the head of its request has arrived, and keeps it for a limited time.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from cheroot import wsgi
from cheroot.server import HTTPConnection

log = logging.getLogger(__name__)

WSGIApplication = Callable[[dict[str, Any], Any], Iterable[bytes]]

THREADS = 10
THREADS_PER_CLIENT = 8
"""No single address gets all of them, however slowly it reads."""

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 64 * 1024
MAX_CONNECTIONS = 512
"""Beyond these the newest is closed at once: file descriptors are also needed for the brokers."""

IDLE_SECONDS = 10
"""For the head of a request to arrive, for one read or write of its body, and between two requests."""

EXCHANGE_SECONDS = 30.0
"""For one request and its response altogether, however fast single bytes come and go."""

STOP_SECONDS = 1
PEEK_INTERVAL = 0.05


class ListenError(Exception):
    """The address cannot be listened on; the text names it and says why."""


class _Connection(HTTPConnection):
    """A connection that tells its listener while it occupies a thread, and when it closes."""

    def communicate(self) -> Any:  # noqa: ANN401 -- cheroot's own signature
        self.server.enter(self)
        try:
            return super().communicate()  # type: ignore[no-untyped-call]
        finally:
            self.server.leave(self)

    def close(self) -> None:
        self.server.forget(self)
        super().close()


class Listener(wsgi.Server):
    """One address, served by a few threads. ``open`` binds and serves in the background until ``close``."""

    ConnectionClass = _Connection
    max_request_header_size = MAX_HEAD_BYTES
    max_request_body_size = MAX_BODY_BYTES
    keep_alive_conn_limit = MAX_CONNECTIONS

    def __init__(self, host: str, port: int, app: WSGIApplication, exchange_seconds: float = EXCHANGE_SECONDS) -> None:
        """``host`` "" means every address of the machine, IPv4 and IPv6; ``port`` 0 takes a free one."""
        self._host = host
        everywhere = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
        super().__init__(
            (host or everywhere, port),
            app,
            numthreads=THREADS,
            max=THREADS,
            server_name="kafka-eos-exporter",
            request_queue_size=128,
            timeout=IDLE_SECONDS,
            shutdown_timeout=STOP_SECONDS,
            accepted_queue_size=MAX_CONNECTIONS,
            # The accepting thread waits no longer for room in the queue, then answers 503.
            accepted_queue_timeout=PEEK_INTERVAL,  # type: ignore[arg-type]  # goes to Queue.put, which takes fractions
        )
        self._exchange_seconds = exchange_seconds
        self._lock = threading.Lock()  # guards the four below
        self._open: set[HTTPConnection] = set()
        self._waiting: dict[HTTPConnection, float] = {}  # some of the head has come; until when we wait for more
        self._handed_over: set[HTTPConnection] = set()  # to the threads
        self._served: dict[HTTPConnection, float] = {}  # on a thread now; until when
        self._news = threading.Event()
        self._closed = threading.Event()

    # --- Life ---------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Bind, and serve in the background. Raises ListenError."""
        refused: list[OSError] = []
        bound = threading.Event()

        def serve() -> None:
            try:
                self.prepare()
            except OSError as error:
                refused.append(error)
                return
            finally:
                bound.set()
            self.serve()

        # Bound on this thread so that those it starts are daemons as well, and never keep the process from ending.
        threading.Thread(target=serve, name=f"accept {self.address}", daemon=True).start()
        bound.wait()
        if refused:
            reason = re.search(r"\[Errno -?\d+\] ([^)]*)", str(refused[0]))
            text = (reason[1] if reason else str(refused[0])).strip().lower()
            raise ListenError(f"cannot listen on {self.address}: {text}") from refused[0]
        threading.Thread(target=self._keep_the_door, name=f"door {self.address}", daemon=True).start()

    @property
    def address(self) -> str:
        """The address as it is written: ``127.0.0.1:10618``, ``[::1]:10618``, ``:10618``."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    @property
    def port(self) -> int:
        """The port that it listens on: once open, also where 0 was asked for."""
        return int(self.bind_addr[1])

    def close(self) -> None:
        """Stop accepting, let what is being served finish for a moment, and return within about two seconds."""
        until = time.monotonic() + STOP_SECONDS
        with self._lock:
            self._served = {conn: min(limit, until) for conn, limit in self._served.items()}
        self.stop()
        self._closed.set()
        self._news.set()
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for conn in waiting:
            conn.close()

    # --- Who gets a thread --------------------------------------------------------------------------------------------

    def process_conn(self, conn: HTTPConnection) -> None:
        """Take a connection that is new or that something has come on; called by the accepting thread, never waits."""
        if conn.last_used is None:
            with self._lock:
                crowded = len(self._open) >= MAX_CONNECTIONS
                if not crowded:
                    self._open.add(conn)
            if crowded:
                conn.close()
            else:
                self.put_conn(conn)  # the selector tells when its first byte is here, and drops it if none comes
            return
        if not self._hand_over(conn):
            with self._lock:
                self._waiting[conn] = time.monotonic() + IDLE_SECONDS
            self._news.set()

    def _hand_over(self, conn: HTTPConnection) -> bool:
        """Give the connection to the threads, if one of them could get on with it and its client has room left."""
        # What TLS has read cannot be peeked at; there the limit on the whole exchange has to do.
        if not (conn.rfile.has_data() or self.ssl_adapter is not None or _head_has_arrived(conn.socket)):
            return False
        with self._lock:
            if sum(each.remote_addr == conn.remote_addr for each in self._handed_over) >= THREADS_PER_CLIENT:
                return False
            self._handed_over.add(conn)
        super().process_conn(conn)
        return True

    def enter(self, conn: HTTPConnection) -> None:
        """A thread begins to serve this connection."""
        limit = STOP_SECONDS if self._closed.is_set() or not self.ready else self._exchange_seconds
        with self._lock:
            self._served[conn] = time.monotonic() + limit

    def leave(self, conn: HTTPConnection) -> None:
        """The thread is done with it."""
        with self._lock:
            self._served.pop(conn, None)
            self._handed_over.discard(conn)

    def forget(self, conn: HTTPConnection) -> None:
        """It is closed."""
        with self._lock:
            self._open.discard(conn)
            self._handed_over.discard(conn)

    def _keep_the_door(self) -> None:
        while not self._closed.is_set():
            with self._lock:
                waiting = bool(self._waiting)
            if waiting:
                self._closed.wait(PEEK_INTERVAL)
            else:
                self._news.wait(0.5)
            self._news.clear()
            now = time.monotonic()
            self._look_again(now)
            with self._lock:
                late = [conn for conn, limit in self._served.items() if now >= limit]
            for conn in late:  # its thread then meets the end of the stream or a broken pipe, and closes it
                with contextlib.suppress(OSError):
                    conn.socket.shutdown(socket.SHUT_RDWR)

    def _look_again(self, now: float) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for conn, limit in waiting.items():
            if self._hand_over(conn):
                continue
            if now >= limit:
                conn.close()
            else:
                with self._lock:
                    self._waiting[conn] = limit

    @staticmethod
    def bind_socket(socket_: socket.socket, bind_addr: tuple[str, int]) -> socket.socket:
        """As cheroot's, which forgets to close a socket that cannot be bound."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """What cheroot has to say: a failure of ours is an error, a client's is for those who debug."""
        ours = level >= logging.ERROR
        log.log(level if ours else logging.DEBUG, "%s", msg, exc_info=traceback)


def _head_has_arrived(sock: socket.socket) -> bool:
    """Whether a thread could go on with this connection: the head is here, or too long, or the client is gone."""
    before = sock.gettimeout()
    sock.setblocking(False)
    try:
        head = sock.recv(MAX_HEAD_BYTES, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        sock.settimeout(before)
    return not head or b"\r\n\r\n" in head or b"\n\n" in head or len(head) >= MAX_HEAD_BYTES
