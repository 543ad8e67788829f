"""Clients that are slow, broken, many or mean: others are served all the same."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from exporter.catalogue import SOURCE_UP
from exporter.exposition.render import Exposition
from exporter.model import Clock, Snapshot
from exporter.web.app import App
from exporter.web.connection import Limits
from exporter.web.server import Server

REQUEST = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


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
    listener = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, list), limits=Limits(exchange=2.0))
    listener.open()
    yield listener
    listener.close()


@pytest.fixture
def crowd(listener: Server) -> Iterator[list[socket.socket]]:
    """Sockets to be closed in the end."""
    sockets: list[socket.socket] = []
    yield sockets
    for each in sockets:
        each.close()


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
    for each in crowd:
        each.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
    assert exchange(listener).endswith(b"Healthy.\n")


def test_a_request_that_comes_in_single_bytes_is_answered(listener: Server) -> None:
    with connect(listener) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in REQUEST:
            connection.sendall(bytes([byte]))
        assert b"".join(iter(lambda: connection.recv(65536), b"")).endswith(b"Healthy.\n")


def slow_reader(listener: Server) -> socket.socket:
    """A client that asks for 10 MB and does not read them."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", listener.ports[0]))
    slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return slow


def test_clients_that_do_not_read_lose_their_thread_in_the_end(listener: Server, crowd: list[socket.socket]) -> None:
    crowd += [slow_reader(listener) for _ in range(20)]
    assert exchange(listener).endswith(b"Healthy.\n")


def test_a_client_that_reads_nothing_leaves_threads_for_others(
    crowd: list[socket.socket], exposition: Exposition
) -> None:
    patient = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, list), limits=Limits(exchange=3600.0))
    patient.open()
    crowd += [slow_reader(patient) for _ in range(20)]
    with socket.create_connection(
        ("127.0.0.1", patient.ports[0]), timeout=20, source_address=("127.0.0.2", 0)
    ) as other:
        other.sendall(REQUEST)
        assert b"".join(iter(lambda: other.recv(65536), b"")).endswith(b"Healthy.\n")
    patient.close()


def test_a_body_that_trickles_in_loses_its_thread_in_the_end(listener: Server, crowd: list[socket.socket]) -> None:
    for _ in range(10):
        slow = connect(listener)
        slow.sendall(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n")
        crowd.append(slow)
    done = threading.Event()

    def trickle() -> None:
        while not done.wait(0.2):
            for each in crowd:
                with contextlib.suppress(OSError):
                    each.sendall(b"x")

    threading.Thread(target=trickle, daemon=True).start()
    assert exchange(listener).endswith(b"Healthy.\n")
    done.set()


def test_when_it_is_crowded_those_who_hold_most_give_up_their_oldest(
    listener: Server, crowd: list[socket.socket]
) -> None:
    quiet = connect(listener, "127.0.0.2")
    crowd.append(quiet)
    crowd += [connect(listener) for _ in range(listener.most_connections + 20)]
    assert crowd[1].recv(1) == b""
    assert exchange(listener).endswith(b"Healthy.\n")
    quiet.sendall(REQUEST)
    assert quiet.recv(65536).startswith(b"HTTP/1.1 200")
    crowd[-1].sendall(REQUEST)
    assert crowd[-1].recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 40_000 + b"\r\n\r\n", b"413"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Many: x\r\n" * 5_000 + b"\r\n", b"413"),
        (b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n", b"413"),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", b"505"),
        (b"GET /\r\n\r\n", b"505"),
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
    listener = Server([("127.0.0.1", 0)], App(exposition, dict, lambda: True, list), limits=Limits(arrival=0.3))
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


def test_many_requests_at_once_are_all_answered(listener: Server) -> None:
    answers: list[bytes] = []

    def ask() -> None:
        answers.extend(exchange(listener) for _ in range(10))

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
