"""Clients that are slow, broken, many or mean: others are served all the same."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from exporter.catalogue import SOURCE_UP
from exporter.exposition.render import Exposition
from exporter.exposition.text_format import Format
from exporter.model import Clock, Snapshot
from exporter.status.app import LARGE_ANSWERS, App
from exporter.web_server.connection import Limits
from exporter.web_server.server import MAX_CONNECTIONS, SEND_BUFFER_BYTES, Server

REQUEST = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SCRAPE = REQUEST.replace(b"/-/healthy", b"/metrics")


@pytest.fixture(scope="module")
def exposition() -> Exposition:
    """A body of 10 MB: more than the system buffers for a client that does not read."""
    exposition = Exposition()
    samples = tuple(SOURCE_UP(number, "prod", "lso", f"target-{number}") for number in range(100_000))
    now = Clock().monotonic()
    exposition.swap({("big",): Snapshot("lso", "prod", "prod", 600.0, samples, (), (), 0.1, now, 0.0)})
    return exposition


@pytest.fixture
def listener(exposition: Exposition) -> Iterator[Server]:
    listener = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, list), limits=Limits(answer=2.0))
    listener.open()
    yield listener
    listener.close()


def connect(listener: Server, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", listener.ports[0]), timeout=20, source_address=(source, 0))


def exchange(listener: Server, request: bytes = REQUEST) -> bytes:
    with connect(listener) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_clients_that_say_nothing_do_not_keep_others_waiting(listener: Server, crowd: list[socket.socket]) -> None:
    crowd += [connect(listener) for _ in range(100)]
    assert exchange(listener).endswith(b"Healthy.\n")


def test_clients_that_never_finish_their_request_do_not_keep_others_waiting(
    listener: Server, crowd: list[socket.socket]
) -> None:
    crowd += [connect(listener) for _ in range(50)]
    for client in crowd:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
    assert exchange(listener).endswith(b"Healthy.\n")


def test_a_request_that_comes_in_single_bytes_is_answered(patient: Server) -> None:
    with connect(patient) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in REQUEST:
            connection.sendall(bytes([byte]))
        assert b"".join(iter(lambda: connection.recv(65536), b"")).endswith(b"Healthy.\n")


def slow_reader(listener: Server, source: str = "127.0.0.1") -> socket.socket:
    """A client that asks for 10 MB and does not read them."""
    slow = socket.socket()
    slow.bind((source, 0))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", listener.ports[0]))
    slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return slow


@pytest.fixture
def patient(exposition: Exposition) -> Iterator[Server]:
    """Has no time limits: a client that is held up here stays so until the test's own limit."""
    limits = Limits(head=3600.0, answer=3600.0, rest=3600.0)
    patient = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, list), limits=limits)
    patient.open()
    yield patient
    patient.close()


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not closed it yet; what it said is thrown away."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


UNFINISHED = [
    b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0000000050\r\n\r\n",
    b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n" + b"x" * 30_000,
    b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 15_000,
    b"GET /metrics HTTP/1.1\r\nHost: local",
    b"G",
    b"",
]


@pytest.mark.parametrize("sent", UNFINISHED, ids=lambda sent: sent[:60].decode())
def test_requests_that_never_come_in_full_hold_no_thread_and_hold_up_no_other(
    patient: Server, crowd: list[socket.socket], sent: bytes
) -> None:
    assert exchange(patient).endswith(b"Healthy.\n")
    threads = threading.active_count()
    for number in range(32):
        crowd.append(connect(patient, f"127.0.0.{66 + number % 2}"))
        crowd[-1].sendall(sent)
    for _ in range(5):
        assert exchange(patient, SCRAPE).startswith(b"HTTP/1.1 200 ")
    assert threading.active_count() <= threads + 2  # those that make bodies of /metrics


