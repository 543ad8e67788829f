"""Requests that two programs could read differently, paths that mean other paths, and ways round the guard."""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Iterator

import bcrypt
import pytest

from exporter.agent.receivers import IngestApp
from exporter.exposition.render import Exposition
from exporter.ingest.latest import RefusedError
from exporter.status.app import App
from exporter.web_server.authentication import Guard
from exporter.web_server.config import WebConfig
from exporter.web_server.connection import Limits
from exporter.web_server.server import Server

SMUGGLED = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LAST = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
USERS = {"ann": bcrypt.hashpw(b"right", b"$2b$04$......................")}
ANN = b"Authorization: Basic " + base64.b64encode(b"ann:right") + b"\r\n"
TOKEN = b"Authorization: Bearer token\r\n"
STATISTICS = b"{}"
PATH = "/ingest/librdkafka"
DOOR = PATH.encode()
JSON = b"Content-Type: application/json\r\n"


class AcceptingInbox:
    """Takes whatever is handed in."""

    def take(self, body: bytes) -> None:
        if body != STATISTICS:
            raise RefusedError(400, "other statistics")


@pytest.fixture(scope="module")
def listener() -> Iterator[Server]:
    listener = Server([("127.0.0.1", 0)], App(Exposition(), dict, lambda: True, list), limits=Limits(head=2.0))
    listener.open()
    yield listener
    listener.close()


def guarded(*, token: str) -> Server:
    """Asks for users, and takes statistics with this token, "" for none."""
    handler = IngestApp(AcceptingInbox(), lambda: token)
    guard = Guard(lambda: WebConfig(users=USERS))
    app = App(Exposition(), dict, lambda: True, list, "", {PATH: handler}, guard, posts_have_tokens=bool(token))
    listener = Server([("127.0.0.1", 0)], app)
    listener.open()
    return listener


@pytest.fixture(scope="module")
def with_token() -> Iterator[Server]:
    listener = guarded(token="token")
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def without_token() -> Iterator[Server]:
    listener = guarded(token="")
    yield listener
    listener.close()


def answers(listener: Server, request: bytes) -> list[bytes]:
    """The status of each answer until the connection is closed."""
    with socket.create_connection(("127.0.0.1", listener.ports[0]), timeout=20) as connection:
        connection.sendall(request)
        try:
            reply = b"".join(iter(lambda: connection.recv(65536), b""))
        except ConnectionResetError:
            reply = b""
    return re.findall(rb"HTTP/1\.1 (\d+) ", reply)


