"""Threads of the server that start when they are needed first."""

from __future__ import annotations

import asyncio
import threading
import weakref

import pytest

from exporter.web_server.workers import Workers


def test_a_thread_that_cannot_be_started_costs_its_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [True]
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if refused:
            refused.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    async def ask_twice() -> int:
        with pytest.raises(RuntimeError):
            await workers.run(lambda: 1)
        return await asyncio.wait_for(workers.run(lambda: 2), 10)

    monkeypatch.setattr(threading.Thread, "start", limited)
    workers = Workers("work", 1)
    assert asyncio.run(ask_twice()) == 2
    workers.close()


class Argument:
    """An argument that a test can see the end of."""


def test_a_call_that_is_cancelled_before_it_begins_keeps_no_argument() -> None:
    async def cancel() -> None:
        workers, go_on, made = Workers("work", 1), threading.Event(), list[Argument]()
        running = asyncio.ensure_future(workers.run(go_on.wait))
        argument = Argument()
        seen = weakref.ref(argument)
        waiting = asyncio.ensure_future(workers.run(made.append, argument))
        del argument
        await asyncio.sleep(0)
        assert seen() is not None
        waiting.cancel()
        await asyncio.wait([waiting])
        del waiting
        assert seen() is None
        go_on.set()
        await running
        await workers.run(lambda: None)
        assert made == []
        workers.close()

    asyncio.run(cancel())


def test_networks_of_clients_take_turns() -> None:
    async def ask() -> None:
        workers, go_on, order = Workers("work", 1), threading.Event(), list[str]()
        clients = ["2001:db8::2", "2001:db8::3", "10.0.0.1", "2001:db8::4", "10.0.0.1", "10.0.0.2"]
        calls = (workers.run(order.append, client, client=client) for client in clients)
        running = asyncio.gather(workers.run(go_on.wait, client="2001:db8::1"), *calls)
        await asyncio.sleep(0)
        go_on.set()
        await running
        one, other = "10.0.0.1", "10.0.0.2"
        assert order == [one, other, "2001:db8::2", one, "2001:db8::3", "2001:db8::4"]
        workers.close()

    asyncio.run(ask())
