"""``python -m tests.hostile.siege``: every attack at once on an agent in a cgroup of 256 MB, and users meanwhile.

The agent has TLS, users, posted data, JVMs, a Connect and Spark's folders. Attackers are processes of the lowest
priority; agent and users, as root, are scheduled before all else: the figures are about the agent, not about the
processor. Prints how many requests of honest users failed and how long they took.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import bcrypt

from demo.certificates import Authority
from tests.bench import hostile as endpoint
from tests.hostile.process import MEMORY_MB, TOKEN, ConfinedAgent, folders, hostile_servers, settings

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
ASTRAL = "\N{PILE OF POO}"
BASIC = "Basic " + base64.b64encode(f"user1:{endpoint.PASSWORD}".encode()).decode()
ANEW = " on a new connection"
GAPS = {"/metrics": 0.2, f"/metrics{ANEW}": 1.0, "/": 2.0, "/api/v1/status": 5.0, "/ingest/librdkafka": 0.5}
"""Seconds between two requests of an honest user, by path."""
FIRST = ("chrt", "--rr", "1") if os.geteuid() == 0 else ()
"""Runs a command before all others of the machine: priorities do not hold between sessions of Linux's autogroups."""
TURN = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
TURN_MS = "4"
"""How long a thread runs before another one with ``FIRST``: about as with the usual scheduler. With the kernel's
100 ms, two threads that decode keep the event loop from both processors for 95 ms (median) whenever it wakes.
"""


class SiegeFigures(NamedTuple):
    """The requests of honest users for one path: seconds of those that were answered, and how the others failed."""

    path: str
    seconds: tuple[float, ...]
    failed: tuple[str, ...]

    def quantile(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))] if self.seconds else 0.0


# --- Attacks ----------------------------------------------------------------------------------------------------------


def _socket(port: int, source: str = "127.0.0.77") -> ssl.SSLSocket:
    sock = socket.create_connection((HOST, port), timeout=30, source_address=(source, 0))
    return endpoint._tls().wrap_socket(sock)


def _request(path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    head = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", "Host: 127.0.0.1"]
    head.append(f"Authorization: Bearer {TOKEN}" if body else f"Authorization: {BASIC}")
    if body:
        head += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join((*head, "", "")).encode() + body


def _post(port: int, requests: Iterator[bytes], until: float) -> int:
    """Send them one after the other; returns how many were accepted."""
    taken = 0
    sock = _socket(port)
    for request in requests:
        if time.monotonic() > until:
            break
        try:
            sock.sendall(request)
            answer = sock.recv(65536)
        except OSError:
            answer = b""
        taken += answer.startswith(b"HTTP/1.1 2")
        if not answer:
            sock.close()
            time.sleep(0.1)
            with contextlib.suppress(OSError):
                sock = _socket(port)
    return taken


def _telemetry(senders: int, series: int) -> Iterator[bytes]:
    """Counters of clients whose instance id is as long as it may be."""
    round_ = 0
    while True:
        for sender in range(senders):
            instance = f"{round_ % 3}-{sender}".rjust(400, ASTRAL)
            points = [
                {
                    "attributes": [{"key": "client_id", "value": {"stringValue": f"p-{at}"}}],
                    "timeUnixNano": str(time.time_ns()),
                    "asDouble": 1.0,
                }
                for at in range(series)
            ]
            metric = {
                "name": "org.apache.kafka.producer.record.send.total",
                "sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": points},
            }
            resource = {"attributes": [{"key": "service.instance.id", "value": {"stringValue": instance}}]}
            document = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}
            yield _request("/v1/metrics", json.dumps(document).encode())
        round_ += 1


def _audits(names: int, findings: int) -> Iterator[bytes]:
    at = 0
    while True:
        found = [{"kind": "gap", "topic": "t", "count": 1}] * findings
        document = {"audit": f"a{at % names}", "finished_at": time.time(), "verdict": "findings"}
        document |= {"topics": {"t": {"verdict": "findings"}}, "findings": found}
        yield _request("/ingest/audit", json.dumps(document, separators=(",", ":")).encode())
        at += 1


def _queries() -> Iterator[bytes]:
    at = 0
    while True:
        offsets = {f"t{at}": {str(number): number + 100_000 * at for number in range(3500)}}
        source = {"description": "KafkaV2[x]", "endOffset": offsets, "numInputRows": 1}
        progress = {
            "batchId": 1,
            "timestamp": "2026-11-21T00:00:00Z",
            "durationMs": {"addBatch": 1},
            "sources": [source],
        }
        document = {"id": f"q{at}", "application": "x", "state": "running", "progress": progress}
        yield _request("/ingest/spark", json.dumps(document).encode())
        at += 1