@pytest.mark.parametrize("sent", UNFINISHED, ids=lambda sent: sent[:60].decode())
def test_a_request_that_comes_byte_by_byte_is_given_up_in_time(
    exposition: Exposition, crowd: list[socket.socket], sent: bytes
) -> None:
    listener = Server(
        [("127.0.0.1", 0)], App(exposition, dict, lambda: True, list), limits=Limits(head=0.5, answer=0.5)
    )
    listener.open()
    try:
        for number in range(24):
            crowd.append(connect(listener, f"127.0.0.{66 + number % 3}"))
            crowd[-1].sendall(sent)
        while any(map(is_open, crowd)):  # the test's own time limit ends this
            for client in crowd:
                with contextlib.suppress(OSError):
                    client.send(b"x")
            time.sleep(0.01)
        assert exchange(listener).endswith(b"Healthy.\n")
    finally:
        listener.close()


def test_a_client_that_reads_nothing_is_given_up_in_time(listener: Server, crowd: list[socket.socket]) -> None:
    crowd += [slow_reader(listener) for _ in range(3)]
    while open_connections(listener):  # the test's own time limit ends this
        time.sleep(0.01)
    assert exchange(listener).endswith(b"Healthy.\n")


def open_connections(server: Server) -> list[HttpToolsProtocol]:
    return list(server._server.server_state.connections)  # type: ignore[arg-type]  # Connection is one of them


class ChangingBody:
    """An exposition with another body of 3 MB at each request."""

    def __init__(self) -> None:
        self.made, self.clock = 0, Clock()

    def ready(self, fmt: Format, gzip: bool = False) -> None:
        """None: it has to be made."""

    def body(self, fmt: Format, gzip: bool = False, asked: float = 0.0) -> bytes:
        self.made += 1
        return b"%d\n" % self.made * 1_500_000


def test_so_many_slow_readers_hold_a_body_that_further_ones_wait_and_small_answers_do_not(
    crowd: list[socket.socket],
) -> None:
    body = ChangingBody()
    app = App(body, dict, lambda: True, list)  # type: ignore[arg-type]  # as the exposition
    server = Server([("127.0.0.1", 0)], app, limits=Limits(head=3600.0, answer=3600.0, rest=3600.0))
    server.open()
    try:
        for number in range(LARGE_ANSWERS):
            crowd.append(slow_reader(server))
            assert crowd[-1].recv(1) == b"H"
            if number < LARGE_ANSWERS - 1:
                assert len(exchange(server, SCRAPE)) > 3_000_000
        assert exchange(server, SCRAPE).startswith(b"HTTP/1.1 503 ")
        assert exchange(server).endswith(b"Healthy.\n")
        assert body.made == 2 * LARGE_ANSWERS - 1  # none for who waits
        crowd.pop().close()
        assert len(exchange(server, SCRAPE)) > 3_000_000
    finally:
        server.close()


def test_the_kernel_holds_a_bounded_number_of_bytes_for_a_client_that_does_not_read(
    patient: Server, crowd: list[socket.socket]
) -> None:
    crowd.append(slow_reader(patient))
    assert crowd[0].recv(1) == b"H"
    [connection] = open_connections(patient)
    accepted = connection.transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * SEND_BUFFER_BYTES  # Linux doubles it


def test_one_connection_too_many_is_reported_so_at_once_and_those_before_it_are_served(
    patient: Server, crowd: list[socket.socket]
) -> None:
    crowd += [connect(patient) for _ in range(MAX_CONNECTIONS)]
    assert exchange(patient, b"").startswith(b"HTTP/1.1 503 ")
    crowd[0].sendall(REQUEST)
    assert crowd[0].recv(65536).startswith(b"HTTP/1.1 200")
    crowd.pop().close()
    while not exchange(patient).endswith(b"Healthy.\n"):  # the test's own time limit ends this
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 40_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Many: x\r\n" * 5_000 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: x\r\n" * 120 + b"\r\n", b"400"),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /\r\n\r\n", b"400"),
        (b"GET / HTTP/+1.+1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", b"400"),
        (b"NONSENSE\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\nHost: x\n\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
    ],
)
def test_what_is_too_long_or_no_http_is_refused(listener: Server, request_bytes: bytes, status: bytes) -> None:
    with connect(listener) as connection:
        connection.sendall(request_bytes)
        assert connection.recv(65536).split(b" ")[1] == status


