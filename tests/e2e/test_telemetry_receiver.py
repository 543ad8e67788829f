"""Our receiver in a broker, flooded while the address that it forwards to is down, silent, or slow."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from exporter.model import Deadline
from testkit import jars
from testkit.processes import java, poll, run_to_end
from testkit.settings import free_ports

FLOOD = Path(__file__).parents[2] / "testkit" / "java" / "FloodReceiver.java"
REPORTER = "kafka.eos.telemetry.TelemetryReporter37"
QUEUE_BYTES = 1_000_000
THREADS, PUSHES, BYTES = 4, 10_000, 2_000
LIVES_SECONDS = 3
LONGEST_CALL = 1_000_000
"""Microseconds: a fifth of the time limit of a request, so that a call that waits for the receiver is longer."""
RUN_SECONDS = 240.0
DROPPED = re.compile(r"(\d+) pushes of client metrics were dropped so far; the last because (.*)")


@contextmanager
def down() -> Iterator[tuple[str, list[int]]]:
    yield f"http://127.0.0.1:{free_ports(1)[0]}/v1/metrics", []


@contextmanager
def silent() -> Iterator[tuple[str, list[int]]]:
    """Connections are accepted by the kernel, and never answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1/metrics", []


@contextmanager
def slow() -> Iterator[tuple[str, list[int]]]:
    """Every answer takes 0.2 s."""
    taken: list[int] = []

    class SlowReceiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(len(self.rfile.read(int(self.headers["Content-Length"]))))
            until = Deadline.after(0.2)
            while poll(until, 0.05):
                pass
            with suppress(OSError):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), SlowReceiver) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/metrics", taken
        server.shutdown()


@pytest.mark.parametrize("receiver", [down, silent, slow], ids=["down", "silent", "slow"])
def test_request_threads_never_wait_and_what_does_not_fit_is_counted(receiver: object) -> None:
    assert callable(receiver)
    with receiver() as (url, taken):
        library = jars.library()
        program = java(
            256,
            library,
            "FloodReceiver",
            *(REPORTER, url, str(QUEUE_BYTES), str(THREADS), str(PUSHES), str(BYTES), str(LIVES_SECONDS)),
            classes=jars.classes(source=FLOOD),
            log_level="warn",
        )
        at = program.index("-cp") + 1
        program[at] += f":{jars.telemetry()}"
        done = run_to_end(program, Deadline.after(RUN_SECONDS))
    assert done.returncode == 0, done
    longest, percentile = map(int, done.stdout.split())
    print(f"longest call {longest} us, 99.9th percentile {percentile} us, taken {len(taken)}; {done.stderr[-300:]}")
    assert longest < LONGEST_CALL
    reports = DROPPED.findall(done.stderr)
    assert reports[0][1] == "the queue is full"
    assert reports[-1][1] == "the broker stops"
    # One push may be on its way to the receiver when the program ends.
    assert abs(THREADS * PUSHES - len(taken) - int(reports[-1][0])) <= 1, (reports, len(taken))
    assert len(taken) <= QUEUE_BYTES // BYTES
    if receiver is slow:
        assert taken
