"""Threads for what the event loop must not do itself: bcrypt, reading files, making pages, rereading settings."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

Call = Callable[[], None]


class Workers:
    """A few threads that start when they are needed first, and make calls in their order.

    They are daemons: ``concurrent.futures`` would wait for a call that hangs before it lets the process end.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name, self._threads = name, threads
        self._started = 0
        self._calls: SimpleQueue[Call | None] = SimpleQueue()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 -- as the function takes them
        """Call the function on one of the threads and return or raise what it does. Call it in the event loop.

        A call that is cancelled before it is begun is not made.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            if done.cancelled():
                return
            try:
                result = function(*arguments)
            except BaseException as error:  # noqa: BLE001 -- raised where it is awaited
                _tell(loop, done, partial(done.set_exception, error))
            else:
                _tell(loop, done, partial(done.set_result, result))

        if self._started < self._threads:
            threading.Thread(target=self._work, name=f"{self._name} {self._started + 1}", daemon=True).start()
            self._started += 1
        self._calls.put(call)
        return await done

    def close(self) -> None:
        """End the threads once they have nothing to do."""
        for _ in range(self._started):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # its arguments may be megabytes, and the next one may come in a month


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], outcome: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(lambda: None if done.done() else outcome())
    except RuntimeError:  # the loop is closed: no request waits
        return
