"""Servers that are slow, broken, large, closed or elsewhere: real sockets, one odd server a test."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.http_client import Endpoint, HttpError, Reply, ask
from exporter.http_client.exchange import TIMER_NAME
from exporter.model import Deadline, Reason

Serve = Callable[[socket.socket], None]


@pytest.fixture
def server() -> Iterator[Callable[[Serve], str]]:
    """Starts a server that deals with each connection in this way; gives its address."""
    sockets: list[socket.socket] = []

    def start(serve: Serve) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        sockets.append(listener)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=run, args=(connection,), daemon=True).start()

        def run(connection: socket.socket) -> None:
            with connection:
                try:
                    serve(connection)
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/x"

    yield start
    for listener in sockets:
        listener.close()


def head_of(connection: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(4096)
    return head


def answering(body: bytes, status: str = "200 OK", *headers: str) -> Serve:
    def serve(connection: socket.socket) -> None:
        head_of(connection)
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
        connection.sendall("\r\n".join(lines).encode() + body)

    return serve


def asked(url: str, seconds: float = 5.0, **options: object) -> Reply:
    return ask(Endpoint(url), Deadline.after(seconds), **options)  # type: ignore[arg-type]


def refused(url: str, seconds: float = 5.0, **options: object) -> HttpError:
    with pytest.raises(HttpError) as caught:
        asked(url, seconds, **options)
    return caught.value


def test_a_body_is_read_whole_and_unzipped(server: Callable[[Serve], str]) -> None:
    body = b"x" * 300_000
    reply = asked(server(answering(gzip.compress(body), "200 OK", "Content-Encoding: gzip", "Content-Type: a/b")))
    assert reply == Reply(body, "a/b")


def test_credentials_go_as_basic_auth_in_utf_8(server: Callable[[Serve], str], tmp_path: Path) -> None:
    heads: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        heads.append(head_of(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    password_file = tmp_path / "password"
    password_file.write_text("pä\n", encoding="utf-8")
    url = server(serve)
    ask(Endpoint(url, "eos", password_file=password_file), Deadline.after(5), body=b"[]")
    assert b"Authorization: Basic ZW9zOnDDpA==" in heads[0]
    assert heads[0].startswith(b"POST /x HTTP/1.1")


def test_a_password_file_that_is_a_pipe_is_a_fault_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "password"
    os.mkfifo(pipe)
    with pytest.raises(HttpError, match="is no regular file"):
        ask(Endpoint("http://127.0.0.1:1", "eos", password_file=pipe), Deadline.after(5))


def test_a_password_file_that_is_gone_is_said_by_its_name() -> None:
    with pytest.raises(HttpError, match=r"password_file nowhere: No such file"):
        ask(Endpoint("http://127.0.0.1:1/", "eos", password_file=Path("nowhere")), Deadline.after(1))


def test_no_secret_is_in_what_an_endpoint_reports() -> None:
    assert "s3cret" not in repr(Endpoint("http://k1:1/", "eos", "s3cret"))


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        ("401 Unauthorized", Reason.AUTHENTICATION, "set username and password"),
        ("403 Forbidden", Reason.AUTHORIZATION, "policy"),
        ("404 Not Found", Reason.MALFORMED, "is the path right?"),
        ("503 Service Unavailable", Reason.UNREACHABLE, "503"),
    ],
)
def test_a_refusal_is_a_fault_with_its_reason(
    server: Callable[[Serve], str], status: str, reason: Reason, said: str
) -> None:
    error = refused(server(answering(b"no", status)))
    assert (error.fault.reason, error.status, error.body) == (reason, int(status[:3]), b"no")
    assert said in error.fault.detail


def test_a_token_that_is_refused_is_not_answered_with_advice_about_a_password(server: Callable[[Serve], str]) -> None:
    with pytest.raises(HttpError, match="correct its token") as error:
        ask(Endpoint(server(answering(b"no", "401 Unauthorized")), token="s3cret"), Deadline.after(5))
    assert "s3cret" not in error.value.fault.detail


def test_a_redirect_is_not_followed(server: Callable[[Serve], str]) -> None:
    visits: list[bytes] = []
    other = server(lambda connection: visits.append(connection.recv(1)))
    error = refused(server(answering(b"", "302 Found", f"Location: {other}")))
    assert error.fault.reason is Reason.MALFORMED
    assert "redirects are not followed" in error.fault.detail
    assert visits == []


def test_an_answer_without_end_is_cut_at_its_greatest_size(server: Callable[[Serve], str]) -> None:
    def serve(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    error = refused(server(serve), max_bytes=1024 * 1024)
    assert error.fault.reason is Reason.MALFORMED
    assert "more than 1 MB" in error.fault.detail


def test_a_small_answer_that_unzips_to_a_large_one_is_cut_as_well(server: Callable[[Serve], str]) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    error = refused(server(answering(bomb, "200 OK", "Content-Encoding: gzip")), max_bytes=1024 * 1024)
    assert error.fault.reason is Reason.MALFORMED


def drips_head(connection: socket.socket) -> None:
    head_of(connection)
    for sign in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"y" * 10_000:
        connection.sendall(bytes([sign]))
        time.sleep(0.05)


def drips_body(connection: socket.socket) -> None:
    head_of(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(10_000):
        connection.sendall(b"x")
        time.sleep(0.05)


def says_nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


@pytest.mark.parametrize("serve", [drips_head, drips_body, says_nothing])
@pytest.mark.timeout(10)
def test_the_deadline_holds_however_slowly_bytes_come(server: Callable[[Serve], str], serve: Serve) -> None:
    assert refused(server(serve), 0.5).fault.reason is Reason.TIMEOUT


def test_a_connection_that_breaks_is_unreachable(server: Callable[[Serve], str]) -> None:
    def serve(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    assert refused(server(serve)).fault.reason is Reason.UNREACHABLE


def test_a_head_that_is_cut_off_is_no_traceback_in_the_log(
    server: Callable[[Serve], str], caplog: pytest.LogCaptureFixture
) -> None:
    def serve(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Len")

    assert asked(server(serve)) == Reply(b"", "")
    assert not caplog.records


def test_what_is_no_http_is_malformed_or_unreachable(server: Callable[[Serve], str]) -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"\x15\x03\x01 this is no HTTP\r\n\r\n")
        says_nothing(connection)

    assert refused(server(serve)).fault.reason in {Reason.UNREACHABLE, Reason.MALFORMED}


def test_a_broken_gzip_is_malformed(server: Callable[[Serve], str]) -> None:
    error = refused(server(answering(b"no gzip", "200 OK", "Content-Encoding: gzip")))
    assert error.fault.reason is Reason.MALFORMED


def test_nobody_there_is_unreachable_and_says_why() -> None:
    error = refused("http://127.0.0.1:1/jolokia")
    assert error.fault.reason is Reason.UNREACHABLE
    assert "Connection refused" in error.fault.detail
    assert refused("http://no-such-host.invalid/").fault.reason is Reason.UNREACHABLE


def test_plain_text_behind_https_is_a_tls_fault(server: Callable[[Serve], str]) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    error = refused(server(serve).replace("http://", "https://"))
    assert error.fault.reason is Reason.AUTHENTICATION
    assert "TLS" in error.fault.detail


def test_a_ca_file_that_is_gone_is_said_by_its_name() -> None:
    with pytest.raises(HttpError, match="ca_file nowhere"):
        ask(Endpoint("https://127.0.0.1:1/", ca_file=Path("nowhere")), Deadline.after(1))


def test_proxies_and_netrc_of_the_environment_are_ignored(
    server: Callable[[Serve], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login spy password s3cret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    heads: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        heads.append(head_of(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    asked(server(serve))
    assert b"Authorization" not in heads[0]


def test_no_socket_and_no_timer_stays(server: Callable[[Serve], str]) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    url = server(answering(b"{}"))
    asked(url)
    before = descriptors()
    for _ in range(40):
        asked(url)
        refused(url, max_bytes=1)
    assert descriptors() < before + 20  # other tests' servers may close late, 80 connections would show
    timers = [thread for thread in threading.enumerate() if thread.name == TIMER_NAME]
    for timer in timers:
        timer.join(2)
    assert not any(timer.is_alive() for timer in timers)


def test_an_address_is_host_and_port() -> None:
    assert Endpoint("https://k1/x").address == "k1:443"
    assert Endpoint("http://[::1]:8778/jolokia").address == "[::1]:8778"
    assert Endpoint("http://[::1]:8778/jolokia").host == "::1"
