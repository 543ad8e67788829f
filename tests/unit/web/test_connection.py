"""Whatever bytes come in whatever pieces: the same answers, no error of ours, and no more memory than allowed."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.config import Config
from uvicorn.server import ServerState

from exporter.exposition.render import Exposition
from exporter.web.app import App
from exporter.web.connection import MAX_BODY_BYTES, MAX_HEAD_BYTES, PIECE_BYTES, Connection, Limits

FRAGMENTS = (
    b"GET /-/healthy HTTP/1.1\r\n",
    b"GET /-/healthy HTTP/1.0\r\n",
    b"HEAD /nothing HTTP/1.1\r\n",
    b"POST /-/healthy HTTP/1.1\r\n",
    b"GET //x HTTP/1.1\r\n",
    b"CONNECT x:1 HTTP/1.1\r\n",
    b"Host: localhost\r\n",
    b"Host: a b\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 00000000005\r\n",
    b"Content-Length: 70000\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"X: " + b"x" * 900 + b"\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b"12345",
    b"0\r\n\r\n",
    b"\xff" * 20,
)
WELL_FORMED = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"
WHOLE = (
    WELL_FORMED,
    b"POST /-/healthy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12345",
    b"POST /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\n12345",
    b"\r\n",
)
PARTS = st.lists(st.sampled_from(WHOLE) | st.sampled_from(FRAGMENTS) | st.binary(max_size=8), max_size=16)


class Wire(asyncio.Transport):
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


class Watched:
    """What the connection tells its server."""

    limits = Limits()

    def __init__(self) -> None:
        self.most = 0
        self.gone = False

    def holds(self, connection: Connection, size: int) -> None:
        self.most = max(self.most, size)

    def slow(self, connection: Connection, *, is_slow: bool) -> None: ...

    def left(self, connection: Connection) -> None:
        self.gone = True


async def exchange(pieces: Sequence[bytes]) -> tuple[list[int], bool, int]:
    """The statuses that came back, whether the connection was closed, and the most that it held."""
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    config = Config(
        App(Exposition(), dict, lambda: True, list), http=Connection, ws="none", lifespan="off", log_config=None
    )
    watched, wire, state = Watched(), Wire(), ServerState()
    with socket.socket() as sock:
        conn = Connection(config, state, watched, sock, "127.0.0.1", loopback=True, tls=None)
        conn.connection_made(wire)
        for piece in pieces:
            if wire.closed:
                break
            conn.data_received(piece)
            for _ in range(6):  # rounds of the loop that an answer takes
                await asyncio.sleep(0)
        while conn.answering and conn.cycle.more_body is False and not wire.closed:  # noqa: ASYNC110 -- tasks of uvicorn
            await asyncio.sleep(0)
        conn.connection_lost(None)
        while state.tasks:  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0)
    assert errors == []
    assert watched.gone
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (?!100)(\d+) ", wire.written)], wire.closed, watched.most


def final(statuses: list[int]) -> list[int]:
    """Without the last refusal: it is not sent where answers are still owed when nonsense comes."""
    return statuses[:-1] if statuses[-1:] in ([400], [413], [414]) else statuses


@settings(max_examples=300)
@given(PARTS, st.data())
def test_the_answers_do_not_depend_on_the_pieces_that_requests_come_in(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join((WELL_FORMED, *parts))
    ends = list(itertools.accumulate(map(len, (WELL_FORMED, *parts))))
    cuts = sorted(data.draw(st.lists(st.sampled_from(ends) | st.integers(1, len(stream)), max_size=8)))
    pieces = [stream[at:to] for at, to in zip([0, *cuts], [*cuts, len(stream)], strict=True) if at < to]
    whole, whole_closed, most = asyncio.run(exchange([stream]))
    cut, cut_closed, most_cut = asyncio.run(exchange(pieces))
    assert final(whole) == final(cut)
    assert whole_closed == cut_closed
    assert max(most, most_cut) <= MAX_HEAD_BYTES + PIECE_BYTES + 17 * MAX_BODY_BYTES
    assert whole[0] == cut[0] == 200


@settings(max_examples=30)
@given(st.binary(min_size=1, max_size=2000))
def test_bytes_one_by_one_are_what_they_are_together(stream: bytes) -> None:
    whole = asyncio.run(exchange([stream]))
    single = asyncio.run(exchange([bytes([byte]) for byte in stream]))
    assert final(whole[0]) == final(single[0])
    assert whole[1] == single[1]


@pytest.mark.parametrize(
    "pieces",
    [
        [WELL_FORMED + b"\r\n" + WELL_FORMED],
        [WELL_FORMED, b"\r\n" + WELL_FORMED],
        [WELL_FORMED, b"\r\n", WELL_FORMED],
        [WELL_FORMED + b"\r", b"\n" + WELL_FORMED],
    ],
)
def test_empty_lines_between_requests_are_skipped_in_whatever_pieces_they_come(pieces: list[bytes]) -> None:
    assert asyncio.run(exchange(pieces))[0] == [200, 200]