def _pages(readers: int, patience: float, path: Callable[[int], str]) -> endpoint.Attack:
    """Requests by so many readers at once, each of which waits for the answer so many seconds."""

    def strike(port: int) -> None:
        with _socket(port) as sock:
            sock.settimeout(patience)
            sock.sendall(_request(path(time.monotonic_ns())).replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            while sock.recv(1 << 20):
                pass

    return endpoint._repeat(strike, readers)


def _slow(path: str, readers: int) -> endpoint.Attack:
    """Readers that take one byte now and then, each of a body of its own."""

    def attack(port: int, until: float) -> int:
        held: list[ssl.SSLSocket] = []
        opened = 0
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                sock = _socket(port, f"127.0.0.{80 + opened % 20}")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.sendall(_request(path))
                held.append(sock)
                opened += 1
            for client in held:
                with contextlib.suppress(OSError):
                    client.setblocking(False)
                    client.recv(1)
            while len(held) > readers:
                held.pop(0).close()
            time.sleep(0.6)  # the next body
        return opened

    return attack


def _controls(port: int) -> None:
    """C1, line separators and a change of direction in a path and a name."""
    with _socket(port) as sock:
        sock.sendall(_request("/%C2%85%E2%80%A8%E2%80%AE?application=%E2%80%AE%C2%85"))
        sock.recv(65536)


ATTACKS: Mapping[str, endpoint.Attack] = {
    "telemetry": lambda port, until: _post(port, _telemetry(120, 1500), until),
    "audits": lambda port, until: _post(port, _audits(500, 1500), until),
    "queries": lambda port, until: _post(port, _queries(), until),
    "pages": _pages(20, 30.0, lambda at: f"/?application=a{at}"),
    "pages-closed": _pages(50, 0.3, lambda at: f"/?application=b{at}"),
    "documents": _pages(10, 30.0, lambda _: "/api/v1/status"),
    "slow-metrics": _slow("/metrics", 64),
    "slow-status": _slow("/api/v1/status", 16),
    "slow-pages": _slow("/", 16),
    "controls": endpoint._repeat(_controls, 2),
    **{name: attack for name, (_, attack) in endpoint.ATTACKS.items() if name != "calm"},
}


# --- Honest users -----------------------------------------------------------------------------------------------------


class Honest(threading.Thread):
    """One user, with one connection that stays open while it can, or with a new one for each request."""

    def __init__(self, port: int, name: str, until: float) -> None:
        super().__init__(name=name, daemon=True)
        self._port, self._path, self._until = port, name.removesuffix(ANEW), until
        self._seconds: list[float] = []
        self._failed: list[str] = []

    def run(self) -> None:
        connection = self._connection()
        while time.monotonic() < self._until:
            began = time.monotonic()
            try:
                if connection.sock is None and not self.name.endswith(ANEW):
                    connection.connect()
                    began = time.monotonic()  # as of Prometheus, whose connection stays open
                status = self._ask(connection)
                if status >= 300:
                    self._failed.append(str(status))
            except (OSError, http.client.HTTPException) as error:
                self._failed.append(f"{type(error).__name__} {error} after {time.monotonic() - began:.1f}s")
                connection.close()
                connection = self._connection()
            else:
                self._seconds.append(time.monotonic() - began)
            if self.name.endswith(ANEW):
                connection.close()
            time.sleep(GAPS[self.name])

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(HOST, self._port, timeout=30, context=endpoint._tls())

    def _ask(self, connection: http.client.HTTPSConnection) -> int:
        if self._path.startswith("/ingest"):
            eos = {"idemp_state": "Assigned", "txn_state": "Ready"}
            body = json.dumps({"client_id": "honest", "eos": eos, "txmsgs": 1}).encode()
            head = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
            connection.request("POST", self._path, body, head)
        else:
            connection.request("GET", self._path, headers={"Authorization": BASIC, "Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    @property
    def figures(self) -> SiegeFigures:
        return SiegeFigures(self.name, tuple(self._seconds), tuple(self._failed))


# --- The siege --------------------------------------------------------------------------------------------------------


def prepared(root: Path, jvms: int, memory: str = "32MiB") -> Path:
    """The settings of an agent that reads hostile JVMs and folders, with TLS, users and posted data."""
    folders(root)
    config = settings(root, jvms)
    document = json.loads(config.read_text())
    authority = Authority(root / "tls")
    authority.issue("server")
    hashed = bcrypt.hashpw(endpoint.PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (root / "tls" / "web.yml").write_text(
        "tls_server_config: {cert_file: server.pem, key_file: server.key}\n"
        f"basic_auth_users:\n  user0: {hashed}\n  user1: {hashed}\n"
    )
    document["web"]["config_file"] = str(root / "tls" / "web.yml")
    document["ingest"]["memory"] = memory
    config.write_text(json.dumps(document))
    return config


def honest(port: int, seconds: float) -> list[SiegeFigures]:
    """The figures of all users, who ask for so long."""
    users = [Honest(port, path, time.monotonic() + seconds) for path in GAPS]
    for user in users:
        user.start()
    for user in users:
        user.join()
    return [user.figures for user in users]


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """``TURN_MS`` for all of the machine, where we may."""
    before = TURN.read_text() if FIRST and TURN.exists() else ""
    if before:
        TURN.write_text(TURN_MS)
    try:
        yield
    finally:
        if before:
            TURN.write_text(before)


def besiege(agent: ConfinedAgent, seconds: float, names: Sequence[str]) -> tuple[list[SiegeFigures], dict[str, int]]:
    """Attack for so long; the figures of honest users, and how often each attack struck."""
    words = [sys.executable, "-m", "tests.hostile.siege", "--port", str(agent.port), "--seconds", str(seconds)]
    attackers = {
        name: subprocess.Popen(
            ["nice", "-n", "19", *words, "--attack", name], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for name in names
    }
    users = subprocess.run([*FIRST, *words, "--honest"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    struck = {}
    for name, attacker in attackers.items():
        try:
            struck[name] = int(attacker.communicate(timeout=5)[0] or 0)
        except subprocess.TimeoutExpired:
            attacker.kill()
            attacker.wait()
            struck[name] = -1
    return [SiegeFigures(*figures) for figures in json.loads(users.stdout)], struck


def _row(measured: SiegeFigures) -> str:
    p50, p99, longest = (f"{measured.quantile(share) * 1000:.0f} ms" for share in (0.5, 0.99, 1.0))
    return f"| {measured.path} | {len(measured.seconds)} | {len(measured.failed)} | {p50} | {p99} | {longest} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.siege", description=__doc__)
    parser.add_argument("--attack", help="only these, with commas between; with --port one, on that agent")
    parser.add_argument("--port", type=int)
    parser.add_argument("--honest", action="store_true", help="with --port: the users of that agent")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--memory", default="32MiB", help="ingest.memory")
    parser.add_argument("--no-jvms", action="store_true")
    options = parser.parse_args()
    if options.honest:
        print(json.dumps(honest(options.port, options.seconds)))
        return
    if options.port:
        print(ATTACKS[options.attack](options.port, time.monotonic() + options.seconds))
        return
    root = Path(tempfile.mkdtemp(prefix="kafka-eos-siege-"))
    names = options.attack.split(",") if options.attack else list(ATTACKS)
    with short_turns(), hostile_servers() as jvms:
        config = prepared(root, jvms, options.memory)
        if options.no_jvms:
            document = json.loads(config.read_text())
            for key in ("producers", "connect", "spark"):
                document.pop(key, None)
            config.write_text(json.dumps(document))
        agent = ConfinedAgent(config, FIRST)
        began = time.monotonic()
        try:
            figures, struck = besiege(agent, options.seconds, names)
        finally:
            ended = agent.process.poll()
            peak = agent.peak_mb
            code = agent.stop() if ended is None else ended
    print("| path | answered | failed | p50 | p99 | longest |\n|---|--:|--:|--:|--:|--:|")
    print("\n".join(map(_row, figures)))
    ended_after, load = time.monotonic() - began, os.getloadavg()[0]
    print(f"\n{ended_after:.0f} s; peak {peak:.0f} of {MEMORY_MB} MB; exit code {code}; load {load:.0f}")
    print("how often the attacks struck:", json.dumps(struck))
    for figure in figures:
        print(figure.path, *list(figure.failed)[:5], sep="\n  ")
    errors = [
        line for line in agent.log.splitlines() if '"level":"error"' in line.replace(" ", "") or "Traceback" in line
    ]
    print(f"errors in the log: {len(errors)}", *errors[:5], sep="\n")


if __name__ == "__main__":
    main()
