"""The law of the port on the real program in 256 MB: a client makes it slow, not large, not dead, and learns no secret.

Each attack goes on for ``ATTACK_SECONDS`` while an honest scraper asks on new connections.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import socket
import ssl
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median

import bcrypt
import pytest

from exporter.status.app import LARGE_ANSWERS
from exporter.web_server.server import MAX_CONNECTIONS
from testkit.certificates import Authority
from tests.hostile.process import MEMORY_MB, TOKEN, ConfinedAgent, hostile_servers

ATTACK_SECONDS = float(os.environ.get("ATTACK_SECONDS", "5"))
ANSWER_SECONDS = 2.0
PASSWORD = "pa55-of-the-jvm"
GZIP_BOMB = gzip.compress(b" " * 900_000_000, 9)

Strike = Callable[[int, threading.Event], None]
"""Attacks a port until the event is set."""


def settings(root: Path, servers: int = 0) -> Path:
    document: dict[str, object] = {
        "web": {"listen_address": "127.0.0.1:0"},
        "state": {"dir": str(root / "state")},
        "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}],
        "ingest": {"enabled": True, "token": TOKEN, "memory": "32MiB"},
    }
    if servers:
        url, login = f"http://127.0.0.1:{servers}", {"username": "ann", "password": PASSWORD, "interval": "2s"}
        document |= {
            "producers": [
                {"jolokia": f"{url}/jolokia32", **login},
                {"jmx_exporter": f"{url}/jmx32", **login},
                {"jolokia": f"{url}/gzip", **login},
            ],
            "connect": [{"name": "c", "rest": [f"{url}/connect32"], **login}],
        }
    path = root / "settings.json"
    path.write_text(json.dumps(document))
    return path


def hold(count: int, first: bytes, drip: bytes = b"") -> Strike:
    """Keep so many connections open, anew when they are closed, each given ``drip`` byte by byte."""

    def strike(port: int, over: threading.Event) -> None:
        with ExitStack() as stack:
            held: list[socket.socket] = []
            while not over.wait(0.1):
                while len(held) < count:
                    sock = stack.enter_context(socket.socket())
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    sock.connect(("127.0.0.1", port))
                    sock.setblocking(False)
                    held.append(sock)
                    with suppress(OSError):
                        sock.send(first)
                held = [sock for sock in held if stays(sock, drip)]

    return strike


def stays(sock: socket.socket, drip: bytes) -> bool:
    """Whether the server has not closed it; sends what the kernel takes, and reads a byte of what comes."""
    try:
        if drip:
            sock.send(drip)
        if sock.recv(1):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    sock.close()
    return False


def post(port: int, path: str, body: bytes, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        return connection.getresponse().status
    finally:
        connection.close()


def statistics(number: int) -> bytes:
    document = {"client_id": f"client-{number}-" + "x" * 150, "instance": "i" * 150, "eos": {}, "txmsgs": 1}
    document["eos"] = {"txn_state": "Ready", "idemp_state": "Assigned"}
    return json.dumps(document).encode()


def pushes(port: int, over: threading.Event) -> None:
    """Pushes with the wrong and with the right token at once; the first are refused, the second are read."""

    def push(token: str, expected: set[int]) -> None:
        number = 0
        while not over.is_set():
            number += 1
            headers = {"Content_Type": "application/json", "Authorization": f"Bearer {token}"}
            with suppress(OSError):  # a refusal may be lost where the client still sends
                assert post(port, "/ingest/librdkafka", statistics(number % 100), **headers) in expected

    run_all(*((lambda: push("wrong", {401, 503})) for _ in range(4)), lambda: push(TOKEN, {204, 429, 503}))


def bombs(port: int, over: threading.Event) -> None:
    def push() -> None:
        headers = {"Content_Encoding": "gzip", "Authorization": f"Bearer {TOKEN}"}
        while not over.is_set():
            with suppress(OSError):
                form = {"Content_Type": "application/x-protobuf", **headers}
                assert post(port, "/v1/metrics", GZIP_BOMB, **form) in {413, 429, 503}

    run_all(*(push for _ in range(10)))


def run_all(*calls: Callable[[], None]) -> None:
    failed: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 -- raised below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b"POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
ATTACKS: dict[str, Strike] = {
    "idle connections": hold(MAX_CONNECTIONS - 1, b""),  # the last one is the scraper's
    "slow heads": hold(MAX_CONNECTIONS - 1, SCRAPE[:-4], b"x"),
    "bodies without a token": hold(MAX_CONNECTIONS - 1, BODY, b"x" * 65_536),
    "pushes with a bad and a right token": pushes,
    "slow readers of the largest body": hold(LARGE_ANSWERS - 1, SCRAPE),  # the last place is the scraper's
    "gzip bombs with a token": bombs,
}


@contextmanager
def under(config: Path) -> Iterator[ConfinedAgent]:
    """An agent that answers in the end, stops in order, stays small, and prints no secret."""
    agent = ConfinedAgent(config)
    try:
        yield agent
        pages = "".join(agent.page(path) for path in ("/metrics", "/", "/api/v1/status"))
        print(f"{agent.peak_mb:.0f} MB, in a cgroup: {agent.group is not None}")
        assert agent.peak_mb < MEMORY_MB
    finally:
        code = agent.stop()
    assert code == 0, agent.log[-3000:]
    assert "Traceback" not in agent.log
    for secret in (TOKEN, PASSWORD):
        assert secret not in agent.log + pages


def scrape(agent: ConfinedAgent, seconds: float) -> list[float]:
    """The seconds of each scrape by an honest client meanwhile. Raises for one that is not answered."""
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        agent.page("/metrics")
        took.append(time.monotonic() - began)
        time.sleep(0.3)
    return took


@pytest.mark.parametrize("name", ATTACKS)
def test_a_client_of_the_port_makes_it_neither_large_nor_dead(name: str, tmp_path: Path) -> None:
    with under(settings(tmp_path)) as agent:
        for number in range(500):  # what makes a large body
            headers = {"Content_Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
            post(agent.port, "/ingest/librdkafka", statistics(number), **headers)
        until = time.monotonic() + 60
        while len(agent.page("/metrics")) < 250_000:  # what is posted is read every two seconds
            assert time.monotonic() < until
            time.sleep(0.2)
        over, took = threading.Event(), list[float]()

        def ask() -> None:
            try:
                time.sleep(1.0)  # the attack has begun
                took.extend(scrape(agent, ATTACK_SECONDS))
            finally:
                over.set()

        run_all(lambda: ATTACKS[name](agent.port, over), ask)
        print(f"{name}: {len(took)} scrapes, median {median(took):.3f} s, most {max(took):.3f} s")
        assert median(took) < ANSWER_SECONDS


def test_answers_of_32_mb_make_it_neither_large_nor_dead(tmp_path: Path) -> None:
    with hostile_servers() as servers, under(settings(tmp_path, servers)) as agent:
        took = scrape(agent, ATTACK_SECONDS + 5.0)
        print(f"{len(took)} scrapes, median {median(took):.3f} s, most {max(took):.3f} s")
        assert median(took) < ANSWER_SECONDS


def half_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="x").do_handshake()
    return outgoing.read()[:150]


def guesses(port: int, over: threading.Event) -> None:
    """Passwords that are wrong, each on a new connection."""
    context = ssl._create_unverified_context()  # noqa: S323 -- a stranger does not check
    number = 0
    while not over.is_set():
        number += 1
        with suppress(OSError):
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
            login = b64encode(f"ann:guess {number}".encode()).decode()
            connection.request("GET", "/metrics", headers={"Authorization": f"Basic {login}"})
            assert connection.getresponse().status in {401, 429, 503}
            connection.close()


def test_a_client_of_a_port_with_tls_and_users_makes_it_neither_large_nor_dead(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    authority.issue("server")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    web = tmp_path / "tls" / "web.yml"
    web.write_text(
        f"tls_server_config: {{cert_file: server.pem, key_file: server.key}}\nbasic_auth_users:\n  ann: {hashed}\n"
    )
    config = settings(tmp_path)
    document = json.loads(config.read_text())
    document["web"]["config_file"] = str(web)
    config.write_text(json.dumps(document))
    context = ssl.create_default_context(cafile=authority.certificate)
    login = b64encode(f"ann:{PASSWORD}".encode()).decode()
    agent, over, took, pages = ConfinedAgent(config), threading.Event(), list[float](), list[str]()

    def ask() -> None:
        end = time.monotonic() + ATTACK_SECONDS
        try:
            while time.monotonic() < end:
                url = f"https://127.0.0.1:{agent.port}/metrics"
                request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
                began = time.monotonic()
                with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310 -- our own
                    pages.append(answer.read().decode())
                took.append(time.monotonic() - began)
                time.sleep(0.3)
        finally:
            over.set()

    try:
        strikes = (hold(100, half_hello()), guesses, guesses)
        run_all(*(partial(strike, agent.port, over) for strike in strikes), ask)
        print(f"{len(took)} scrapes, median {median(took):.3f} s, {agent.peak_mb:.0f} MB")
        assert median(took) < ANSWER_SECONDS
        assert agent.peak_mb < MEMORY_MB
    finally:
        code = agent.stop()
    assert code == 0, agent.log[-3000:]
    assert "Traceback" not in agent.log
    for secret in (PASSWORD, login, hashed):
        assert secret not in agent.log + "".join(pages)
