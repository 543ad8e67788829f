"""Whatever bytes come in whatever pieces: the same answers, no error of ours, and no more memory than allowed."""

from __future__ import annotations

import asyncio
import gc
import itertools
import socket
import weakref
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.config import Config
from uvicorn.server import ServerState

from exporter.web_server.connection import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    PIECE_BYTES,
    REQUEST_BYTES,
    Connection,
)
from exporter.web_server.server import Application
from tests.helpers.wire import ConnectionEvents, RecordingTransport, exchange, final

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


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only what nothing refers to is freed."""
    gc.disable()
    yield
    gc.enable()


def connected(app: Application) -> tuple[Connection, ConnectionEvents]:
    config = Config(app, http=Connection, ws="none", lifespan="off", log_config=None)
    events = ConnectionEvents()
    with socket.socket() as sock:
        conn = Connection(config, ServerState(), events, sock, "127.0.0.1", loopback=True, tls=None)
    conn.connection_made(RecordingTransport())
    return conn, events


async def ended(tasks: Collection[object]) -> None:
    while tasks:  # noqa: ASYNC110 -- tasks of uvicorn
        await asyncio.sleep(0)


async def healthy(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def waiting_behind(unanswered: bytes, requests: bytes) -> tuple[int, bool]:
    """The most bytes that a connection said it holds, of requests none of which is answered, and whether it was freed
    when its client left, while the first one went on.
    """

    async def ask() -> tuple[int, bool]:
        go = asyncio.Event()

        async def app(_scope: Any, _receive: Any, _send: Any) -> None:
            await go.wait()

        conn, events = connected(app)
        conn.data_received(unanswered)
        await asyncio.sleep(0)
        conn.data_received(requests)
        conn.connection_lost(None)
        left, tasks = weakref.ref(conn), conn.tasks
        del conn
        freed = left() is None
        go.set()
        await ended(tasks)
        return events.most, freed

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("target", "headers", "least"),
    [
        (b"/" + b"a" * 15_000, b"", 45_000),  # the target, its path, and that once more decoded
        (b"/?" + b"a" * 15_000, b"", 30_000),
        (b"/" + b"a" * 15_000 + b"%F0%9F%92%A9", b"", 90_000),
        (b"/", b"ab:cd\r\n" * 1500, 1500 * (4 + HEADER_BYTES)),
        (b"/", b"X: " + b"x" * 15_000 + b"\r\n", 15_000),
    ],
    ids=["path", "query", "wide path", "many headers", "long header"],
)
def test_requests_that_wait_count_with_their_heads_as_memory_holds_them(
    target: bytes, headers: bytes, least: int
) -> None:
    request = b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"
    one, _ = waiting_behind(WELL_FORMED, request)
    many, _ = waiting_behind(WELL_FORMED, request * 10)
    running, _ = waiting_behind(request, b"")
    first, _ = waiting_behind(WELL_FORMED, b"")
    assert running == one - first == (many - first) // 10
    assert least < running < least + REQUEST_BYTES + 1000


@pytest.mark.usefixtures("no_collector")
def test_requests_that_wait_are_freed_when_their_client_leaves_while_the_first_one_runs() -> None:
    assert waiting_behind(WELL_FORMED, WELL_FORMED * 10)[1]
    assert waiting_behind(WELL_FORMED, b"")[1]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("end", [None, ConnectionResetError()])
def test_a_connection_is_freed_when_its_client_closes_or_resets_it_after_an_answer(end: Exception | None) -> None:
    async def ask() -> None:
        conn, _ = connected(healthy)
        conn.data_received(WELL_FORMED)
        await ended(conn.tasks)
        conn.connection_lost(end)
        left = weakref.ref(conn)
        del conn
        assert left() is None

    asyncio.run(ask())


@pytest.mark.usefixtures("no_collector")
def test_an_answered_request_is_freed_while_its_connection_stays_open() -> None:
    async def ask() -> None:
        conn, _ = connected(healthy)
        for _ in range(3):
            conn.data_received(WELL_FORMED)
            request = weakref.ref(conn.cycle)
            await ended(conn.tasks)
            assert request() is None
            assert conn.headers == []
        conn.connection_lost(None)

    asyncio.run(ask())
