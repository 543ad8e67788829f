from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from exporter.connect.preflight import PluginSupport, preflight
from exporter.connect.rest import ConnectRest
from exporter.http_client import Endpoint
from exporter.model import Deadline

SECRET = "hunter2"
CONFIG = {"connector.class": "Mirror", "consumer.isolation.level": "read_committed", "password": SECRET}
NO = "The connector does not support exactly-once semantics with the provided configuration."


class ConnectWorker(BaseHTTPRequestHandler):
    """A worker with one source connector, whose plugin supports exactly-once where it reads committed records."""

    validated: list[bytes]
    refuses = False
    unknown = "none"

    def do_GET(self) -> None:
        if self.path.endswith("/config"):
            self.answer(CONFIG)
        elif "expand" in self.path:
            self.answer({"mirror": {"status": {"type": "source", "tasks": []}, "info": {"config": CONFIG}}})
        else:
            self.answer([])

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.validated.append(body)
        if self.unknown in self.path:
            self.answer({"error_code": 404, "message": "no such plugin"}, 404)
            return
        if self.refuses and SECRET.encode() in body:
            self.answer({"error_code": 500, "message": f"password {SECRET} is wrong"}, 500)
            return
        errors = [] if b"read_committed" in body else [NO]
        self.answer({"configs": [{"value": {"name": "exactly.once.support", "errors": errors}}]})

    def answer(self, document: object, status: int = 200) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def worker() -> Iterator[tuple[type[ConnectWorker], Endpoint]]:
    handler = type("OneWorker", (ConnectWorker,), {"validated": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield handler, Endpoint(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_an_unsupported_plugin_is_asked_again_with_the_settings_of_its_connector_and_they_go_nowhere_else(
    worker: tuple[type[ConnectWorker], Endpoint], caplog: pytest.LogCaptureFixture
) -> None:
    handler, endpoint = worker
    with caplog.at_level("DEBUG"):
        found = ConnectRest([endpoint], validate=True).read(Deadline.after(10))
    assert found.preflight.plugins == {"Mirror": PluginSupport.UNSUPPORTED}
    assert found.preflight.connectors == {"mirror": PluginSupport.SUPPORTED}
    assert [SECRET.encode() in body for body in handler.validated] == [False, True]
    assert SECRET not in repr(found)
    assert SECRET not in caplog.text


def test_a_plugin_that_no_worker_has_keeps_no_worker_from_being_asked_about_another(
    worker: tuple[type[ConnectWorker], Endpoint],
) -> None:
    handler, endpoint = worker
    handler.unknown = "Absent"
    other = Endpoint(endpoint.url.replace("127.0.0.1", "localhost"))
    found = preflight([endpoint, other], ["Absent", "Mirror"], Deadline.after(10))
    assert found.workers == {endpoint.address: True, other.address: True}
    assert found.plugins == {"Mirror": PluginSupport.UNSUPPORTED}


def test_a_refusal_that_quotes_settings_is_told_nowhere(
    worker: tuple[type[ConnectWorker], Endpoint], caplog: pytest.LogCaptureFixture
) -> None:
    handler, endpoint = worker
    handler.refuses = True
    with caplog.at_level("DEBUG"):
        found = ConnectRest([endpoint], validate=True).read(Deadline.after(10))
    assert found.preflight.connectors == {}
    assert SECRET not in repr(found)
    assert SECRET not in caplog.text
