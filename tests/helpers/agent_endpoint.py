"""A fake of the agent's endpoint: keeps posted documents, and answers with a status."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class StubEndpoint(Generic[T]):
    """``posts`` are path, headers and body, as ``read`` makes it; no answer is given while ``hold`` is cleared."""

    def __init__(self, read: Callable[[bytes], T]) -> None:
        self.posts: SimpleQueue[tuple[str, dict[str, str], T]] = SimpleQueue()
        self.status = 204
        self.hold = threading.Event()
        self.hold.set()
        agent = self

        class StubHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = read(self.rfile.read(int(self.headers["Content-Length"])))
                agent.posts.put((self.path, dict(self.headers), body))
                agent.hold.wait(10)
                self.send_response(agent.status)
                if agent.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), StubHandler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()
