"""A connection of the endpoint without a socket: bytes in, answers out."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from exporter.exposition.render import Exposition
from exporter.status.app import App
from exporter.web_server.connection import Connection, Limits

ROUNDS = 6
"""Of the event loop, that an answer takes which needs no worker."""


class RecordingTransport(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.closed:
            self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in {"peername", "sockname"} else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class ConnectionEvents:
    """The calls of the connection to its server."""

    limits = Limits()

    def __init__(self) -> None:
        self.most = 0
        self.gone = False

    def holds(self, connection: Connection, size: int) -> None:
        self.most = max(self.most, size)

    def takes(self, connection: Connection, body: bytes, sent: int) -> None: ...

    def left(self, connection: Connection) -> None:
        self.gone = True


async def exchange(pieces: Sequence[bytes]) -> tuple[list[int], bool, int]:
    """The statuses that came back, whether the connection was closed, and the most that it held."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    app = App(Exposition(), dict, lambda: True, list)
    config = Config(app, http=Connection, ws="none", lifespan="off", log_config=None)
    watched, wire, state = ConnectionEvents(), RecordingTransport(), ServerState()
    with socket.socket() as sock:
        conn = Connection(config, state, watched, sock, "127.0.0.1", loopback=True, tls=None)
        conn.connection_made(wire)
        for piece in pieces:
            if wire.closed:
                break
            conn.data_received(piece)
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
        # All but a request that waits for the rest of its body is answered, also where one stands behind others.
        while conn.answering and (conn.pipeline or not conn.cycle.more_body) and not wire.closed:  # noqa: ASYNC110 -- tasks of uvicorn
            await asyncio.sleep(0)
        for _ in range(ROUNDS):  # a refusal does not wait for a body
            await asyncio.sleep(0)
        conn.connection_lost(None)
        while state.tasks:  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0)
    app.close()
    assert errors == []
    assert watched.gone
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (?!100)(\d+) ", wire.written)], wire.closed, watched.most


def final(statuses: list[int]) -> list[int]:
    """Without the last refusal: it is not sent where answers are still owed when nonsense comes."""
    return statuses[:-1] if statuses[-1:] in ([400], [413], [414]) else statuses
