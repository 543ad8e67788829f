"""A real Alertmanager on the loopback interface, with a receiver that records each notification."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from testkit.settings import free_ports

WAIT_SECONDS = 50.0


class Notification(NamedTuple):
    """A notification of a receiver: its name, "firing" or "resolved", the labels of the alerts, and the bytes of the
    body.
    """

    receiver: str
    status: str
    alerts: tuple[Mapping[str, str], ...]
    size: int


class Alertmanager:
    """A running Alertmanager. ``notified`` has its notifications in order."""

    def __init__(self, url: str, notified: queue.Queue[Notification]) -> None:
        self._url = url
        self.notified = notified

    def send(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Post alerts as Prometheus does. Raises urllib.error.URLError while it does not listen yet."""
        body = json.dumps(alerts).encode()
        request = urllib.request.Request(f"{self._url}/api/v2/alerts", body, {"Content-Type": "application/json"})  # noqa: S310 -- loopback
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 -- loopback

    def received(self, count: int) -> list[Notification]:
        """Wait for so many notifications. Raises queue.Empty when one does not come in time."""
        return [self.notified.get(timeout=WAIT_SECONDS) for _ in range(count)]


@contextmanager
def receiving() -> Iterator[tuple[str, queue.Queue[Notification]]]:
    """Run a webhook receiver: its URL, below which a receiver has its name, and what comes, in order."""
    notified: queue.Queue[Notification] = queue.Queue()

    class AlertReceiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            message = json.loads(body)
            labels = tuple(alert["labels"] for alert in message["alerts"])
            notified.put(Notification(self.path.strip("/"), message["status"], labels, len(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), AlertReceiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", notified
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def running(config: str, folder: Path) -> Iterator[Alertmanager]:
    """Run an Alertmanager with this configuration, whose groups wait for a second and whose receivers are recorded."""
    with receiving() as (url, notified):
        yield from _started(yaml.safe_load(config), folder, url, notified)


def _started(
    made: dict[str, Any], folder: Path, url: str, notified: queue.Queue[Notification]
) -> Iterator[Alertmanager]:
    for route in made["route"]["routes"]:
        route["group_wait"] = "1s"
    for receiver in made["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{url}/{receiver['name']}", "send_resolved": False}]
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(made))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager") or "alertmanager"
    process = subprocess.Popen(
        [
            binary,
            f"--config.file={path}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--cluster.listen-address=",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(f"http://{address}/-/ready")
        yield Alertmanager(f"http://{address}", notified)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 -- loopback
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
