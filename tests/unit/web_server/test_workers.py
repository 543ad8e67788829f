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
