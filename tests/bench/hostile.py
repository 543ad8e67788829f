"""``python -m tests.bench.hostile``: how long a scrape takes while others attack the endpoint.

A real agent with TLS and users, attacked from 127.0.0.66 and its neighbours by a process of its own and scraped from
127.0.0.1, with a new connection each time, which is the dearest way, and while passwords are guessed by a user that was
never seen before. Nothing here judges time: figures are for people.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import itertools
import os
import secrets
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import bcrypt

from demo.agent import AgentProcess
from demo.certificates import Authority
from demo.processes import ProcessGroup
from tests.bench.machine import cpu_seconds

HOST = "127.0.0.1"
ATTACKERS = tuple(f"127.0.0.{number}" for number in range(66, 72))
USERS = 500
PASSWORD = "scrape-me"
CALL_SECONDS = 20.0
GAP_SECONDS = 0.05
SETTLE_SECONDS = 25.0
HEAD = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"

Attack = Callable[[int, float], int]


class Figures(NamedTuple):
    """One attack: the scrapes meanwhile, and what the agent held at its most."""

    attack: str
    done: int
    seconds: tuple[float, ...]
    failed: int
    rss_mb: float
    fds: int
    cpu: float

    def quantile(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))] if self.seconds else 0.0


# --- The attacks: each runs in a process of its own until its time is over, and says how often it struck --------------


def _connect(port: int, addresses: int = 1) -> socket.socket:
    source = secrets.choice(ATTACKERS[:addresses])
    sock = socket.create_connection((HOST, port), timeout=CALL_SECONDS, source_address=(source, 0))
    sock.settimeout(CALL_SECONDS)
    return sock


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _secure(port: int, context: ssl.SSLContext, addresses: int = 1) -> ssl.SSLSocket:
    return context.wrap_socket(_connect(port, addresses))


def _hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        _tls().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def _hold(count: int, strike: Callable[[int], socket.socket], drip: bytes = b"", gap: float = 0.1) -> Attack:
    """Keep so many connections open, anew when they are closed, each given ``drip`` byte by byte, if any."""

    def attack(port: int, until: float) -> int:
        held: list[socket.socket] = []
        struck = 0
        while time.monotonic() < until:
            while len(held) < count and time.monotonic() < until:
                with contextlib.suppress(OSError):
                    held.append(strike(port))
                    held[-1].setblocking(False)
                    struck += 1
            for sock in list(held):
                try:
                    if drip:
                        sock.send(secrets.choice(drip).to_bytes())
                    if sock.recv(1) == b"":
                        raise ConnectionError
                except (BlockingIOError, ssl.SSLWantReadError):
                    continue
                except OSError:
                    sock.close()
                    held.remove(sock)
            time.sleep(gap)
        return struck

    return attack


def _repeat(strike: Callable[[int], None], threads: int = 4) -> Attack:
    """As often as it goes."""

    def attack(port: int, until: float) -> int:
        struck = [0] * threads

        def run(at: int) -> None:
            while time.monotonic() < until:
                with contextlib.suppress(OSError):
                    strike(port)
                    struck[at] += 1

        running = [threading.Thread(target=run, args=(at,)) for at in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return sum(struck)

    return attack


def _nothing(port: int, until: float) -> int:
    time.sleep(max(0.0, until - time.monotonic()))
    return port * 0


def _half_hello(port: int) -> socket.socket:
    sock = _connect(port)
    sock.sendall(_HELLO[:150])
    return sock


def _slow_head(port: int) -> socket.socket:
    sock = _secure(port, _CONTEXT)
    sock.sendall(HEAD + b"X-Slow: ")
    return sock


def _slow_body(port: int) -> socket.socket:
    sock = _secure(port, _CONTEXT)
    sock.sendall(b"POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n" + b"x" * 30_000)
    return sock


def _unfinished(addresses: int) -> Callable[[int], socket.socket]:
    """A length whose leading zeros a second parser overlooks, without a body."""

    def strike(port: int) -> socket.socket:
        sock = _secure(port, _CONTEXT, addresses)
        sock.sendall(b"POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0000000050\r\n\r\n")
        return sock

    return strike


def _long_head(port: int) -> socket.socket:
    sock = _secure(port, _CONTEXT)
    sock.sendall(HEAD + b"X-Long: " + b"a" * (16_000 - len(HEAD)))
    return sock


def _pipelined(port: int) -> None:
    with _secure(port, _CONTEXT) as sock:
        sock.sendall((HEAD + b"\r\n") * 5_000)
        while sock.recv(65536):
            pass


def _shake_hands(port: int) -> None:
    _secure(port, _CONTEXT).close()


def _guess(port: int, addresses: int = 1) -> None:
    credentials = base64.b64encode(b"user1:" + secrets.token_hex(8).encode())
    with _secure(port, _CONTEXT, addresses) as sock:
        sock.sendall(HEAD + b"Connection: close\r\nAuthorization: Basic " + credentials + b"\r\n\r\n")
        while sock.recv(65536):
            pass


def _nonsense(port: int) -> None:
    with _connect(port) as sock:
        sock.sendall(
            secrets.choice((b"\x16\x03\x01\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"")) + secrets.token_bytes(9000)
        )


def _huge(port: int) -> None:
    line = secrets.choice(
        (b"GET /" + b"a" * 60_000, HEAD + b"X-Huge: " + b"a" * 60_000, HEAD + b"X-Many: a\r\n" * 5_000)
    )
    with _secure(port, _CONTEXT) as sock:
        sock.sendall(line + b"\r\n\r\n")
        while sock.recv(65536):
            pass


_CONTEXT = _tls()
_HELLO = _hello()

ATTACKS: Mapping[str, tuple[str, Attack]] = {
    "calm": ("nobody attacks", _nothing),
    "silent": ("2,000 connections that say nothing", _hold(2000, _connect)),
    "hello": ("500 connections with half a ClientHello, byte by byte", _hold(500, _half_hello, _HELLO[150:])),
    "heads": ("400 heads over TLS, byte by byte", _hold(400, _slow_head, b"abcdefgh")),
    "bodies": ("400 bodies over TLS, byte by byte", _hold(400, _slow_body, b"abcdefgh")),
    "handshakes": ("handshakes, as many as go", _repeat(_shake_hands)),
    "guesses": ("passwords guessed by 8 threads", _repeat(_guess, 8)),
    "guessers": ("passwords guessed from 6 addresses", _repeat(lambda port: _guess(port, 6), 12)),
    "unfinished": ("16 bodies that never come, from 2 addresses", _hold(16, _unfinished(2))),
    "dripping": ("24 bodies, a byte each 0.9 s, from 3 addresses", _hold(24, _unfinished(3), b"x", 0.9)),
    "long": ("100 heads of 16 kB, then byte by byte", _hold(100, _long_head, b"a", 0.01)),
    "pipelined": ("5,000 requests at once", _repeat(_pipelined)),
    "nonsense": ("bytes that are no TLS", _repeat(_nonsense)),
    "huge": ("lines and heads of 60 kB", _repeat(_huge)),
    "connects": ("connections opened and closed", _repeat(lambda port: _connect(port).close())),
}


STRANGERS = frozenset({"guesses", "guessers"})
"""Attacks during which each scrape is by a user that was not seen before."""

_NEW_USERS = itertools.count(1)


# --- The scrapes meanwhile --------------------------------------------------------------------------------------------


def _scrape(port: int, context: ssl.SSLContext, user: int = 0) -> float:
    """Seconds of one GET /metrics on a connection of its own. Raises OSError or HTTPException when it fails."""
    credentials = base64.b64encode(f"user{user}:{PASSWORD}".encode()).decode()
    began = time.monotonic()
    connection = http.client.HTTPSConnection(HOST, port, timeout=CALL_SECONDS, context=context)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Basic {credentials}"})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise http.client.HTTPException(str(response.status))
    finally:
        connection.close()
    return time.monotonic() - began


def _status(pid: int, key: str) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{key}:")))


def _fds(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def measure(agent: AgentProcess, context: ssl.SSLContext, name: str, seconds: float) -> Figures:
    """Attack for so long, scraping all the while."""
    pid = agent.child.pid
    before = cpu_seconds(pid)
    argv = [
        sys.executable,
        "-m",
        "tests.bench.hostile",
        "--attack",
        name,
        "--port",
        str(agent.port),
        "--seconds",
        str(seconds),
    ]
    taken: list[float] = []
    failed = fds = 0
    rss = 0.0
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as attacker:
        time.sleep(1.0)
        while attacker.poll() is None:
            try:
                user = next(_NEW_USERS) if name in STRANGERS else 0
                taken.append(_scrape(agent.port, context, user))
            except (OSError, http.client.HTTPException):
                failed += 1
            fds, rss = max(fds, _fds(pid)), max(rss, _status(pid, "VmRSS") / 1000)
            time.sleep(GAP_SECONDS)
        done = int((attacker.stdout.read() if attacker.stdout else "") or 0)
    return Figures(name, done, tuple(taken), failed, rss, fds, (cpu_seconds(pid) - before) / seconds)


def _row(figures: Figures) -> str:
    p50, p99, longest = (f"{figures.quantile(share) * 1000:.0f} ms" for share in (0.5, 0.99, 1.0))
    cells = (
        ATTACKS[figures.attack][0],
        f"{figures.done:,}",
        len(figures.seconds),
        figures.failed,
        p50,
        p99,
        longest,
        f"{figures.cpu * 100:.0f} %",
        f"{figures.rss_mb:.0f} MB",
        figures.fds,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _table(all_figures: Sequence[Figures]) -> str:
    head = "| attack | how often | scrapes | failed | p50 | p99 | longest | CPU | memory | files |"
    return "\n".join((head, "|---|" + "--:|" * 9, *map(_row, all_figures)))


def run(names: Sequence[str], seconds: float) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kafka-eos-hostile-"))
    authority = Authority(folder / "tls")
    authority.issue("server")
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
    web = folder / "tls" / "web.yml"
    web.write_text(
        "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
        "basic_auth_users:\n" + "".join(f"  user{number}: {hashed}\n" for number in range(USERS))
    )
    context = ssl.create_default_context(cafile=authority.certificate)
    with ProcessGroup(folder) as processes:
        agent = AgentProcess(processes, "--bootstrap-server", "127.0.0.1:1", "--web.config.file", str(web))
        while True:
            try:
                _scrape(agent.port, context)
                break
            except OSError:
                time.sleep(0.1)
        pid = agent.child.pid
        files, threads = _fds(pid), int(_status(pid, "Threads"))
        figures = []
        for name in names:
            print(f"{ATTACKS[name][0]} ...", file=sys.stderr, flush=True)
            figures.append(measure(agent, context, name, seconds))
        until = time.monotonic() + SETTLE_SECONDS
        while _fds(pid) > files and time.monotonic() < until:
            time.sleep(0.2)
        print(_table(figures))
        print(
            f"\nfiles before and after: {files}, {_fds(pid)}; threads: {threads}, {int(_status(pid, 'Threads'))}; "
            f"memory at its most: {_status(pid, 'VmHWM') / 1000:.0f} MB; load of the machine: {os.getloadavg()[0]:.1f}"
        )
        errors = [line for line in agent.log.splitlines() if "level=error" in line or "Traceback" in line]
        print(f"errors in its log: {len(errors)}", *errors[:5], sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.hostile", description=__doc__.split("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--attack", choices=tuple(ATTACKS))
    parser.add_argument("--port", type=int)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    if options.port:
        print(ATTACKS[options.attack][1](options.port, time.monotonic() + options.seconds))
    else:
        run([options.attack] if options.attack else tuple(ATTACKS), options.seconds)


if __name__ == "__main__":
    main()
