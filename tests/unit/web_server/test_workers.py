"""Threads of the server that start when they are needed first."""

from __future__ import annotations

import asyncio
import threading

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


def test_a_call_that_is_cancelled_before_it_begins_is_not_made() -> None:
    async def cancel() -> None:
        workers, go_on, made = Workers("work", 1), threading.Event(), list[int]()
        running = asyncio.ensure_future(workers.run(go_on.wait))
        waiting = asyncio.ensure_future(workers.run(made.append, 1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        go_on.set()
        await running
        await workers.run(made.append, 2)
        assert made == [2]
        workers.close()

    asyncio.run(cancel())
