"""Whatever bytes come in whatever pieces: the same answers, and no error of ours."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from exporter.web_server.connection import MAX_HEAD_BYTES
from tests.helpers.wire import RecordingTransport, agree, connected, ended, exchange

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
    whole, cut = asyncio.run(exchange([stream])), asyncio.run(exchange(pieces))
    assert agree(whole, cut), (whole, cut)
    assert whole[0] == cut[0] == 200


@settings(max_examples=30)
@given(st.binary(min_size=1, max_size=2000))
def test_bytes_one_by_one_are_what_they_are_together(stream: bytes) -> None:
    whole = asyncio.run(exchange([stream]))
    single = asyncio.run(exchange([bytes([byte]) for byte in stream]))
    assert agree(whole, single), (whole, single)


@pytest.mark.parametrize("pieces", [[WELL_FORMED, b"\r\n" + WELL_FORMED], [WELL_FORMED, b"\r\n", WELL_FORMED]])
def test_empty_lines_between_requests_are_skipped_in_whatever_pieces_they_come(pieces: list[bytes]) -> None:
    assert asyncio.run(exchange(pieces)) == [200, 200]


def test_a_request_before_the_answer_to_the_last_one_ends_the_connection_behind_that_answer() -> None:
    assert asyncio.run(exchange([WELL_FORMED * 2_000])) == [200]


def test_a_head_without_end_is_refused_within_a_piece_more_than_its_limit() -> None:
    async def ask() -> bytes:
        wire, state = RecordingTransport(), ServerState()
        conn = connected(healthy, state, wire)
        conn.data_received(b"GET / HTTP/1.1\r\nHost: ")
        for _ in range(MAX_HEAD_BYTES // 100 + 1):
            assert not wire.closed
            conn.data_received(b"x" * 100)
        conn.connection_lost(None)
        return wire.written

    assert asyncio.run(ask()).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("at_once", [True, False])
def test_a_body_is_not_received_before_the_application_asks_for_it(at_once: bool) -> None:
    async def ask() -> None:
        go, bodies = asyncio.Event(), list[bytes]()

        async def app(_scope: Any, receive: Any, send: Any) -> None:
            await go.wait()
            bodies.append((await receive())["body"])
            await healthy(_scope, receive, send)

        wire, state = RecordingTransport(), ServerState()
        conn = connected(app, state, wire)
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
        conn.data_received(head + b"12345" if at_once else head)
        await asyncio.sleep(0)
        assert not wire.is_reading()
        if not at_once:
            go.set()
            await asyncio.sleep(0)
            assert wire.is_reading()
            conn.data_received(b"12345")
        go.set()
        await ended(state.tasks)
        assert bodies == [b"12345"]
        conn.connection_lost(None)

    asyncio.run(ask())


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only what nothing refers to is freed."""
    gc.disable()
    yield
    gc.enable()


async def healthy(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("end", [None, ConnectionResetError()])
def test_a_connection_is_freed_when_its_client_closes_or_resets_it_after_an_answer(end: Exception | None) -> None:
    async def ask() -> None:
        state = ServerState()
        conn = connected(healthy, state, RecordingTransport())
        conn.data_received(WELL_FORMED)
        await ended(state.tasks)
        conn.connection_lost(end)
        left = weakref.ref(conn)
        del conn
        assert left() is None

    asyncio.run(ask())