def test_a_client_that_resets_its_connection_is_no_error_of_ours(
    listener: Server, caplog: pytest.LogCaptureFixture
) -> None:
    for request in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        for _ in range(20):
            connection = connect(listener)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            connection.sendall(request)
            connection.close()
    assert exchange(listener).endswith(b"Healthy.\n")
    assert caplog.records == []


def test_a_connection_that_was_served_is_kept_for_longer_than_one_that_says_nothing(exposition: Exposition) -> None:
    listener = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, list), limits=Limits(head=0.3))
    listener.open()
    kept = http.client.HTTPConnection("127.0.0.1", listener.ports[0], timeout=20)
    for _ in range(3):
        kept.request("GET", "/-/healthy")
        assert kept.getresponse().read() == b"Healthy.\n"
        with connect(listener) as silent:
            assert silent.recv(1) == b""
    half = kept.sock
    half.sendall(REQUEST[:20])
    assert half.recv(1) == b""
    kept.close()
    listener.close()


@pytest.mark.parametrize("path", ["/-/healthy", "/nothing"])
def test_a_connection_may_send_any_number_of_bodies_that_nobody_wants(patient: Server, path: str) -> None:
    client = http.client.HTTPConnection("127.0.0.1", patient.ports[0], timeout=20)
    client.connect()
    first = client.sock
    for size in (10, 60_000, 500_000) * 10:
        client.request("POST", path, b"x" * size)
        answer = client.getresponse()
        answer.read()
        assert answer.status in {404, 405}
    assert client.sock is first
    client.close()


def test_many_requests_at_once_are_all_answered(patient: Server) -> None:
    answers: list[bytes] = []

    def ask() -> None:
        answers.extend(exchange(patient) for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(answers) == 300
    assert all(answer.endswith(b"Healthy.\n") for answer in answers)


def test_closing_does_not_wait_for_a_client_that_does_not_read(listener: Server, crowd: list[socket.socket]) -> None:
    slow = slow_reader(listener)
    crowd.append(slow)
    assert slow.recv(10)
    closing = threading.Thread(target=listener.close)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()


def test_a_request_that_has_not_come_in_full_when_the_server_stops_is_no_error_of_ours(
    exposition: Exposition, crowd: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    server = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, list))
    server.open()
    crowd.append(connect(server))
    crowd[0].sendall(UNFINISHED[0])
    while not open_connections(server):  # the test's own time limit ends this
        time.sleep(0.01)
    server.close()
    assert caplog.records == []


def test_what_is_being_answered_is_answered_before_the_end(exposition: Exposition) -> None:
    begun, go = threading.Event(), threading.Event()

    def reload() -> list[str]:
        begun.set()
        go.wait(30)
        return []

    server = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, reload))
    server.open()
    with connect(server) as connection:
        connection.sendall(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert begun.wait(30)
        closing = threading.Thread(target=server.close)
        closing.start()
        go.set()
        assert b"".join(iter(lambda: connection.recv(65536), b"")).endswith(b"Reloaded.\n")
    closing.join(10)
    assert not closing.is_alive()


def test_a_reload_that_hangs_holds_up_neither_the_end_nor_others(exposition: Exposition) -> None:
    begun, go = threading.Event(), threading.Event()

    def reload() -> list[str]:
        begun.set()
        go.wait(60)
        return []

    server = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, reload))
    server.open()
    waiting = [connect(server) for _ in range(20)]
    for client in waiting:
        client.sendall(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert begun.wait(30)
    assert exchange(server, SCRAPE).startswith(b"HTTP/1.1 200 ")
    closing = threading.Thread(target=server.close)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    go.set()
    for client in waiting:
        client.close()