def post(headers: bytes, body: bytes = b"", path: bytes = b"/-/healthy") -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + body


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\nX"),
        post(b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", b"0\r\n\r\nX"),
        post(b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
        post(b"Transfer-Encoding: xchunked\r\n"),
        post(b"Transfer-Encoding: identity\r\nContent-Length: 0\r\n"),
        post(b"transfer-encoding:\tchunked\r\n", b"0\r\n\r\n"),
        post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
        post(b"X: y\r\n Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
        post(b"Content-Length: 0\r\nContent-Length: 70\r\n"),
        post(b"Content-Length: 0, 70\r\n"),
        post(b"Content-Length: +0\r\n"),
        post(b"Content-Length: -1\r\n"),
        post(b"Content-Length: 0x10\r\n"),
        post(b"Content-Length: 1_0\r\n"),
        post(b"Content-Length:\r\n"),
        post(b"Content-Length : 70\r\n"),
        post(b"Content-Length\r\n"),
        post(b": nameless\r\n"),
        post(b"X: a\x00b\r\n"),
        post(b"X: a\rContent-Length: 70\r\n"),
        post(b"Host: other\r\n"),
        b"GET /-/healthy HTTP/1.1\r\nHost: x\nContent-Length: 7\r\n\r\n",
        b"GET http://other/-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET //metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT other:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy HTTP/+1.+1\r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost: user@localhost\r\n\r\n",
        b"GET /-/healthy HTTP/1.1 \r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy\tHTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy\r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"get /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"G\xc3\x89T /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /-/h\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy#x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nX\x00: y\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nX y: y\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nX: \x7f\r\n\r\n",
        b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\x0bX: y\r\n\r\n",
        post(b"Content-Length: 5\r\nContent-Length: 5\r\n", b"12345"),
        post(b"Content-Length: 5, 5\r\n", b"12345"),
        post(b"Content-Length: \xb2\r\n", b"12"),
        post(b"Content-Length: 18446744073709551617\r\n"),
        post(b"Authorization: Basic YTpi\r\nAuthorization: Bearer token\r\n"),
        post(b"Content-Type: application/json\r\nContent-Type: text/plain\r\n"),
        post(b"Origin: http://localhost\r\nOrigin: http://evil\r\n"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_and_ends_the_connection(
    listener: Server, request_bytes: bytes
) -> None:
    [status] = answers(listener, request_bytes + SMUGGLED)
    assert status in {b"400", b"405", b"505"}


def test_a_body_is_never_taken_for_the_next_request(listener: Server) -> None:
    for length in (b"%d", b"%010d"):
        request = post(length.join((b"Content-Length: ", b"\r\n")) % len(SMUGGLED), SMUGGLED)
        with socket.create_connection(("127.0.0.1", listener.ports[0]), timeout=20) as connection:
            connection.sendall(request)
            reply = connection.recv(65536)
            while not reply.endswith(b"Allowed\n"):  # the test's own time limit ends this
                reply += connection.recv(65536)
            connection.sendall(LAST)
            reply += b"".join(iter(lambda: connection.recv(65536), b""))
        assert re.findall(rb"HTTP/1\.1 (\d+) ", reply) == [b"405", b"200"]


def test_a_request_before_the_answer_to_the_last_one_ends_the_connection_behind_that_answer(listener: Server) -> None:
    many = LAST.replace(b"Connection: close\r\n", b"")
    assert answers(listener, many * 1000 + LAST) == [b"200"]
    assert answers(listener, post(b"Content_Length: 70\r\n") + SMUGGLED) == [b"405"]


def test_a_body_is_received_after_its_head_is_accepted_and_with_continue_if_asked(with_token: Server) -> None:
    head = JSON + b"Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", with_token.ports[0]), timeout=20) as connection:
        connection.sendall(post(TOKEN + head, path=DOOR))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(STATISTICS)
        assert connection.recv(65536).startswith(b"HTTP/1.1 204 ")
    assert answers(with_token, post(TOKEN.replace(b"token", b"wrong") + head, path=DOOR)) == [b"401"]


def test_a_wish_for_another_protocol_is_not_granted_and_ends_the_connection(with_token: Server) -> None:
    wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    assert answers(with_token, LAST.replace(b"Connection: close\r\n", ANN + wish) + LAST) == [b"200"]
    request = post(JSON + TOKEN + wish + b"Content-Length: 2\r\n", STATISTICS, DOOR)
    assert answers(with_token, request + LAST) == [b"400"]


def test_nonsense_after_a_request_does_not_lose_its_answer(listener: Server) -> None:
    assert answers(listener, LAST.replace(b"Connection: close\r\n", b"") + b"NONSENSE\r\n\r\n") == [b"200"]


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/./metrics",
        "/%2fmetrics",
        "/metrics/",
        "/x/../metrics",
        "/ingest/librdkafka/../../metrics",
        "/ingest/librdkafka/..%2f..%2fmetrics",
        "/ingest/librdkafka;/metrics",
        "/ingest/librdkafka/",
        "/ingest/librdkafka%00",
        "/ingest/librdkafk%D0%B0",
        "/INGEST/librdkafka",
        "/ingest%2flibrdkafka",
        "/?path=/ingest/librdkafka",
        "/-/reload",
        "/nothing",
        "/../../etc/passwd",
    ],
)
def test_every_path_but_the_door_with_a_key_of_its_own_asks_for_a_user(with_token: Server, path: str) -> None:
    for method in (b"GET", b"POST", b"HEAD", b"OPTIONS"):
        for header in (b"", TOKEN):
            request = (
                method
                + b" "
                + path.encode()
                + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                + header
                + b"\r\n"
            )
            assert answers(with_token, request) == [b"401"]


@pytest.mark.parametrize("path", [b"/ingest/librdkafka", b"/ingest/%6cibrdkafka"])
def test_the_door_with_a_key_takes_the_key_and_no_password(with_token: Server, path: bytes) -> None:
    common = b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n" % len(STATISTICS)
    assert answers(with_token, post(common + TOKEN, STATISTICS, path)) == [b"204"]
    assert answers(with_token, post(common + ANN, STATISTICS, path)) == [b"401"]
    assert answers(with_token, post(common, STATISTICS, path)) == [b"401"]


def test_a_door_without_a_key_is_behind_the_guard(without_token: Server) -> None:
    common = b"Content-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n" % len(STATISTICS)
    assert answers(without_token, post(common + ANN, STATISTICS, PATH.encode())) == [b"204"]
    assert answers(without_token, post(common, STATISTICS, PATH.encode())) == [b"401"]


def test_health_asks_for_a_user_too(with_token: Server) -> None:
    assert answers(with_token, LAST) == [b"401"]
    assert answers(with_token, LAST.replace(b"Connection", ANN + b"Connection")) == [b"200"]


@pytest.mark.parametrize("size", [64 * 1024 + 1, 10**11, 10**13])
def test_a_body_that_is_too_long_is_refused_before_it_comes(with_token: Server, size: int) -> None:
    head = JSON + TOKEN + b"Connection: close\r\nContent-Length: %d\r\n" % size
    assert answers(with_token, post(head, path=DOOR)) == [b"413"]
    assert answers(with_token, post(head.replace(TOKEN, b""), path=DOOR)) == [b"401"]
