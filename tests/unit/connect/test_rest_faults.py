"""Faulty answers in place of Connect's REST API: each is a fault with its reason, in time, and affects no other."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from exporter.connect.rest import GRACE_SECONDS, ConnectRest, run_concurrently, worker_versions
from exporter.http_client import MAX_BYTES, Endpoint
from exporter.model import Deadline, Reason
from tests.helpers.recordings import RECORDINGS

CAPTURE = RECORDINGS / "connect" / "rest.json"
SECONDS = 1.0

Answering = Callable[[socket.socket, threading.Event], None]
Serve = Callable[[Answering], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that treats every connection the same way. Returns its address."""
    over = threading.Event()
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def start(answering: Answering) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(0.05)
        listeners.append(listener)

        def handle(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.settimeout(0.2)
                    connection.recv(65536)
                    answering(connection, over)
                except OSError:
                    return

        def accept() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                handle(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        threads.append(thread)
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    over.set()
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()


def says(status: str, body: bytes, *headers: str, length: int | None = None) -> Answering:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]

    def answer(connection: socket.socket, _: threading.Event) -> None:
        connection.sendall("\r\n".join(head).encode() + body)

    return answer


def hangs(_: socket.socket, over: threading.Event) -> None:
    over.wait(10)


def drips(connection: socket.socket, over: threading.Event) -> None:
    """A slow loris: there is always another byte before any time-out of a single read."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")
    while not over.wait(0.05):
        connection.sendall(b" ")


def floods(connection: socket.socket, over: threading.Event) -> None:
    """A hundred megabytes."""
    connection.settimeout(5)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
    for _ in range(100):
        if over.is_set():
            return
        connection.sendall(b" " * 1024 * 1024)


REDIRECT = says("302 Found", b"", "Location: http://127.0.0.1:1/elsewhere")
BAD: list[tuple[str, Answering, Reason]] = [
    ("hangs", hangs, Reason.TIMEOUT),
    ("slow loris", drips, Reason.TIMEOUT),
    ("html", says("200 OK", b"<html><body>It works!</body></html>"), Reason.MALFORMED),
    ("half a json", says("200 OK", CAPTURE.read_bytes()[:500]), Reason.MALFORMED),
    ("cut off", says("200 OK", CAPTURE.read_bytes()[:500], length=100_000), Reason.UNREACHABLE),
    ("100 MB", floods, Reason.MALFORMED),
    ("wrong credentials", says("401 Unauthorized", b"{}"), Reason.AUTHENTICATION),
    ("forbidden", says("403 Forbidden", b"{}"), Reason.AUTHORIZATION),
    ("redirect", REDIRECT, Reason.MALFORMED),
    ("rebalancing", says("500 Internal Server Error", b'{"error_code": 500}'), Reason.UNREACHABLE),
    ("no http", lambda connection, _: connection.sendall(b"\x00\x01\x02garbage\r\n\r\n"), Reason.UNREACHABLE),
]


@pytest.mark.parametrize(("answering", "reason"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_what_does_not_answer_as_connect_does_is_a_fault_in_time(
    serve: Serve, answering: Answering, reason: Reason
) -> None:
    deadline = Deadline.after(SECONDS if reason is Reason.TIMEOUT else 10 * SECONDS)
    answer = ConnectRest([Endpoint(serve(answering), "eos", "sesame")]).read(deadline)
    late = time.monotonic() - deadline.at
    assert answer.connectors is None
    assert [fault.reason for fault in answer.faults] == [reason]
    assert "sesame" not in repr(answer)
    assert late < 5 * SECONDS, "it came back by its deadline"


def test_a_dead_address_is_a_fault() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answer = ConnectRest([Endpoint(f"http://127.0.0.1:{port}")]).read(Deadline.after(SECONDS))
    assert [fault.reason for fault in answer.faults] == [Reason.UNREACHABLE]


@pytest.mark.parametrize("answering", [bad[1] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_another_worker_that_answers_is_enough(serve: Serve, answering: Answering) -> None:
    rest = ConnectRest([Endpoint(serve(answering)), Endpoint(serve(says("200 OK", CAPTURE.read_bytes())))])
    for _ in range(2):
        answer = rest.read(Deadline.after(4 * SECONDS))
        assert answer.connectors is not None
        assert not answer.faults


def test_the_worker_that_answered_is_asked_first_from_then_on(serve: Serve) -> None:
    asked: list[str] = []

    def noting(name: str, then: Answering) -> Answering:
        def answer(connection: socket.socket, over: threading.Event) -> None:
            asked.append(name)
            then(connection, over)

        return answer

    bad = serve(noting("bad", says("503 Service Unavailable", b"")))
    good = serve(noting("good", says("200 OK", b"{}")))
    rest = ConnectRest([Endpoint(bad), Endpoint(good)])
    for _ in range(3):
        assert rest.read(Deadline.after(10 * SECONDS)).connectors == ()
    first, others = asked[:5], asked[5:]
    assert first == ["bad", "good", "good", "bad", "good"], "its plugins, and once the version of every worker"
    assert others == ["good", "good"]


def test_the_greatest_answer_is_smaller_than_what_floods() -> None:
    assert MAX_BYTES < 100 * 1024 * 1024


def test_a_question_that_never_returns_costs_the_others_nothing() -> None:
    release = threading.Event()
    answers = run_concurrently([lambda: str(release.wait(30)), lambda: "here"], Deadline.after(0.1))
    release.set()
    assert answers == [None, "here"]


def test_questions_that_never_return_are_waited_for_together() -> None:
    release = threading.Event()
    began = time.monotonic()
    assert run_concurrently([lambda: release.wait(30)] * 12, Deadline.after(0)) == [None] * 12
    took = time.monotonic() - began
    release.set()
    assert took < 12 * GRACE_SECONDS / 2


def test_a_bug_in_a_question_is_raised_where_it_was_asked() -> None:
    def broken() -> str:
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        run_concurrently([broken, lambda: "here"], Deadline.after(SECONDS))


def test_a_worker_that_does_not_tell_its_plugins_costs_nothing_but_their_versions(serve: Serve) -> None:
    asked: list[bytes] = []

    def answer(connection: socket.socket, over: threading.Event) -> None:
        asked.append(b"")
        then = says("200 OK", CAPTURE.read_bytes()) if len(asked) % 2 else hangs
        then(connection, over)

    rest = ConnectRest([Endpoint(serve(answer))])
    found = rest.read(Deadline.after(2 * SECONDS))
    assert not found.faults
    assert found.connectors
    assert {connector.version for connector in found.connectors} == {""}


def test_versions_of_workers_are_those_that_answer_with_one(serve: Serve) -> None:
    good = Endpoint(serve(says("200 OK", b'{"version": "4.3.1", "commit": "x"}')))
    others = [Endpoint(serve(answering)) for answering in (says("200 OK", b"[]"), says("200 OK", b'{"version": 3}'))]
    found = worker_versions([good, *others], Deadline.after(10 * SECONDS))
    assert found == {good.address: "4.3.1"}
