"""One request over HTTP, by requests.

The timeout of requests restarts with every byte, and it follows redirects to any host and reads bodies of any size.
Here a request has one deadline from the first to the last byte, one address, and a maximum size.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from io import BytesIO
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from exporter.bounds.files import read_regular
from exporter.bounds.memory import AnswerRoom, NoRoomError
from exporter.http_client.endpoint import Endpoint, HttpError, Reply, causes
from exporter.model import Deadline, Fault, Reason

CHUNK_BYTES = 16 * 1024
"""Bytes of one read. Decompression makes up to a thousand times as much of them before the size is checked."""
REFUSAL_BYTES = 64 * 1024
"""Largest part of the body of a refusal that is read: that of a token endpoint names the error."""
MOST_PASSWORD_BYTES = 64 * 1024
TIMER_NAME = "deadline of a question"

# It warns with a traceback of a head that is cut off, whose answer is a fault of its reader.
logging.getLogger("urllib3").setLevel(logging.ERROR)


def exchange(
    endpoint: Endpoint,
    deadline: Deadline,
    *,
    path: str,
    accept: str,
    body: bytes | None,
    content_type: str,
    method: str,
    max_bytes: int,
    room: AnswerRoom,
) -> Reply:
    """As ``exporter.http_client.ask``."""
    url = endpoint.url.rstrip("/") + path if path else endpoint.url
    headers = {"Accept": accept, "Accept-Encoding": "gzip", "Connection": "close", "User-Agent": "kafka-eos-exporter"}
    if body is not None:
        headers["Content-Type"] = content_type
    if endpoint.token:
        headers["Authorization"] = f"Bearer {endpoint.token}"
    if endpoint.ca_file and not endpoint.ca_file.is_file():
        raise HttpError(Fault(Reason.AUTHENTICATION, f"ca_file {endpoint.ca_file}: no such file"))
    cutter = _Cutter()
    timer = threading.Timer(deadline.remaining(), cutter.cut)
    timer.name, timer.daemon = TIMER_NAME, True
    timer.start()
    try:
        with requests.Session() as session:
            session.trust_env = False  # no proxies, no ~/.netrc: the request goes to the configured address only
            for scheme in ("http://", "https://"):
                session.mount(scheme, _Adapter(cutter))
            reply = session.request(
                method,
                url,
                data=body,
                headers=headers,
                auth=_credentials(endpoint),
                verify=str(endpoint.ca_file) if endpoint.ca_file else True,
                timeout=max(0.001, deadline.remaining()),
                allow_redirects=False,
                stream=True,
            )
            with reply:
                content = _content(reply, max_bytes, room, deadline)
        if cutter.done:  # an answer without a length looks complete where it was cut off
            raise TimeoutError
    except NoRoomError:
        text = f"{url}: reading its answer was given up: other large answers were being read until its deadline"
        raise HttpError(Fault(Reason.TIMEOUT, text)) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        if cutter.done or deadline.over:
            raise HttpError(Fault(Reason.TIMEOUT, f"{url} did not answer in full before the deadline")) from error
        raise HttpError(_fault(url, error)) from error
    finally:
        timer.cancel()
        cutter.close()
    if reply.status_code not in {200, 204}:
        raise HttpError(_refusal(url, reply, endpoint), reply.status_code, content)
    return Reply(content, reply.headers.get("Content-Type", ""))


class _Cutter:
    """Ends a request at its deadline, whatever it waits for: its next read returns the end of the stream."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.done = False

    def watch(self, sock: socket.socket) -> None:
        with self._lock:
            # A duplicate, because TLS takes over the connection of the socket that it is given.
            self._sockets.append(sock.dup())
        if self.done:
            self.cut()

    def cut(self) -> None:
        with self._lock:
            self.done = True
            for sock in self._sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            for sock in self._sockets:
                sock.close()
            self._sockets = []


class _Adapter(HTTPAdapter):
    """A transport adapter of requests that registers every connection with a ``_Cutter``."""

    def __init__(self, cutter: _Cutter) -> None:
        self._cutter = cutter
        super().__init__(pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 -- requests' own signature
        super().init_poolmanager(*arguments, **options)
        cutter = self._cutter

        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                sock = super()._new_conn()
                cutter.watch(sock)
                return sock

        class Secure(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                sock = super()._new_conn()
                cutter.watch(sock)
                return sock

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}


def _credentials(endpoint: Endpoint) -> HTTPBasicAuth | None:
    if not endpoint.username:
        return None
    word = endpoint.password
    if endpoint.password_file:
        try:
            word = read_regular(endpoint.password_file, MOST_PASSWORD_BYTES).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
            raise HttpError(Fault(Reason.AUTHENTICATION, f"password_file {endpoint.password_file}: {why}")) from None
    return HTTPBasicAuth(endpoint.username.encode(), word.encode())


def _content(reply: requests.Response, max_bytes: int, room: AnswerRoom, deadline: Deadline) -> bytes:
    """The whole body, decompressed; of a refusal the beginning. Raises HttpError when it is too large, NoRoomError."""
    encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"gzip", "identity", ""}:  # encodings that were not requested, or nested ones, are not decoded
        raise HttpError(
            Fault(Reason.MALFORMED, f"{reply.url} answered in the encoding {encoding!r:.40}: not asked for")
        )
    content = BytesIO()  # grows in place, and returns its bytes without a second copy
    size = 0
    for chunk in reply.iter_content(CHUNK_BYTES):
        size += len(chunk)
        if reply.status_code != 200 and size > REFUSAL_BYTES:
            break
        if size > max_bytes:
            limit = f"{max_bytes / 1024 / 1024:.0f} MB"
            raise HttpError(Fault(Reason.MALFORMED, f"{reply.url} answered with more than {limit}: stopped reading"))
        room.hold(size, deadline)
        content.write(chunk)
    return content.getvalue()


def _refusal(url: str, reply: requests.Response, endpoint: Endpoint) -> Fault:
    status, phrase = reply.status_code, reply.reason or ""
    said = f"{url} answered {status} {phrase:.60}".rstrip()
    if status == 401:
        remedy = "correct its token" if endpoint.token else "set username and password, or correct them"
        return Fault(Reason.AUTHENTICATION, f"{said}: {remedy}")
    if status == 403:
        return Fault(Reason.AUTHORIZATION, f"{said}: its policy does not let us in")
    if 300 <= status < 400:
        return Fault(Reason.MALFORMED, f"{said}: redirects are not followed, give the address that answers")
    if status >= 500:
        return Fault(Reason.UNREACHABLE, said)
    return Fault(Reason.MALFORMED, f"{said}: is the path right?")


def _fault(url: str, error: Exception) -> Fault:
    found = list(causes(error))
    for cause in found:
        if isinstance(cause, ssl.SSLError):
            return Fault(Reason.AUTHENTICATION, f"{url}: TLS failed: {cause.reason or cause}")
        if isinstance(cause, socket.gaierror):
            return Fault(Reason.UNREACHABLE, f"{url}: {cause.strerror or 'unknown host'}")
    for cause in found:
        if isinstance(cause, OSError) and cause.strerror:
            return Fault(Reason.UNREACHABLE, f"{url}: {cause.strerror}")
    if isinstance(error, requests.exceptions.ContentDecodingError):
        return Fault(Reason.MALFORMED, f"{url}: the answer is not the gzip that it says it is")
    if isinstance(error, (requests.exceptions.InvalidHeader, ValueError)):
        return Fault(Reason.MALFORMED, f"{url}: {type(error).__name__}")
    return Fault(Reason.UNREACHABLE, f"{url}: the connection broke")
