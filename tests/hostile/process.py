"""An agent in a cgroup of 256 MB, and hostile JVMs and folders for it to read."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import zstandard

MEMORY_MB = 256
SECONDS = 300
TOKEN = "t0ken"


class Hostile(http.server.BaseHTTPRequestHandler):
    """A Jolokia, a jmx_exporter and a Connect that answer with as much as they can."""

    bodies: dict[str, bytes] = {}  # noqa: RUF012 -- made once
    asked: list[str] = []  # noqa: RUF012

    def answer(self) -> None:
        name = self.path.split("?")[0].strip("/").split("/")[0]
        self.asked.append(name)
        body = self.bodies.get(name, b"")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if body[:2] == b"\x1f\x8b":
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    do_GET = do_POST = answer  # noqa: N815 -- names of http.server

    def log_message(self, *_: object) -> None:
        """Nothing."""


def large(name: str) -> bytes:
    """An answer of 32 MB in the form of what asks."""
    size = 32 * 1024 * 1024 - 100
    match name:
        case "jolokia32":
            item = b'"client-id=%d":{"txn-commit-time-ns-total":1},'
            return b'[{"status":200,"value":{' + b"".join(item % at for at in range(size // 54)) + b'"x":{}}}]'
        case "jmx32":
            line = b'kafka_producer_txn_commit_time_ns_total{clientId="%d"} 1.0\n'
            return b"".join(line % at for at in range(size // 66))
    return b'{"c":{"status":{"connector":{"state":"FAILED","trace":"' + b"x" * size + b'"}}}}'


def bodies() -> dict[str, bytes]:
    series = b'kafka_producer_txn_commit_time_ns_total{clientId="%d"} 1.0\n'
    return {
        **{name: large(name) for name in ("jolokia32", "jmx32", "connect32")},
        "keys": b"[{" + b",".join(b'"%d":%d' % (at, at + 1000) for at in range(250_000)) + b"}]",
        "lists": b"[" + b"[]," * 300_000 + b"[]]",
        "spaces": b'[{"status":200,"value":{"kafka:' + b" " * 4_000_000 + b'":{}}}]',
        "gzip": gzip.compress(b" " * 500_000_000, 1),
        "series": b"".join(series % at for at in range(19_900)),
        "newlines": b"jvm_info 1\n" + b"\n" * 30_000_000,
        "connect": json.dumps(
            {
                f"c{at}": {
                    "status": {
                        "connector": {"state": "FAILED", "worker_id": "w\ud800", "trace": "x://" + ":" * 40_000},
                        "tasks": [{"id": 1e400 if at == 7 else 0, "state": "FAILED", "trace": "x://" + ":" * 40_000}],
                        "type": "source",
                    }
                }
                for at in range(30)
            }
        ).encode(),
    }


@contextmanager
def hostile_servers() -> Iterator[int]:
    """The port of all hostile servers."""
    Hostile.bodies = bodies()
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def bomb(megabytes: int) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    parts = [compressor.compress(b'{"Event":"a'), *(compressor.compress(b"a" * 2**20) for _ in range(megabytes))]
    return b"".join([*parts, compressor.flush()])


def folders(root: Path) -> None:
    """Event logs, checkpoints, results of audits, targets and a state that are none."""
    logs = root / "logs"
    logs.mkdir()
    content = bomb(1024)
    for at in range(5):
        (logs / f"app-{at}.zstd.inprogress").write_bytes(content)
    os.mkfifo(logs / "pipe")
    prefix = '{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent",'
    with (logs / "ids").open("w") as file:
        for at in range(200_000):
            file.write(f'{prefix}"id":"q{at}","name":null,"timestamp":"2026-11-21T00:00:00.000Z"}}\n')
    for name in ("metadata", "offsets/7", "commits/7"):
        path = root / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        offsets = b",".join(b'"%d":%d' % (at, at) for at in range(150_000))
        path.write_bytes(b'{"id":"q"}' if name == "metadata" else b'v1\n{}\n{"t":{' + offsets + b"}}")
    (root / "audits").mkdir()
    (root / "audits" / "deep.json").write_text("[" * 1_000_000)
    os.mkfifo(root / "audits" / "pipe.json")
    rows = ["- targets: ['127.0.0.1:1']", "  labels:", "    y0: &a0 [a, a, a, a, a, a, a, a, a, a]"]
    rows += [f"    y{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 12)]
    (root / "targets.yml").write_text("\n".join(rows))


def settings(root: Path, jvms: int) -> Path:
    ways = {"keys": "jolokia", "lists": "jolokia", "spaces": "jolokia", "gzip": "jolokia"}
    ways |= {"series": "jmx_exporter", "newlines": "jmx_exporter"}
    document = {
        "web": {"listen_address": "127.0.0.1:0"},
        "state": {"dir": str(root / "state")},
        "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}],
        "ingest": {"enabled": True, "token": TOKEN, "memory": "32MiB"},
        "producers": [
            *({way: f"http://127.0.0.1:{jvms}/{name}", "interval": "2s"} for name, way in ways.items()),
            {"jolokia": "http://{target}/jolokia", "file_sd": [str(root / "targets.yml")]},
        ],
        "connect": [{"name": "c", "rest": [f"http://127.0.0.1:{jvms}/connect"], "interval": "2s"}],
        "spark": [{"event_log": str(root / "logs")}, {"checkpoint": str(root / "checkpoint")}],
        "audits": [{"path": str(root / "audits" / "*.json")}],
    }
    path = root / "settings.json"
    path.write_text(json.dumps(document))
    return path


class ConfinedAgent:
    """The process, in a cgroup of its own where one can be made."""

    def __init__(self, config: Path, runner: Sequence[str] = ()) -> None:
        """``runner`` is a command that runs the agent's, such as nice."""
        self._log = config.with_suffix(".log")
        words = [sys.executable, "-m", "exporter", "run", "--config", str(config), "--log.format", "json"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen([*runner, *words], stderr=log)
        self.group = _cgroup(self.process.pid)
        self.port = self._wait_for_port()

    def _wait_for_port(self) -> int:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            for line in self.log.splitlines():
                if "127.0.0.1:" in line and "listen" in line.lower():
                    found = line.split("127.0.0.1:")[1]
                    digits = found[: next((at for at, text in enumerate(found) if not text.isdecimal()), len(found))]
                    if digits and digits != "0":
                        return int(digits)
            time.sleep(0.1)
        raise AssertionError(f"no port: {self.log[-3000:]}")

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def peak_mb(self) -> float:
        """Return what counts against a limit: the peak of its cgroup, else its own without the files that others map
        too.
        """
        if self.group is not None:
            peaks = (self.group / name for name in ("memory.max_usage_in_bytes", "memory.peak"))
            return int(next(path for path in peaks if path.exists()).read_text()) / 2**20
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        return (int(status["VmHWM"].split()[0]) - int(status["RssFile"].split()[0])) / 1024

    def page(self, path: str = "/metrics", body: bytes | None = None) -> str:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 -- our own
            return str(answer.read().decode())

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            if self.group is not None:
                self.group.rmdir()


def _cgroup(pid: int) -> Path | None:
    """A cgroup (version 1, or 2 where it is delegated) with the limit, and the process in it; None without one."""
    for root, limit in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = root / f"kafka-eos-hostile-{pid}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(MEMORY_MB * 1024 * 1024))
            (group / "cgroup.procs").write_text(str(pid))
        except OSError:
            group.rmdir()
            continue
        return group
    return None
