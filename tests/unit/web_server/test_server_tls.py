"""TLS over real sockets: who comes in, who does not, and clients that never finish a handshake."""

from __future__ import annotations

import contextlib
import http.client
import logging
import shutil
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.exposition.render import Exposition
from exporter.status.app import App
from exporter.web_server.config_file import WebFile
from exporter.web_server.connection import Limits
from exporter.web_server.server import MAX_CONNECTIONS, Server
from exporter.web_server.tls import TlsServer, build
from testkit.certificates import Authority

REQUEST = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
TLS = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
VERIFY = "  client_ca_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n"

Serve = Callable[..., Server]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    authority.issue("server")
    authority.issue("client", ("scraper.example", "2001:db8::1"))
    return authority


@pytest.fixture
def serve(authority: Authority) -> Iterator[Serve]:
    """Serves by this web-config text; listeners are closed in the end."""
    listeners: list[Server] = []

    def serve(text: str = TLS, **limits: float) -> Server:
        path = authority.folder / "web.yml"
        path.write_text(text)
        file = WebFile(path)
        app = App(Exposition(), dict, lambda: True, list)
        listener = Server([("127.0.0.1", 0)], app, lambda: file.config.tls, Limits(**limits))
        listener.open()
        listeners.append(listener)
        return listener

    yield serve
    for listener in listeners:
        listener.close()


def trusting(authority: Authority, client: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    if client:
        context.load_cert_chain(authority.folder / f"{client}.pem", authority.folder / f"{client}.key")
    return context


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def plain(listener: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.ports[0]), timeout=20)


def exchange(listener: Server, context: ssl.SSLContext, request: bytes = REQUEST) -> bytes:
    with plain(listener) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as secure:
        secure.sendall(request)
        return read_all(secure)


def is_turned_away(listener: Server, context: ssl.SSLContext) -> bool:
    try:
        return exchange(listener, context) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="x").do_handshake()
    return outgoing.read()


