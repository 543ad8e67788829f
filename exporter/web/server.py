"""An HTTP listener that slow, broken and many clients cannot tie up.

A connection gets one of the few threads only when its whole request has arrived, and keeps it for a limited time; one
address gets not all of them. When there are more connections than may be, those who hold most give one up.
"""

from __future__ import annotations

import logging
import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from cheroot import wsgi

from exporter.web.connection import MAX_BODY_BYTES, MAX_HEAD_BYTES, Arrival, Connection
from exporter.web.tls import Tls

log = logging.getLogger(__name__)

WSGIApplication = Callable[[dict[str, Any], Any], Iterable[bytes]]

THREADS = 10
THREADS_PER_CLIENT = 8
"""No single address gets all of them, however slowly it reads."""

MAX_CONNECTIONS = 256
"""At most, and at most a quarter of the files that the process may open: brokers need some too.

One takes 50 kB of memory with TLS.
"""

SPARE_CONNECTIONS = 16
"""Beyond, for new ones to come in while old ones are being closed."""

MAX_PENDING_BYTES = 4 * 1024 * 1024
SMALL_BYTES = 4096
"""Of all requests that have not come in full: above it, those that are not small are given up."""

BACKLOG = 1024
"""What the kernel accepts for us meanwhile; more would have to try again, a second later."""

IDLE_SECONDS = 10
"""For a handshake and a request to arrive; also for one write that makes no progress."""

KEEP_SECONDS = 120
"""Between two requests: longer than Prometheus waits from scrape to scrape, to spare both a handshake."""

EXCHANGE_SECONDS = 30.0
"""For one request and its response altogether, however fast single bytes come and go."""

STOP_SECONDS = 1
LOOK_SECONDS = 0.25


class ListenError(Exception):
    """The address cannot be listened on; the text names it and says why."""


