"""A connection of the endpoint without a socket: bytes in, answers out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from exporter.exposition.render import Exposition
from exporter.status.app import App
from exporter.web_server.connection import Connection, Limits
from exporter.web_server.server import Application

ROUNDS = 6
"""Of the event loop, that an answer takes which needs no worker."""


class RecordingTransport(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.reading = True

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

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def connected(app: Application, state: ServerState, wire: RecordingTransport) -> Connection:
    config = Config(app, http=Connection, ws="none", lifespan="off", log_config=None)
    loopback = {("127.0.0.1", 1)}
    conn = Connection(config, state, {}, Limits(), tls=None, most=1, loopback=loopback)
    conn.connection_made(wire)
    return conn


async def ended(tasks: Collection[object]) -> None:
    while tasks:  # noqa: ASYNC110 -- tasks of uvicorn
        await asyncio.sleep(0)


async def exchange(pieces: Sequence[bytes]) -> list[int]:
    """The statuses that came back."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    app = App(Exposition(), dict, lambda: True, list)
    wire, state = RecordingTransport(), ServerState()
    conn = connected(app, state, wire)
    for piece in pieces:
        if wire.closed:
            break
        conn.data_received(piece)
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
    while state.tasks and not wire.closed and not conn.cycle.more_body:  # noqa: ASYNC110 -- tasks of uvicorn
        await asyncio.sleep(0)
    conn.connection_lost(None)
    await ended(state.tasks)
    app.close()
    assert errors == []
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (?!100)(\d+) ", wire.written)]


def agree(whole: list[int], cut: list[int]) -> bool:
    """Whether the answers are the same as far as both come. A request that comes before the answer to the last one ends
    the connection, and so may be answered or not; and a last refusal is not sent where an answer is still owed.
    """
    shorter, longer = sorted((_answered(whole), _answered(cut)), key=len)
    return longer[: len(shorter)] == shorter


def _answered(statuses: list[int]) -> list[int]:
    return statuses[:-1] if statuses[-1:] in ([400], [431]) else statuses