def test_a_request_over_tls_is_answered_and_its_end_is_said(serve: Serve, authority: Authority) -> None:
    with (
        plain(serve()) as raw,
        trusting(authority).wrap_socket(raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as secure,
    ):
        secure.sendall(REQUEST)
        assert read_all(secure).endswith(b"Healthy.\n")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_serve_several_requests_over_one_connection(
    serve: Serve, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = trusting(authority)
    context.minimum_version = context.maximum_version = version
    connection = http.client.HTTPSConnection("127.0.0.1", serve().ports[0], timeout=20, context=context)
    for _ in range(5):
        connection.request("GET", "/-/healthy")
        assert connection.getresponse().read() == b"Healthy.\n"
    connection.close()


@pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01", "half"], ids=["nothing", "a few bytes", "half a hello"])
def test_clients_that_never_finish_a_handshake_hold_up_no_other(
    serve: Serve, authority: Authority, crowd: list[socket.socket], hello: bytes | str
) -> None:
    listener = serve()
    sent = client_hello()[:100] if isinstance(hello, str) else hello
    for _ in range(50):
        client = plain(listener)
        client.sendall(sent)
        crowd.append(client)
    for _ in range(20):
        assert exchange(listener, trusting(authority)).endswith(b"Healthy.\n")


def test_clients_that_shake_hands_and_say_nothing_hold_up_no_other(
    serve: Serve, authority: Authority, crowd: list[socket.socket]
) -> None:
    listener = serve()
    for number in range(50):
        secure = trusting(authority).wrap_socket(plain(listener), server_hostname="127.0.0.1")
        if number % 2:
            secure.sendall(REQUEST[:30])
        crowd.append(secure)
    assert exchange(listener, trusting(authority)).endswith(b"Healthy.\n")


def test_a_handshake_that_trickles_is_cut_off_in_time(serve: Serve) -> None:
    hello = client_hello()
    with plain(serve(head=0.5)) as slow:
        slow.settimeout(0.05)
        came = None
        at = 0
        while came is None:  # the test's own time limit ends this
            slow.sendall(hello[at : at + 1])
            at = min(at + 1, len(hello) - 2)
            try:
                came = slow.recv(1)
            except TimeoutError:
                continue
            except OSError:
                came = b""
        assert came == b""


def test_who_speaks_http_to_it_is_reported_that_it_speaks_https(serve: Serve) -> None:
    with plain(serve()) as connection:
        connection.sendall(REQUEST)
        reply = read_all(connection)
    assert reply.startswith(b"HTTP/1.0 400 ")
    assert reply.endswith(b"HTTPS only.\n")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_only_clients_with_a_certificate_of_the_authority_come_in(
    serve: Serve, authority: Authority, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    listener = serve(TLS + VERIFY)
    stranger = Authority(tmp_path)
    stranger.issue("client")
    known, unknown, none = trusting(authority, "client"), trusting(authority), trusting(authority)
    unknown.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    for context in (known, unknown, none):
        context.minimum_version = context.maximum_version = version
    assert exchange(listener, known).endswith(b"Healthy.\n")
    for context in (unknown, none):
        assert is_turned_away(listener, context)


@pytest.mark.parametrize(
    ("sans", "comes_in"),
    [
        ("[scraper.example]", True),
        ("[other.example, '2001:0DB8:0:0::1']", True),
        ("[other.example]", False),
        ("[example]", False),
    ],
)
def test_only_clients_of_an_allowed_name_come_in(serve: Serve, authority: Authority, sans: str, comes_in: bool) -> None:
    listener = serve(TLS + VERIFY + f"  client_allowed_sans: {sans}\n")
    context = trusting(authority, "client")
    assert is_turned_away(listener, context) is not comes_in


def test_a_client_may_leave_out_its_certificate_where_it_is_checked_if_given(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    listener = serve(TLS + VERIFY.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"))
    assert exchange(listener, trusting(authority)).endswith(b"Healthy.\n")
    stranger = Authority(tmp_path)
    stranger.issue("client")
    unknown = trusting(authority)
    unknown.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
    assert is_turned_away(listener, unknown)


@pytest.mark.parametrize(("curve", "comes_in"), [("secp384r1", True), ("prime256v1", False)])
def test_only_the_curve_of_the_file_is_spoken(serve: Serve, authority: Authority, curve: str, comes_in: bool) -> None:
    context = trusting(authority)
    context.set_ecdh_curve(curve)
    assert is_turned_away(serve(TLS + "  curve_preferences: [CurveP384]\n"), context) is not comes_in


def test_one_connection_too_many_is_closed_before_its_handshake_and_those_before_it_are_served(
    serve: Serve, authority: Authority, crowd: list[socket.socket]
) -> None:
    listener = serve()
    first = trusting(authority).wrap_socket(plain(listener), server_hostname="127.0.0.1")
    crowd += [first, *(plain(listener) for _ in range(MAX_CONNECTIONS - 1))]
    with plain(listener) as late, contextlib.suppress(ConnectionResetError):
        assert late.recv(1) == b""
    first.sendall(REQUEST)
    assert read_all(first).endswith(b"Healthy.\n")
    until(lambda: len(listener._handshakes) < MAX_CONNECTIONS)
    assert exchange(listener, trusting(authority)).endswith(b"Healthy.\n")


def test_connections_that_are_reset_are_forgotten(
    serve: Serve, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    listener, context = serve(), trusting(authority)
    for number in range(60):
        raw = plain(listener)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it ends with a reset
        if number % 3:
            raw = context.wrap_socket(raw, server_hostname="127.0.0.1")
            raw.sendall(REQUEST)
        raw.close()
    assert exchange(listener, context).endswith(b"Healthy.\n")
    until(lambda: not listener._handshakes and not listener._server.server_state.connections)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_answer_does_not_wait_for_the_acknowledgement_of_the_last_packet(serve: Serve, authority: Authority) -> None:
    listener = serve()
    with plain(listener) as raw, trusting(authority).wrap_socket(raw, server_hostname="127.0.0.1"):
        until(lambda: bool(listener._server.server_state.connections))
        (connection,) = listener._server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("at", [1, 2, 5, 6])
def test_a_handshake_whose_first_bytes_come_alone_is_one(serve: Serve, authority: Authority, at: int) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    content = outgoing.read()
    with plain(serve()) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(content[:at])
        with contextlib.suppress(TimeoutError):
            client.settimeout(0.3)
            assert client.recv(1) == b"", "nothing comes yet"
        client.settimeout(20)
        client.sendall(content[at:])
        assert client.recv(1) == b"\x16"


def test_old_versions_and_nonsense_are_turned_away_without_an_error_of_ours(
    serve: Serve, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    listener = serve(TLS + "  min_version: TLS13\n", head=0.5)
    old = trusting(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert is_turned_away(listener, old)
    for nonsense in (b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x00\x02", b"\x00" * 500, b"\x16" * 20_000):
        with plain(listener) as connection:
            connection.sendall(nonsense)
            with contextlib.suppress(ConnectionError):
                read_all(connection)
    assert exchange(listener, trusting(authority)).endswith(b"Healthy.\n")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_renewed_certificate_serves_new_connections_while_old_ones_go_on(
    authority: Authority, tmp_path: Path
) -> None:
    for name in ("server.pem", "server.key"):
        shutil.copy(authority.folder / name, tmp_path / name)
    (tmp_path / "web.yml").write_text(TLS)
    file = WebFile(tmp_path / "web.yml")
    listener = Server([("127.0.0.1", 0)], App(Exposition(), dict, lambda: True, list), lambda: file.config.tls)
    listener.open()
    try:
        old = http.client.HTTPSConnection("127.0.0.1", listener.ports[0], timeout=20, context=trusting(authority))
        old.request("GET", "/-/healthy")
        assert old.getresponse().read() == b"Healthy.\n"
        renewed = Authority(tmp_path / "new")
        renewed.issue("server")
        for name in ("server.pem", "server.key"):
            shutil.copy(tmp_path / "new" / name, tmp_path / name)
        assert file.reread() == []
        assert exchange(listener, trusting(renewed)).endswith(b"Healthy.\n")
        with pytest.raises(ssl.SSLCertVerificationError):
            exchange(listener, trusting(authority))
        old.request("GET", "/-/healthy")
        assert old.getresponse().read() == b"Healthy.\n"
        old.close()
    finally:
        listener.close()


def test_many_requests_at_once_are_all_answered_over_tls(serve: Serve, authority: Authority) -> None:
    listener = serve()
    answers: list[bytes] = []

    def ask() -> None:
        answers.extend(exchange(listener, trusting(authority)) for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(answers) == 100
    assert all(answer.endswith(b"Healthy.\n") for answer in answers)


def test_a_client_that_leaves_before_its_answer_leaves_no_error(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    tls, _ = build(TlsServer(cert_file="server.pem", key_file="server.key"), authority.folder)
    begun, ended = threading.Event(), threading.Event()

    async def application(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        begun.set()
        left = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        assert left == {"type": "http.disconnect"}
        ended.set()

    listener = Server([("127.0.0.1", 0)], application, lambda: tls)
    listener.open()
    try:
        with plain(listener) as raw, trusting(authority).wrap_socket(raw, server_hostname="127.0.0.1") as secure:
            secure.sendall(REQUEST.replace(b"Connection: close\r\n", b""))
            assert begun.wait(20)
            secure.unwrap()
        assert ended.wait(20)
    finally:
        listener.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
