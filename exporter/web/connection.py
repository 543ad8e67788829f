"""A connection to the HTTP server that takes what has come without ever waiting for more, over TLS too.

cheroot does the TLS handshake on its only accepting thread, and reads a request on one of its few others: one silent
client would hold up everybody's handshake, ten of them everybody's requests. Here both go on by steps, whenever
something has come, and a thread is needed only once the whole request is here.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import Callable
from enum import Enum
from typing import Any

from cheroot.makefile import StreamWriter
from cheroot.server import HTTPConnection, HTTPRequest

from exporter.web.strict_headers import StrictHeaders
from exporter.web.tls import Tls

MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 64 * 1024

_CHUNK_BYTES = 16 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_PLAIN_ON_TLS = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"This port speaks HTTPS only.\n"
)
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_CONTENT_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([0-9]{1,9})[ \t]*\r?$")
_EXPECT = re.compile(rb"(?im)^expect:[ \t]*100-continue[ \t]*\r?$")


class Arrival(Enum):
    """How far a request has come."""

    MORE = "more has to come"
    WHOLE = "a thread can answer it, be it with a refusal"
    GONE = "the client has gone, or will never make sense"


class Incoming:
    """What has come on a socket and was not read yet: cheroot reads requests from it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.buffer = bytearray()
        self.bytes_read = 0
        self.closed = False

    def receive(self) -> bool:
        """Take a piece from the socket, in the socket's way of waiting; False at the end of the stream."""
        piece = self._socket.recv(_CHUNK_BYTES)
        self.buffer += piece
        return bool(piece)

    def read(self, size: int | None = None) -> bytes:
        while size is None or len(self.buffer) < size:
            if not self.receive():
                break
        return self._taken(len(self.buffer) if size is None else size)

    def readline(self, size: int = -1) -> bytes:
        while True:
            end = self.buffer.find(b"\n", 0, size if size >= 0 else None)
            if end >= 0:
                return self._taken(end + 1)
            if 0 <= size <= len(self.buffer):
                return self._taken(size)
            if not self.receive():
                return self._taken(len(self.buffer))

    def has_data(self) -> bool:
        """Never: the listener itself sees to requests that came together with the one before."""
        return False

    def close(self) -> None:
        self.closed = True
        self.buffer.clear()

    def _taken(self, size: int) -> bytes:
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        self.bytes_read += len(taken)
        return taken


class _Request(HTTPRequest):
    """A request whose head can be read in one way only."""

    header_reader = StrictHeaders()


class Connection(HTTPConnection):
    """One client. Its server tells it what TLS is in force now, and is told when a thread takes and leaves it.

    ``limit`` is the monotonic time at which the listener cuts it off; ``counted`` says that it counts it, and
    ``at_rest`` that a request was served and none has begun since.
    """

    RequestHandlerClass = _Request
    rfile: Incoming

    def __init__(self, server: Any, sock: socket.socket, makefile: Callable[..., Any] | None = None) -> None:  # noqa: ANN401, ARG002 -- cheroot's own signature
        super().__init__(server, sock, _file)
        # cheroot caches these on each connection, in a cycle that only the garbage collector would end.
        del self.resolve_peer_creds, self.get_peer_creds
        sock.setblocking(False)
        self.tls: Tls | None = server.tls()
        self.limit = float("inf")
        self.counted = self.at_rest = False
        self._secured = self._continued = self._closed = False

    # --- Without waiting ----------------------------------------------------------------------------------------------

    def arrive(self) -> Arrival:
        """Take what has come, shaking hands first. The socket must not be waiting for anything."""
        try:
            if self.tls is not None and not self._secured and not self._shake_hands(self.tls):
                return Arrival.GONE
            while not self._is_whole():
                if not self.rfile.receive():
                    return Arrival.GONE
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return Arrival.MORE
        except (OSError, ValueError):
            return Arrival.GONE
        return Arrival.WHOLE

    def _shake_hands(self, tls: Tls) -> bool:
        """The next step of the handshake; returns when it is done, False if this client may not come in."""
        if not isinstance(self.socket, ssl.SSLSocket):
            if self.socket.recv(1, socket.MSG_PEEK).isupper():  # a method of HTTP; a handshake begins with 0x16
                self.socket.send(_PLAIN_ON_TLS)
                return False
            self.socket = tls.context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
            )
            self.rfile, self.wfile = Incoming(self.socket), StreamWriter(self.socket, "wb", _CHUNK_BYTES)
        self.socket.do_handshake()
        self._secured = True
        self.ssl_env = {"wsgi.url_scheme": "https", "HTTPS": "on"}
        return tls.admits(self.socket)

    def _is_whole(self) -> bool:
        """Whether the head and the body that it announces are here, or enough to refuse them."""
        came = self.rfile.buffer
        head = _HEAD_END.search(came, 0, MAX_HEAD_BYTES)
        if head is None:
            return len(came) >= MAX_HEAD_BYTES
        lengths = _CONTENT_LENGTH.findall(came, 0, head.end())
        body = int(lengths[0]) if len(lengths) == 1 else 0
        if body > MAX_BODY_BYTES or len(came) >= head.end() + body:
            return True
        if not self._continued and _EXPECT.search(came, 0, head.end()):
            self._continued = True
            self.socket.send(_CONTINUE)
        return False

    # --- On a thread --------------------------------------------------------------------------------------------------

    def communicate(self) -> Any:  # noqa: ANN401 -- cheroot's own signature
        self.server.enter(self)
        self._continued = False
        try:
            self.socket.settimeout(self.server.timeout)
            keep = super().communicate()  # type: ignore[no-untyped-call]
            self.socket.setblocking(False)
        except OSError:  # the client broke off, and cheroot could not tell it so
            return False
        else:
            return keep
        finally:
            self.server.leave(self)

    # --- Its end ------------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """End it from any thread: whoever has it then meets the end of the stream. Never waits."""
        with contextlib.suppress(OSError):
            # Not SSLSocket's own shutdown, after which a thread that still writes would write in plain.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of it; only who has it may, and once is enough."""
        self.server.forget(self)
        if self._closed:
            return
        self._closed = True
        if self._secured and isinstance(self.socket, ssl.SSLSocket):
            with contextlib.suppress(OSError, ValueError):
                self.socket.setblocking(False)
                self.socket.unwrap()  # says that this is the end; does not wait for the client to say so too
        self.linger = False
        with contextlib.suppress(OSError):
            super().close()
        self.socket.close()


def _file(sock: socket.socket, mode: str = "r", bufsize: int = _CHUNK_BYTES) -> Any:  # noqa: ANN401 -- either of two
    return Incoming(sock) if "r" in mode else StreamWriter(sock, mode, bufsize)