class Listener(wsgi.Server):
    """One address, served by a few threads. ``open`` binds and serves in the background until ``close``."""

    ConnectionClass = Connection
    max_request_header_size = MAX_HEAD_BYTES
    max_request_body_size = MAX_BODY_BYTES

    def __init__(
        self,
        host: str,
        port: int,
        app: WSGIApplication,
        tls: Callable[[], Tls | None] = lambda: None,
        exchange_seconds: float = EXCHANGE_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """``host`` "" means every address of the machine, IPv4 and IPv6; ``port`` 0 takes a free one.

        ``tls`` is asked at each new connection: None is plain HTTP.
        """
        self._host = host
        everywhere = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
        self.most_connections = min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
        self.keep_alive_conn_limit = self.most_connections
        super().__init__(
            (host or everywhere, port),
            app,
            numthreads=THREADS,
            max=THREADS,
            server_name="kafka-eos-exporter",
            request_queue_size=BACKLOG,
            timeout=idle_seconds,  # type: ignore[arg-type]  # goes to settimeout, which takes fractions
            shutdown_timeout=STOP_SECONDS,
        )
        self.tls = tls
        self._exchange_seconds = exchange_seconds
        self._lock = threading.Lock()  # guards the five below
        self._open: dict[str, dict[Connection, None]] = {}  # by address, oldest first
        self._count = 0  # of them, and of those that were cut and are not closed yet
        self._pending: dict[Connection, int] = {}  # bytes of a request that has not come in full
        self._waiting: dict[Connection, None] = {}  # whole, oldest first, while their client has all threads it may
        self._handed_over: set[Connection] = set()  # to the threads
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
        threading.Thread(target=self._watch_the_clock, name=f"limits {self.address}", daemon=True).start()

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
            for conn in self._handed_over:
                conn.limit = min(conn.limit, until)
            waiting, self._waiting = self._waiting, {}
        for conn in waiting:
            conn.close()
        self.stop()
        self._closed.set()

    # --- Who is let in ------------------------------------------------------------------------------------------------

    def process_conn(self, conn: Connection) -> None:
        """Take a connection that is new or that something has come on; called by the accepting thread, never waits."""
        if conn.last_used is None and not self._admit(conn):
            conn.close()
            return
        self._look(conn)

    def put_conn(self, conn: Connection) -> None:
        """A thread has served a request, and its connection stays open for the next."""
        if not self.ready:
            conn.close()
            return
        conn.limit, conn.at_rest = time.monotonic() + KEEP_SECONDS, True
        self._look(conn)

    def _admit(self, conn: Connection) -> bool:
        conn.limit = time.monotonic() + self.timeout
        with self._lock:
            if self._count >= self.most_connections:
                crowd = max(self._open.values(), key=len)
                victim = next((each for each in crowd if each not in self._handed_over), None)
                if victim is None or self._count >= self.most_connections + SPARE_CONNECTIONS:
                    return False
                self._cut(victim)
            self._open.setdefault(conn.remote_addr, {})[conn] = None
            self._count += 1
            conn.counted = True
        return True

    def _cut(self, conn: Connection) -> None:
        """Have it closed by whoever has it; with the lock held."""
        self._leave_open(conn)
        conn.cut()
        if conn in self._waiting:  # nobody else would see that it was cut
            conn.limit = 0.0

    def _leave_open(self, conn: Connection) -> None:
        of_client = self._open.get(conn.remote_addr, {})
        of_client.pop(conn, None)
        if not of_client:
            self._open.pop(conn.remote_addr, None)

    def _look(self, conn: Connection) -> None:
        match conn.arrive():
            case Arrival.WHOLE:
                self._hand_over(conn)
            case Arrival.MORE if self._has_room(conn):
                if conn.at_rest and conn.rfile.buffer:
                    conn.limit, conn.at_rest = time.monotonic() + self.timeout, False
                super().put_conn(conn)  # the selector tells when something comes
                if conn.at_rest:
                    conn.last_used += KEEP_SECONDS  # by which cheroot drops those that say nothing
            case _:
                conn.close()

    def _has_room(self, conn: Connection) -> bool:
        size = len(conn.rfile.buffer)
        with self._lock:
            self._pending[conn] = size
            return size <= SMALL_BYTES or sum(self._pending.values()) <= MAX_PENDING_BYTES

    # --- Who gets a thread --------------------------------------------------------------------------------------------

    def _hand_over(self, conn: Connection) -> None:
        """Give the connection to the threads as soon as its client has room left there."""
        with self._lock:
            self._pending.pop(conn, None)
            if sum(each.remote_addr == conn.remote_addr for each in self._handed_over) >= THREADS_PER_CLIENT:
                self._waiting[conn] = None
                conn.limit = time.monotonic() + self.timeout
                return
            self._handed_over.add(conn)
        super().process_conn(conn)

    def enter(self, conn: Connection) -> None:
        """A thread begins to serve this connection."""
        seconds = STOP_SECONDS if self._closed.is_set() or not self.ready else self._exchange_seconds
        conn.limit = time.monotonic() + seconds

    def leave(self, conn: Connection) -> None:
        """The thread is done with it: the next of the same client may have it."""
        with self._lock:
            self._handed_over.discard(conn)
            following = next((each for each in self._waiting if each.remote_addr == conn.remote_addr), None)
            if following is not None:
                del self._waiting[following]
        if following is not None:
            self._hand_over(following)

    def forget(self, conn: Connection) -> None:
        """It is being closed."""
        with self._lock:
            self._leave_open(conn)
            self._count -= conn.counted
            conn.counted = False
            self._handed_over.discard(conn)
            self._pending.pop(conn, None)

    def _watch_the_clock(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            now = time.monotonic()
            with self._lock:
                late = [conn for each in self._open.values() for conn in each if now >= conn.limit]
                for conn in late:
                    self._cut(conn)
                gone = [conn for conn in self._waiting if now >= conn.limit]
                for conn in gone:
                    del self._waiting[conn]
            for conn in gone:
                conn.close()

    # --- cheroot's other ways -----------------------------------------------------------------------------------------

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
