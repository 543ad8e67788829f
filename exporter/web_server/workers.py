"""Threads for what the event loop must not do itself: bcrypt, reading files, making pages, rereading settings."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Workers:
    """A few threads that start when they are needed first.

    They are daemons: ``concurrent.futures`` would wait for a call that hangs before it lets the process end.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name, self._threads = name, threads
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._started = 0
        self._busy = 0  # calls that run or wait; changed by the event loop's thread only

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 -- as the function takes them
        """Call the function on one of the threads and return or raise what it does. Call it in the event loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                result = function(*arguments)
            except BaseException as error:  # noqa: BLE001 -- raised where it is awaited
                _tell(loop, _fail, done, error)
            else:
                _tell(loop, _succeed, done, result)

        if self._busy >= self._started < self._threads:
            threading.Thread(target=self._work, name=f"{self._name} {self._started + 1}", daemon=True).start()
            self._started += 1
        self._busy += 1
        self._calls.put(call)
        try:
            return await done
        finally:
            self._busy -= 1

    def close(self) -> None:
        """End the threads once they have nothing to do."""
        for _ in range(self._started):
            self._calls.put(_leave)

    def _work(self) -> None:
        while True:
            try:
                self._calls.get()()
            except _LeaveError:
                return


class _LeaveError(Exception):
    """A thread has to end."""


def _leave() -> None:
    raise _LeaveError


def _tell(loop: asyncio.AbstractEventLoop, outcome: Callable[..., None], *values: Any) -> None:  # noqa: ANN401 -- any
    try:
        loop.call_soon_threadsafe(outcome, *values)
    except RuntimeError:  # the loop is closed: no request waits
        return


def _succeed(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
